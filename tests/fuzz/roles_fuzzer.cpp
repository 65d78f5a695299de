// libraries: simgpu_digest
#include <array>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzzer.h"
#include "tools/simgpu/digest/engine.h"
#include "tools/simgpu/digest/extent_map.h"

/// Role files, and launches by whatever rules they hold: a rule decides what is touched, never more than
/// there is.
namespace {

namespace dg = simgpu::digest;

class OpenMemory : public dg::LaunchMemory {
 public:
  using LaunchMemory::LaunchMemory;
  bool guarded(void (*work)(void*), void* argument) override {
    work(argument);
    return true;
  }
  bool refuses(const dg::StrayPointer& stray) override {
    fuzz_require(stray.address != 0 && stray.access != dg::Access::kNone);
    return stray.address % 2 != 0;
  }
};

void check_rule(const dg::Rule& rule) {
  fuzz_require(!rule.pattern.empty() && rule.line > 1);
  for (const dg::RoleLine& line : rule.lines) {
    fuzz_require(line.kind == dg::RoleLine::Kind::kValue || !line.roles.empty());
  }
}

/// Two launches, by parameters of many sizes: pointers, a table of them, numbers.
void launch(const dg::Rule& rule) {
  alignas(512) static std::array<std::uint64_t, 512> memory;
  const auto base = reinterpret_cast<std::uint64_t>(memory.data());
  dg::ExtentMap map;
  map.add(base, 1024, 0, 1);
  map.add(base + 1536, 1024, 512, 1);
  memory[0] = base + 8;
  map.wrote_payload({base, base + 64}, 2);

  struct Lists {
    std::uint64_t words[393];  // as large as two lists of tensors
  };
  struct Parameters {
    std::uint64_t first, second;
    std::uint32_t number;
    std::uint32_t packed[3];
    Lists lists;
  } p{base + 4, base + 1600, 3, {}, {}};
  p.lists.words[0] = base;
  p.lists.words[64] = base + 1536;
  const std::vector<dg::Slot> layout = {{0, 8}, {8, 8}, {16, 4}, {20, 12}, {32, sizeof(Lists)}};
  const auto* bytes = reinterpret_cast<const unsigned char*>(&p);
  for (const char* name : {"k", "_Z1fPKfPPfi5Small5Lists"}) {
    dg::KernelRoles roles = dg::bind({}, name, layout);
    roles.rule = &rule;
    OpenMemory view(map, 3);
    const dg::Effect effect = dg::run(roles, {{2, 3, 1}, {bytes, sizeof p}}, dg::kEveryByte, view);
    for (const dg::Touched& t : effect.touched) {
      const bool in_first = t.span.begin >= base && t.span.end <= base + 1024;
      const bool in_second = t.span.begin >= base + 1536 && t.span.end <= base + 2560;
      fuzz_require(t.span.begin < t.span.end && (in_first || in_second));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const dg::ParsedRoles parsed = dg::parse_roles(text, "file");
  if (!parsed.error.empty()) {
    fuzz_require(parsed.file.rules.empty() && parsed.error.starts_with("file:"));
    fuzz_require(parsed.error.find('\n') == std::string::npos);
    return 0;
  }
  for (const dg::Rule& rule : parsed.file.rules) {
    check_rule(rule);
    launch(rule);
    static_cast<void>(dg::matches(rule.pattern, "void at::native::k<float>(float*, int)"));
  }
  return 0;
}
