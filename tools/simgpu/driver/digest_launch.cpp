#include "tools/simgpu/driver/digest_launch.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "tools/simgpu/digest/engine.h"
#include "tools/simgpu/driver/readable_name.h"
#include "tools/simgpu/driver/report.h"

namespace simgpu {
namespace {

/// Pointers come to the device in small copies; a large one that looks like pointers is data.
constexpr std::uint64_t kLargestPayload = std::uint64_t{64} << 10;

/// The role file, read when the first digest needs it. Leaked.
const digest::ParsedRoles& role_file(const MachineConfig& config) {
  static const auto* parsed = [&] {
    const char* variable = std::getenv("SIMGPU_ROLES");
    const std::string path = config.role_file[0] != '\0' ? config.role_file
                             : variable != nullptr       ? variable
                                                         : "";
    // Without the simgpu command there may be none: then roles come from the kernels' names.
    return new digest::ParsedRoles(path.empty() ? digest::ParsedRoles{} : digest::load_roles(path));
  }();
  return *parsed;
}

/// Device memory as a launch sees it, with traps turned into a Fault.
class TrappedMemory : public digest::LaunchMemory {
 public:
  TrappedMemory(const digest::ExtentMap& map, std::uint64_t call, Fault* fault)
      : LaunchMemory(map, call), fault_(fault) {}
  bool guarded(void (*work)(void*), void* argument) override { return run_guarded(work, argument, fault_); }

 private:
  Fault* fault_;
};

/// Device memory into which nobody looks.
class ClosedMemory : public digest::LaunchMemory {
 public:
  using LaunchMemory::LaunchMemory;
  bool guarded(void (*)(void*), void*) override { return false; }
};

CUresult refuse(const Kernel& kernel, const std::string& why) {
  report_error("kernel '" + readable_name(kernel.name) + "' has no CPU body (see simgpu/kernel.h)" + why +
               "; it was not launched");
  return CUDA_ERROR_NOT_SUPPORTED;
}

DigestRoles as_reported(digest::Knowledge knowledge) {
  switch (knowledge) {
    case digest::Knowledge::kKnown:
      return DigestRoles::kKnown;
    case digest::Knowledge::kInferred:
      return DigestRoles::kInferred;
    case digest::Knowledge::kUnknown:
      break;
  }
  return DigestRoles::kUnknown;
}

/// The report has little room for a name, and every kernel returns nothing.
std::string short_name(const std::string& plain) {
  constexpr std::string_view kNothing = "void ";
  const std::size_t start = plain.starts_with(kNothing) ? kNothing.size() : 0;
  return plain.substr(start);
}

}  // namespace

CUresult prepare_digest(Driver& d, Kernel& kernel) {
  if (kernel.roles != nullptr) return CUDA_SUCCESS;
  if (!kernel.params_known) return refuse(kernel, ", and its image does not say what parameters it has");
  const digest::ParsedRoles& parsed = role_file(d.config);
  if (!parsed.error.empty()) return refuse(kernel, ", and the role file cannot be used: " + parsed.error);
  std::vector<digest::Slot> layout;
  for (const SimgpuParam& p : kernel.params) layout.push_back({p.offset, p.size});
  auto roles =
      std::make_shared<digest::KernelRoles>(digest::bind(parsed.file, kernel.name, std::move(layout)));
  if (roles->rule != nullptr && roles->rule->needs_body) {
    return refuse(kernel, ", and the role file says (line " + std::to_string(roles->rule->line) +
                              ") that it needs one");
  }
  kernel.roles = std::move(roles);
  return CUDA_SUCCESS;
}

bool run_digest(Driver& d, const Launch& launch, std::uint64_t call, Fault* fault) {
  digest::ExtentMap& extents = d.program.extents();
  TrappedMemory memory(extents, call, fault);
  const digest::Stride& stride = d.config.digest_full ? digest::kEveryByte : digest::kEveryPage;
  const digest::LaunchInput input{launch.grid, launch.params};
  const digest::Effect effect = digest::run(*launch.kernel->roles, input, stride, memory);
  for (const digest::Touched& t : effect.touched) {
    if (writes(t.access)) extents.wrote(t.span, call);
  }
  for (const digest::WrittenPointers& p : effect.pointers) extents.wrote_pointers(p.address, p.words, call);
  note_digest(as_reported(effect.knowledge), short_name(launch.kernel->roles->name.plain).c_str());
  add(page().digest_pointers, effect.tokens);
  return !effect.faulted;
}

std::vector<digest::Touched> digest_touches(Driver& d, const Launch& launch, std::uint64_t call) {
  ClosedMemory memory(d.program.extents(), call);
  return digest::touches(*launch.kernel->roles, {launch.grid, launch.params}, memory).list;
}

void note_copy(Driver& d, const Copy& c, std::uint64_t call) {
  if (!c.dst_device || !c.program || c.bytes() == 0) return;
  digest::ExtentMap& extents = d.program.extents();
  const bool linear = c.height * c.depth == 1;
  for (std::uint64_t z = 0; z < c.depth; ++z) {
    for (std::uint64_t y = 0; y < c.height; ++y) {
      const std::uint64_t to = c.dst + z * c.dst_slice + y * c.dst_pitch;
      const std::uint64_t from = c.src + z * c.src_slice + y * c.src_pitch;
      if (c.src_device) {
        extents.copied(to, {from, from + c.width}, call);
      } else if (linear && c.width <= kLargestPayload) {
        extents.wrote_payload({to, to + c.width}, call);
      } else {
        extents.wrote({to, to + c.width}, call);
      }
    }
  }
}

void note_fill(Driver& d, const Fill& f, std::uint64_t call) {
  if (!f.program) return;
  for (std::uint64_t y = 0; y < f.height; ++y) note_write(d, f.dst + y * f.pitch, f.width * f.element, call);
}

void note_write(Driver& d, std::uint64_t address, std::uint64_t bytes, std::uint64_t call) {
  d.program.extents().wrote({address, address + bytes}, call);
}

void note_all_written(Driver& d, const Launch& launch, std::uint64_t call) {
  digest::ExtentMap& extents = d.program.extents();
  std::uint64_t word = 0;
  for (std::size_t at = 0; at + sizeof word <= launch.params.size(); at += sizeof word) {
    std::memcpy(&word, launch.params.data() + at, sizeof word);
    if (const auto extent = extents.find(word, call)) extents.wrote({extent->base, extent->end()}, call);
  }
}

}  // namespace simgpu
