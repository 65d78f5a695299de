#pragma once

#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

#include "simgpu/abi.h"
#include "tools/simgpu/machine/machine.h"

/// A device lives as long as its process, so every test case starts its own: a child of the test program in
/// which the body runs, on a fresh device with the seed and size that the case wants.
namespace simgpu_test {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kFrame = 2 * kMiB;

struct DeviceSetup {
  std::uint64_t seed = 1;
  std::uint64_t memory_bytes = 64 * kMiB;
  std::uint32_t devices = 1;  ///< each of memory_bytes
  bool in_order = false;
  bool with_context = true;  ///< cuInit and the primary context are done before the body
  simgpu::ClockMode clock = simgpu::ClockMode::kVirtual;
  simgpu::HostTime host_time = simgpu::HostTime::kFixed;
  std::uint32_t processes_together = 0;
  /// Tests whose result depends on it that nobody is passed over, on a machine that may be busy, want more.
  std::uint32_t patience_ms = simgpu::MachineConfig::kPatienceMs;
  /// Looks at the machine after the body has ended.
  std::function<void(const simgpu::Machine&)> afterwards;
};

/// Runs the body in a new process and returns what it returned (0 to 63). An expectation that fails, a signal
/// or anything else that ends the child fails the test case.
int on_device(const DeviceSetup& setup, const std::function<int()>& body);

/// Runs the body once for each of `count` seeds and returns how often it returned something but 0.
int count_over_seeds(std::uint64_t count, const std::function<int()>& body);

/// Ends the child with a message.
[[noreturn]] void expectation_failed(const char* file, int line, const std::string& what);
void expect_result(CUresult got, CUresult want, const char* call, const char* file, int line);

/// Loads an empty library and adds a kernel with this body to it.
CUfunction make_kernel(const char* name, const SimgpuKernelBody* body);

}  // namespace simgpu_test

/// Expectations for bodies: they run in a child, where Catch2's assertions do not reach the report.
#define EXPECT(condition) \
  ((condition) ? void() : ::simgpu_test::expectation_failed(__FILE__, __LINE__, #condition))
#define EXPECT_RESULT(call, want) ::simgpu_test::expect_result((call), (want), #call, __FILE__, __LINE__)
#define OK(call) EXPECT_RESULT(call, CUDA_SUCCESS)
