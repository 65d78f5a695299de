#include "tests/simgpu/processes.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

namespace simgpu_test {

simgpu::MachineConfig small_machine(std::uint64_t seed) {
  simgpu::MachineConfig config;
  config.devices[0].memory_bytes = 64 * kMiB;
  config.seed = seed;
  return config;
}

Processes::Processes(const simgpu::MachineConfig& config) : machine_(simgpu::MachineFile::create(config)) {
  REQUIRE(machine_ != nullptr);
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends_) == 0);
}

Processes::~Processes() {
  for (const int end : ends_) {
    if (end >= 0) ::close(end);
  }
}

pid_t Processes::start(int end, const std::function<void(int socket)>& body) {
  std::fflush(nullptr);
  const std::string path = machine_->path();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::setenv(simgpu::MachineFile::kVariable, path.c_str(), 1);
    ::close(ends_[1 - end]);
    CUcontext context = nullptr;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    body(ends_[end]);
    ::_exit(0);
  }
  // Only the child holds it now: its death ends the conversation.
  ::close(ends_[end]);
  ends_[end] = -1;
  return child;
}

int ended(pid_t child) {
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void say(int socket) {
  const char byte = 'x';
  EXPECT(::write(socket, &byte, 1) == 1);
}

bool heard(int socket) {
  char byte = 0;
  return ::read(socket, &byte, 1) == 1;
}

}  // namespace simgpu_test
