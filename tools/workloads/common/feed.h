#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "tools/workloads/common/lanes.h"
#include "tools/workloads/common/memory.h"

namespace workload {

/// Batches on their way to the device: made once in pinned host memory, used in turn, and copied into one of
/// two places on the device while the step before still computes. For one thread.
class Feed {
 public:
  /// Writes part `part` of batch `batch` to `to`.
  using Make = std::function<void(int batch, std::size_t part, void* to)>;

  /// A batch consists of parts of these sizes. `steps` is how many steps will be taken.
  Feed(Memory& memory, Lanes& lanes, std::vector<std::size_t> part_bytes, int batches, int steps,
       const Make& make);
  ~Feed();
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  /// Starts to copy the next step's batch, and makes the main stream wait for this step's.
  void begin(int step);

  /// A part of the batch of this step, for work in the main stream (or forked from it) after begin().
  template <class T>
  [[nodiscard]] const T* part(int step, std::size_t index) const {
    return reinterpret_cast<const T*>(slots_[step % 2].parts[index].get());
  }

  /// The main stream has been given all work that reads the batch of this step.
  void end(int step);

 private:
  struct Slot {
    std::vector<Array<unsigned char>> parts;
    cudaEvent_t filled = nullptr;
    cudaEvent_t used = nullptr;
  };

  void fill(int step);

  Lanes& lanes_;
  std::vector<std::size_t> part_bytes_;
  int batches_;
  int steps_;
  std::vector<unsigned char*> host_;  ///< for each part all batches, one after another
  Slot slots_[2];
};

}  // namespace workload
