#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/simgpu/machine/machine.h"
#include "tools/simgpu/process/process.h"

namespace simgpu {

/// A device's memory file is sparse; each process slot has a part of its own.
inline constexpr std::uint64_t kSlotFileBytes = std::uint64_t{1} << 41;
inline constexpr std::uint64_t kDeviceFileBytes = Machine::kMaxProcesses * kSlotFileBytes;

/// A Machine mapped into this process. Not copyable; unmapped when it goes.
class MachineFile {
 public:
  /// The variable that names the file to a machine's processes.
  static constexpr const char* kVariable = "SIMGPU_MACHINE";

  /// Makes a machine. Null if the system refuses; errno says why.
  static std::unique_ptr<MachineFile> create(const MachineConfig& config);
  /// Opens the machine at this path. Null if there is none or another version of simgpu made it.
  static std::unique_ptr<MachineFile> open(const std::string& path);

  MachineFile(const MachineFile&) = delete;
  MachineFile& operator=(const MachineFile&) = delete;
  ~MachineFile();

  [[nodiscard]] Machine& operator*() const { return *machine_; }
  [[nodiscard]] Machine* operator->() const { return machine_; }
  /// Opens a device's memory file: a description of its own. Negative if its maker has ended; errno says why.
  [[nodiscard]] int open_memory(std::uint32_t device) const;
  /// Where other processes of this user can open it while this one lives.
  [[nodiscard]] std::string path() const;

 private:
  MachineFile(int fd, Machine* machine) : fd_(fd), machine_(machine) {}

  int fd_;
  Machine* machine_;
  std::vector<int> memory_fds_;  ///< of the maker
};

/// Takes a slot for the calling process, `self`, which calls it once in the life of its program: its own one
/// from before exec(), an unused one, or one of a process that has ended. The numbers of the one before go to
/// Machine::departed, its shared events end, and from before exec() its place in the shared clock. Null if
/// kMaxProcesses are alive. Thread-safe, also between processes.
ProcessSlot* claim_slot(Machine& machine, ProcessNumber self);

/// False if the process that claimed the slot has certainly ended (waited for or not), and for a slot that
/// was never used.
bool alive(const ProcessSlot& slot);

}  // namespace simgpu
