#pragma once

#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "simgpu/kernel.h"

/// Kernel bodies without a device, for tests of what they compute.
namespace tidepool::test {

/// simgpu's context with the fast loops switched off: what the threads of a GPU would compute.
class PhasesOnly : public simgpu::CpuContext {
 public:
  using CpuContext::CpuContext;
  [[nodiscard]] constexpr bool on_host() const { return false; }
};

struct LaunchShape {
  unsigned x, y, z, threads;
};

/// Runs every block of a launch with a context of this type.
template <class Context, class Body, class... Args>
void launch_body(const LaunchShape& shape, Args... args) {
  static std::vector<unsigned char> scratch(1 << 20);
  SimgpuGrid grid{};
  grid.grid[0] = shape.x;
  grid.grid[1] = shape.y;
  grid.grid[2] = shape.z;
  grid.block[0] = shape.threads;
  grid.block[1] = grid.block[2] = 1;
  grid.scratch = scratch.data();
  grid.scratch_bytes = scratch.size();
  grid.check_range = [](const void*, std::size_t, int) {};
  grid.fail = [](const char*) { std::abort(); };
  Context context(grid);
  for (unsigned z = 0; z < shape.z; ++z) {
    for (unsigned y = 0; y < shape.y; ++y) {
      for (unsigned x = 0; x < shape.x; ++x) {
        context.start_block({x, y, z});
        Body::run(context, args...);
      }
    }
  }
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct FastLoops {
  template <class Body, class... Args>
  void run(const LaunchShape& shape, Args... args) const {
    launch_body<simgpu::CpuContext, Body>(shape, args...);
  }
};
struct Threads {
  template <class Body, class... Args>
  void run(const LaunchShape& shape, Args... args) const {
    launch_body<PhasesOnly, Body>(shape, args...);
  }
};
/// Both results of compute(launcher): with the fast loops, and with threads. It launches bodies by
/// launcher.template run<Body>(shape, args...).
template <class Compute>
auto both_ways(const Compute& compute) {
  auto fast = compute(FastLoops{});
  return std::make_pair(std::move(fast), compute(Threads{}));
}

}  // namespace tidepool::test
