// cuInit, where a fault plan lets it fail: the process is as it was before.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "tests/simgpu/device_tools.h"
#include "tools/simgpu/machine/machine_file.h"

namespace {

using namespace simgpu_test;
using namespace std::chrono_literals;

std::unique_ptr<simgpu::MachineFile> machine_with_plan() {
  simgpu::MachineConfig config;
  const std::string plan = "cuInit nth=1 return=3\n";
  std::copy(plan.begin(), plan.end(), std::begin(config.faults));
  auto machine = simgpu::MachineFile::create(config);
  REQUIRE(machine != nullptr);
  return machine;
}

/// A process on that machine.
pid_t start(const simgpu::MachineFile& machine, const std::function<void()>& program) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    setenv(simgpu::MachineFile::kVariable, machine.path().c_str(), 1);
    program();
    _exit(0);
  }
  return child;
}

int ending_of(pid_t child) {
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void use_the_device() {
  OK(cuInit(0));
  CUcontext context = nullptr;
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxSetCurrent(context));
  const CUdeviceptr word = new_ints(1);
  OK(cuMemsetD32(word, 3, 1));
  EXPECT(int_at(word) == 3);
}

}  // namespace

TEST_CASE("start: processes that part after a cuInit that failed are two to the device") {
  const auto machine = machine_with_plan();
  const pid_t parent = start(*machine, [] {
    EXPECT_RESULT(cuInit(0), CUDA_ERROR_NOT_INITIALIZED);
    const pid_t child = fork();
    if (child == 0) {
      EXPECT_RESULT(cuInit(0), CUDA_ERROR_NOT_INITIALIZED);  // the first of this process
      use_the_device();
      _exit(0);
    }
    use_the_device();
    EXPECT(ending_of(child) == 0);
  });
  REQUIRE(ending_of(parent) == 0);
  const auto& processes = (*machine)->processes;
  CHECK(std::count_if(processes.begin(), processes.end(), [](const auto& p) { return p.pid.load() != 0; }) ==
        2);
}

TEST_CASE("start: a process whose cuInit failed holds no other up") {
  const auto machine = machine_with_plan();
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  const pid_t idle = start(*machine, [&] {
    EXPECT_RESULT(cuInit(0), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT(write(pipe_ends[1], "x", 1) == 1);
    std::this_thread::sleep_for(1s);
  });
  char said = 0;
  REQUIRE(read(pipe_ends[0], &said, 1) == 1);
  const pid_t busy = start(*machine, [] {
    EXPECT_RESULT(cuInit(0), CUDA_ERROR_NOT_INITIALIZED);
    use_the_device();
  });
  CHECK(ending_of(busy) == 0);
  CHECK((*machine)->time.escapes.load() == 0);
  CHECK(ending_of(idle) == 0);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}
