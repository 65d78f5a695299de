#include "tools/simgpu/fatbin/cubin.h"

#include <elf.h>

#include <bit>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "tools/simgpu/fatbin/attributes.h"
#include "tools/simgpu/fatbin/elf.h"
#include "tools/simgpu/fatbin/parameters.h"

namespace simgpu::fatbin {
namespace {

/// st_other: the symbol is a kernel; the variable is managed.
constexpr std::uint8_t kOtherEntry = 0x10;
constexpr std::uint8_t kOtherManaged = 0x04;
/// Relocations that add a 64-bit address: plain, and of global memory.
constexpr std::uint32_t kAddress64 = 2;
constexpr std::uint32_t kGlobalAddress64 = 4;
constexpr std::uint64_t kLargestShared = 1 << 20;

bool is_kernel(const Symbol& symbol) {
  return symbol.type == STT_FUNC && (symbol.other & kOtherEntry) != 0;
}

/// x * y * z of an attribute, 0 if it is not three numbers of a sensible size.
int block_threads(Bytes data) {
  std::uint32_t xyz[3];
  if (!data.read(0, &xyz)) return 0;
  std::uint64_t threads = 1;
  for (const std::uint32_t n : xyz) threads *= n < 65536 ? n : 0;
  return threads <= 65536 ? static_cast<int>(threads) : 0;
}

class CubinReader {
 public:
  CubinReader(const Elf& elf, ModuleFacts* out) : elf_(elf), out_(*out) {}

  Problem read() {
    find_reserved_shared();
    for (std::uint32_t i = 0; i < elf_.symbols().size(); ++i) {
      const Symbol& symbol = elf_.symbols()[i];
      if (!is_kernel(symbol)) continue;
      // Two kernels of one name cannot be told apart by anybody.
      if (!names_.insert(symbol.name).second) return Problem::kCorrupt;
      kernels_.emplace(i, out_.kernels.size());
      if (const Problem problem = read_kernel(symbol); problem != Problem::kNone) return problem;
    }
    if (const Problem problem = read_module_attributes(); problem != Problem::kNone) return problem;
    if (const Problem problem = read_segments(); problem != Problem::kNone) return problem;
    read_variables();
    return read_relocations();
  }

 private:
  /// From sm_90 on, a kernel's shared memory starts with what the driver keeps; this symbol says how much.
  void find_reserved_shared() {
    for (const Symbol& symbol : elf_.symbols()) {
      if (symbol.name == ".nv.reservedSmem.cap") reserved_shared_ = symbol.value;
    }
    if (reserved_shared_ == 0 && elf_.arch().number >= 90) reserved_shared_ = 1024;
  }

  Problem read_kernel(const Symbol& symbol) {
    KernelFacts kernel;
    kernel.name = symbol.name;
    if (kernel.name.empty()) return Problem::kCorrupt;
    kernel.registers = kernel.local_bytes = 0;
    const Section* shared = elf_.find(".nv.shared." + kernel.name);
    if (shared != nullptr) {
      if (shared->size > kLargestShared) return Problem::kCorrupt;
      kernel.static_shared_bytes =
          static_cast<int>(shared->size > reserved_shared_ ? shared->size - reserved_shared_ : 0);
    }
    if (const Section* info = elf_.find(".nv.info." + kernel.name); info != nullptr) {
      ParamCollector params;
      Attribute attribute;
      AttributeReader reader(info->bytes);
      while (reader.next(&attribute)) {
        params.take(attribute);
        if (attribute.kind == kMaxThreads || attribute.kind == kRequiredThreads) {
          kernel.max_threads = block_threads(attribute.data);
        }
      }
      if (!reader.sound()) return Problem::kCorrupt;
      kernel.params_known = params.finish(&kernel.params);
    } else {
      kernel.params_known = false;
    }
    out_.kernels.push_back(std::move(kernel));
    return Problem::kNone;
  }

  /// The attributes of all kernels stand in one section, by symbol.
  Problem read_module_attributes() {
    const Section* info = elf_.find(".nv.info");
    if (info == nullptr) return Problem::kNone;
    Attribute attribute;
    AttributeReader reader(info->bytes);
    while (reader.next(&attribute)) {
      struct {
        std::uint32_t symbol;
        std::uint32_t value;
      } pair{};
      if (!attribute.data.read(0, &pair)) continue;
      const auto found = kernels_.find(pair.symbol);
      if (found == kernels_.end()) continue;
      KernelFacts& kernel = out_.kernels[found->second];
      const int value = static_cast<int>(pair.value & 0x7fffffff);
      if (attribute.kind == kRegisterCount) kernel.registers = value;
      if (attribute.kind == kFrameSize && value > kernel.local_bytes) kernel.local_bytes = value;
      if (attribute.kind == kMinStackSize && value > kernel.local_bytes) kernel.local_bytes = value;
    }
    return reader.sound() ? Problem::kNone : Problem::kCorrupt;
  }

  Problem read_segments() {
    for (std::uint32_t i = 0; i < elf_.sections().size(); ++i) {
      const Section& section = elf_.sections()[i];
      const bool constant = section.name == ".nv.constant3";
      if (!constant && section.name != ".nv.global" && section.name != ".nv.global.init") continue;
      if (section.size > kLargestSegment) return Problem::kCorrupt;
      Segment segment;
      segment.space = constant ? Space::kConstant : Space::kGlobal;
      segment.size = section.size;
      segment.align = section.align == 0 ? 1 : section.align;
      if (!std::has_single_bit(segment.align) || segment.align > 4096) return Problem::kCorrupt;
      segment.initial.assign(section.bytes.data(), section.bytes.data() + section.bytes.size());
      segments_.emplace(i, static_cast<std::uint32_t>(out_.segments.size()));
      out_.segments.push_back(std::move(segment));
    }
    return Problem::kNone;
  }

  /// True if the symbol lies in a segment; *segment is which.
  bool in_segment(const Symbol& symbol, std::uint32_t* segment) const {
    const auto found = segments_.find(symbol.section);
    if (found == segments_.end()) return false;
    const std::uint64_t size = out_.segments[found->second].size;
    *segment = found->second;
    return symbol.value <= size && symbol.size <= size - symbol.value;
  }

  void read_variables() {
    for (const Symbol& symbol : elf_.symbols()) {
      VariableFacts variable;
      if (symbol.type != STT_OBJECT || symbol.name.empty() || !in_segment(symbol, &variable.segment))
        continue;
      variable.name = symbol.name;
      variable.offset = symbol.value;
      variable.size = symbol.size;
      variable.managed = (symbol.other & kOtherManaged) != 0;
      out_.variables.push_back(std::move(variable));
    }
  }

  Problem read_relocations() {
    for (const Section& section : elf_.sections()) {
      if (section.type != SHT_REL && section.type != SHT_RELA) continue;
      const auto patched = segments_.find(section.info);
      if (patched == segments_.end()) continue;
      const std::size_t step = section.type == SHT_REL ? sizeof(Elf64_Rel) : sizeof(Elf64_Rela);
      for (std::uint64_t at = 0; at < section.bytes.size(); at += step) {
        const Problem problem = read_relocation(section, at, patched->second);
        if (problem != Problem::kNone) return problem;
      }
    }
    return Problem::kNone;
  }

  Problem read_relocation(const Section& section, std::uint64_t at, std::uint32_t segment) {
    Elf64_Rela raw{};
    if (section.type == SHT_RELA) {
      if (!section.bytes.read(at, &raw)) return Problem::kCorrupt;
    } else {
      Elf64_Rel short_form{};
      if (!section.bytes.read(at, &short_form)) return Problem::kCorrupt;
      raw.r_offset = short_form.r_offset;
      raw.r_info = short_form.r_info;
    }
    const std::uint64_t type = ELF64_R_TYPE(raw.r_info);
    const std::uint64_t symbol = ELF64_R_SYM(raw.r_info);
    if (symbol >= elf_.symbols().size()) return Problem::kCorrupt;
    Relocation relocation;
    relocation.segment = segment;
    relocation.offset = raw.r_offset;
    // Pointers to functions and textures have no address here; a program cannot use them on the host either.
    const Symbol& target = elf_.symbols()[symbol];
    if ((type != kAddress64 && type != kGlobalAddress64) || !in_segment(target, &relocation.target_segment)) {
      return Problem::kNone;
    }
    const Segment& patched = out_.segments[segment];
    if (raw.r_offset > patched.initial.size() || patched.initial.size() - raw.r_offset < 8)
      return Problem::kCorrupt;
    relocation.target_offset = target.value + static_cast<std::uint64_t>(raw.r_addend);
    out_.relocations.push_back(relocation);
    return Problem::kNone;
  }

  const Elf& elf_;
  ModuleFacts& out_;
  std::uint64_t reserved_shared_ = 0;
  std::unordered_set<std::string_view> names_;
  std::unordered_map<std::uint32_t, std::size_t> kernels_;     ///< by symbol
  std::unordered_map<std::uint32_t, std::uint32_t> segments_;  ///< by section
};

}  // namespace

Problem read_cubin(Bytes file, ModuleFacts* out) {
  Elf elf;
  if (const Problem problem = Elf::parse(file, &elf); problem != Problem::kNone) return problem;
  *out = ModuleFacts();
  out->arch = elf.arch();
  return CubinReader(elf, out).read();
}

}  // namespace simgpu::fatbin
