#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <vector>

namespace tidepool::bench {

/// A program of the driver API that does a few things over and over: launch a kernel with eight pointers,
/// allocate and free, copy a little to the device. Linked to libcuda.so.1; with the null driver and without a
/// preload it costs next to nothing, so that with a preload it costs what the hooks cost.
class HookWorkload {
 public:
  static constexpr std::size_t kPointers = 8;
  static constexpr std::size_t kBlockBytes = std::size_t{4} << 20;

  /// Allocates the eight blocks and launches once, so that they are on the device.
  HookWorkload();
  ~HookWorkload();
  HookWorkload(const HookWorkload&) = delete;
  HookWorkload& operator=(const HookWorkload&) = delete;

  void launch();
  /// The same with eight blocks of 256 that were not used by the launches just before.
  void launch_others();
  void alloc_free(std::size_t bytes);
  /// Copies 512 bytes of numbers to the device, which are searched for addresses.
  void copy();
  /// The launch as programs of the runtime make it.
  void launch_ex();
  /// Sets a block of the device to zero.
  void fill();
  /// The pair from the device's pool, in the order of the stream.
  void alloc_free_async(std::size_t bytes);
  /// Lets the stream wait for itself, by an event.
  void wait_for_event();
  /// Launches a graph.
  void launch_graph();
  /// Allocates so many more blocks, which stay until the end.
  void hold(long count);

  /// A hook that finds nothing to do: a memset while no memory is managed.
  static void ask();

 private:
  CUstream stream_ = nullptr;
  CUevent event_ = nullptr;
  CUgraphExec graph_ = nullptr;
  std::array<CUdeviceptr, kPointers> blocks_{};
  std::array<void*, kPointers> parameters_{};
  std::vector<CUdeviceptr> held_;
  std::size_t next_ = 0;  ///< of held_, for launch_others()
};

}  // namespace tidepool::bench
