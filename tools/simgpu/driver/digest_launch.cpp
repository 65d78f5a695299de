#include "tools/simgpu/driver/digest_launch.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "tools/simgpu/digest/engine.h"
#include "tools/simgpu/driver/known_bodies.h"
#include "tools/simgpu/driver/readable_name.h"
#include "tools/simgpu/driver/report.h"

namespace simgpu {
namespace {

/// Pointers come to the device in small copies; a large one that looks like pointers is data.
constexpr std::uint64_t kLargestPayload = std::uint64_t{64} << 10;

struct ReadRoles {
  std::string path;
  digest::ParsedRoles parsed;
};

/// The role file, read when the first digest needs it. Leaked.
const ReadRoles& role_file(const MachineConfig& config) {
  static const auto* roles = [&] {
    auto* read = new ReadRoles;
    const char* variable = std::getenv("SIMGPU_ROLES");
    read->path = config.role_file[0] != '\0' ? config.role_file : variable != nullptr ? variable : "";
    // Without the simgpu command there may be none: then roles come from the kernels' names.
    if (!read->path.empty()) read->parsed = digest::load_roles(read->path);
    return read;
  }();
  return *roles;
}

/// True the first time that this is to be said of the kernel. Leaked; a program with more has other troubles.
bool first_time(const Kernel& kernel, std::int64_t param) {
  constexpr std::size_t kMaxTold = 4096;
  static auto* told = new std::set<std::pair<std::string, std::int64_t>>;
  return told->size() < kMaxTold && told->emplace(kernel.name, param).second;
}

void warn_of_parameters(const ReadRoles& roles, const Kernel& kernel) {
  constexpr std::int64_t kNoParameter = -1;
  const std::string where = digest::beyond_parameters(*kernel.roles);
  if (where.empty() || !first_time(kernel, kNoParameter)) return;
  const std::size_t count = kernel.params.size();
  const std::string has = count == 0   ? "has no parameters"
                          : count == 1 ? "has one parameter, number 0"
                                       : "has parameters 0 to " + std::to_string(count - 1);
  report_warning("warning: role file " + roles.path + ":" + where + " of kernel '" +
                 readable_name(kernel.name) + "', which " + has +
                 ": the line is not used as written; correct the number, or put 'when "
                 "params COUNT' into the rule if it is meant for others");
}

/// Says that a parameter points to freed memory, where it is not certain that the kernel would use it.
void warn_of_stray(const Driver& d, const Kernel& kernel, const digest::StrayPointer& stray) {
  add(page().stray_pointers);
  if (!first_time(kernel, stray.param)) return;
  report_warning(
      "possible illegal address: kernel '" + readable_name(kernel.name) + "' is given " + hex(stray.address) +
      ", " + d.describe(stray.address) + ", parameter " + std::to_string(stray.param) +
      ": if the kernel uses it a GPU ends here, and simgpu leaves it out; pass live memory or null");
}

enum class Verdict { kFine, kPossible, kIllegal };

/// What a pointer of a digest that find() knows nothing of would do to a kernel that uses it.
Verdict judge(const Driver& d, const digest::StrayPointer& stray, std::uint64_t call) {
  using Sure = digest::StrayPointer::Sure;
  const std::uint64_t address = stray.address;
  // Most words are numbers.
  if (stray.sure != Sure::kPointer && !AddressSpace::may_hold(address)) return Verdict::kFine;
  if (d.host.range_at(address) != nullptr || d.host.range_at(address - 1) != nullptr) return Verdict::kFine;
  if (d.program.may_be_live(address, call)) return Verdict::kFine;
  const FreedBlocks::Block* freed = d.heap.freed().at(address);
  // The end of an allocation is where empty memory may lie. Neighbours have no gap between them.
  if (d.program.may_be_live(address - 1, call))
    return freed != nullptr && freed->base == address ? Verdict::kPossible : Verdict::kFine;
  if (stray.sure == Sure::kPointer) return Verdict::kIllegal;
  if (stray.sure == Sure::kStructure)
    return d.is_device_address(address) ? Verdict::kIllegal : Verdict::kFine;
  const Reservation* reservation = d.space.reservation_at(address);
  const bool unmapped =
      reservation != nullptr && !reservation->plain && d.space.mapping_at(address) == nullptr;
  return freed != nullptr || unmapped ? Verdict::kPossible : Verdict::kFine;
}

/// Device memory as a launch sees it, with traps turned into a Fault.
class TrappedMemory : public digest::LaunchMemory {
 public:
  TrappedMemory(Driver& d, const Kernel& kernel, std::uint64_t call, Fault* fault)
      : LaunchMemory(d.program.extents(), call), driver_(d), kernel_(kernel), call_(call), fault_(fault) {}
  bool guarded(void (*work)(void*), void* argument) override { return run_guarded(work, argument, fault_); }

  bool refuses(const digest::StrayPointer& stray) override {
    const Verdict verdict = judge(driver_, stray, call_);
    if (verdict == Verdict::kPossible) warn_of_stray(driver_, kernel_, stray);
    if (verdict != Verdict::kIllegal) return false;
    fault_->address = stray.address;
    fault_->write = !reads(stray.access);
    fault_->param = static_cast<int>(stray.param);
    fault_->offset = stray.offset;
    return true;
  }

 private:
  const Driver& driver_;
  const Kernel& kernel_;
  const std::uint64_t call_;
  Fault* fault_;
};

/// Device memory into which nobody looks.
class ClosedMemory : public digest::LaunchMemory {
 public:
  using LaunchMemory::LaunchMemory;
  bool guarded(void (*)(void*), void*) override { return false; }
  bool refuses(const digest::StrayPointer&) override { return false; }
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
  if (has_known_body(kernel.name)) {
    return refuse(kernel,
                  " that fits its parameters, and its results must be exact: build simgpu of the same "
                  "sources as the library that the kernel came with");
  }
  if (!kernel.params_known) return refuse(kernel, ", and its image does not say what parameters it has");
  const ReadRoles& file = role_file(d.config);
  const digest::ParsedRoles& parsed = file.parsed;
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
  warn_of_parameters(file, kernel);
  return CUDA_SUCCESS;
}

bool run_digest(Driver& d, const Launch& launch, std::uint64_t call, Fault* fault) {
  digest::ExtentMap& extents = d.program.extents();
  TrappedMemory memory(d, *launch.kernel, call, fault);
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
