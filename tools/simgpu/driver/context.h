#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "tools/simgpu/driver/cuda_api.h"
#include "tools/simgpu/driver/stream.h"
#include "tools/simgpu/thread_stack.h"

namespace simgpu {

struct Gpu;

/// A context of one device. Contexts are never deleted, so that a handle stays comparable; a destroyed
/// one is not alive.
struct Context {
  Gpu* gpu = nullptr;
  bool primary = false;
  bool alive = true;
  unsigned flags = 0;
  unsigned retained = 0;    ///< of the primary context
  std::uint32_t peers = 0;  ///< devices whose plain memory it may use: one bit for each ordinal
  std::uint64_t id = 0;
  static constexpr std::size_t kLimits = 6;
  /// Stack, printf FIFO, heap, pending launches, L2 fetch granularity, persisting L2: api_limit.cpp.
  std::array<std::size_t, kLimits> limits{1024, 1 << 20, 8 << 20, 2048, 64, 0};
  CUresult sticky = CUDA_SUCCESS;  ///< once set, every call in this context returns it
  std::shared_ptr<Stream> legacy;
  std::unordered_map<std::uint64_t, std::shared_ptr<Stream>> per_thread;  ///< by thread token

  [[nodiscard]] bool has_peer(int ordinal) const {
    return (peers >> static_cast<unsigned>(ordinal) & 1U) != 0;
  }
};

inline CUcontext handle_of(Context* context) {
  return reinterpret_cast<CUcontext>(context);
}

/// The calling thread's stack of current contexts; the last is current.
using ContextStack = ThreadStack<Context*, 48>;
ContextStack& context_stack();

/// A number for the calling thread, never used again by another one.
std::uint64_t thread_token();

}  // namespace simgpu
