#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>

#include "tests/simgpu/device_process.h"
#include "tools/simgpu/machine/machine_file.h"

namespace simgpu_test {

/// One device of 64 MiB.
simgpu::MachineConfig small_machine(std::uint64_t seed = 1);

/// One machine, of which a case starts as many processes as it likes.
class Processes {
 public:
  explicit Processes(const simgpu::MachineConfig& config = small_machine());
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// Starts a process with a context; `end` is its end of a socket to the other one, for the first that takes
  /// it.
  pid_t start(int end, const std::function<void(int socket)>& body);
  [[nodiscard]] const simgpu::Machine& machine() const { return **machine_; }

 private:
  std::unique_ptr<simgpu::MachineFile> machine_;
  int ends_[2]{};
};

/// Waits for a process; its exit code, or the signal that ended it as a negative number.
int ended(pid_t child);

/// One byte through the socket.
void say(int socket);
/// False once the other process has ended.
bool heard(int socket);

}  // namespace simgpu_test
