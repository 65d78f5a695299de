#include "tools/simgpu/driver/launch_body.h"

#include <sys/mman.h>

#include <algorithm>

#include "tools/simgpu/driver/kernel_object.h"

namespace simgpu {
namespace {

constexpr std::size_t kScratchBytes = std::size_t{4} << 20;
constexpr std::size_t kParamBytes = 32 << 10;

/// Memory that launches use while they run. One is enough: the device lock is held.
struct LaunchMemory {
  alignas(256) unsigned char params[kParamBytes];
  alignas(256) unsigned char scratch[kScratchBytes];
};

LaunchMemory& launch_memory() {
  static auto* memory = static_cast<LaunchMemory*>(
      ::mmap(nullptr, sizeof(LaunchMemory), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  return *memory;
}

[[noreturn]] void fail_launch(const char* why) {
  Fault fault;
  fault.why = why;
  leave_guarded(fault);
}

}  // namespace

bool run_body(const Launch& launch, std::uint32_t mode, const BodyCalls& calls, Fault* fault) {
  LaunchMemory& memory = launch_memory();
  std::copy(launch.params.begin(), launch.params.end(), memory.params);
  SimgpuGrid grid{{launch.grid[0], launch.grid[1], launch.grid[2]},
                  {launch.block[0], launch.block[1], launch.block[2]},
                  launch.dynamic_shared,
                  mode,
                  memory.params,
                  memory.scratch,
                  kScratchBytes,
                  calls.check_range,
                  &fail_launch,
                  calls.work};
  struct Call {
    void (*run)(const SimgpuGrid*);
    const SimgpuGrid* grid;
  } call{launch.kernel->body->run, &grid};
  return run_guarded(
      [](void* argument) {
        const Call& c = *static_cast<const Call*>(argument);
        c.run(c.grid);
      },
      &call, fault);
}

}  // namespace simgpu
