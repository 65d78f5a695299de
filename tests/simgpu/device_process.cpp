#include "tests/simgpu/device_process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "tools/simgpu/machine/machine_file.h"

extern "C" int simgpuLibrarySetBody(void* library, const char* name, const SimgpuKernelBody* body);

namespace simgpu_test {
namespace {

constexpr int kExpectationFailed = 99;

}  // namespace

int on_device(const DeviceSetup& setup, const std::function<int()>& body) {
  std::fflush(nullptr);
  simgpu::MachineConfig config;
  config.seed = setup.seed;
  config.schedule = setup.in_order ? simgpu::Schedule::kInOrder : simgpu::Schedule::kAdversarial;
  config.device_count = setup.devices;
  config.clock = setup.clock;
  config.host_time = setup.host_time;
  config.processes_together = setup.processes_together;
  config.patience_ms = setup.patience_ms;
  for (std::uint32_t i = 0; i < setup.devices; ++i) config.devices[i].memory_bytes = setup.memory_bytes;
  const auto machine = simgpu::MachineFile::create(config);
  REQUIRE(machine != nullptr);
  const std::string path = machine->path();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::setenv(simgpu::MachineFile::kVariable, path.c_str(), 1);
    if (setup.with_context) {
      CUcontext context = nullptr;
      OK(cuInit(0));
      OK(cuDevicePrimaryCtxRetain(&context, 0));
      OK(cuCtxSetCurrent(context));
    }
    const int result = body();
    std::fflush(nullptr);
    ::_exit(result);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  INFO("seed " << setup.seed << ", wait status " << status);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) < 64);
  if (setup.afterwards) setup.afterwards(**machine);
  return WEXITSTATUS(status);
}

int count_over_seeds(std::uint64_t count, const std::function<int()>& body) {
  int found = 0;
  std::string seeds;
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    DeviceSetup setup;
    setup.seed = seed;
    if (on_device(setup, body) == 0) continue;
    ++found;
    seeds += " " + std::to_string(seed);
  }
  UNSCOPED_INFO("not 0 for the seeds" << (found == 0 ? " none" : seeds) << " of 1 to " << count);
  return found;
}

void expectation_failed(const char* file, int line, const std::string& what) {
  std::fprintf(stderr, "%s:%d: expected: %s\n", file, line, what.c_str());
  std::fflush(nullptr);
  ::_exit(kExpectationFailed);
}

void expect_result(CUresult got, CUresult want, const char* call, const char* file, int line) {
  if (got == want) return;
  const char* got_name = "?";
  const char* want_name = "?";
  cuGetErrorName(got, &got_name);
  cuGetErrorName(want, &want_name);
  expectation_failed(file, line, std::string(call) + " gives " + want_name + ", not " + got_name);
}

CUfunction make_kernel(const char* name, const SimgpuKernelBody* body) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  OK(cuModuleLoadData(&module, "simgpu"));
  EXPECT(simgpuLibrarySetBody(module, name, body) == CUDA_SUCCESS);
  OK(cuModuleGetFunction(&function, module, name));
  return function;
}

}  // namespace simgpu_test
