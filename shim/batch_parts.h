#pragma once

#include <cuda.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "allocator/work_name.h"
#include "shim/function_ref.h"
#include "shim/touch_set.h"

namespace tidepool::shim {

/// Some of the copies of a batch, which follow each other.
struct BatchPart {
  std::size_t first;
  std::size_t count;
};

/// Cuts a batch of `count` copies so that what a part names has room on its devices: copies of a batch are
/// made in no particular order (CUDA Driver API, cuMemcpyBatchAsync), so they may be given to the driver one
/// after the other. `collect(i, set)` adds what copy `i` names. One part where all of it has room, or where
/// one copy alone has none, which is then refused before anything is copied.
///
/// Not hook-safe where it cuts: allocates.
std::vector<BatchPart> parts_of_batch(std::size_t count, FunctionRef<void(std::size_t, TouchSet&)> collect);

/// True if a batch may have to be cut: some device has no room for all that the program has there. Hook-safe.
bool may_exceed_room() noexcept;

/// Runs `call()` while the blocks that `collect(set)` finds are on the device and hold their bytes, whatever
/// is in the stream: for copies whose source the driver may read before the stream gets there. All that
/// `call()` has to be on the device must be among them. Waits for copies in.
CUresult call_with_bytes_there(FunctionRef<void(TouchSet&)> collect, runtime::WorkName what,
                               FunctionRef<CUresult()> call) noexcept;

/// May the driver read the source before the stream gets to the copy?
inline bool is_read_early(CUmemcpySrcAccessOrder order) noexcept {
  return order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL || order == CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

/// Among the last arguments of a batch some versions have the index of the copy that failed, which is the
/// part's here; SIZE_MAX: none in particular. Makes it the batch's.
template <class... Rest>
void count_from(std::size_t first, CUresult result, Rest... rest) noexcept {
  const auto shift = [&](auto arg) {
    if constexpr (std::is_same_v<decltype(arg), std::size_t*>) {
      if (result != CUDA_SUCCESS && arg != nullptr && *arg != SIZE_MAX) *arg += first;
    }
  };
  (shift(rest), ...);
}

/// Groups of attributes of some copies of a batch: each is for the copies from its index on.
template <class Attributes>
struct BatchAttributes {
  Attributes* first = nullptr;
  std::vector<std::size_t> indices;

  BatchAttributes(Attributes* all, const std::size_t* begins, std::size_t count, BatchPart part) {
    for (std::size_t i = 0; i < count && begins[i] < part.first + part.count; ++i) {
      const bool is_over = i + 1 < count && begins[i + 1] <= part.first;
      if (is_over) continue;
      if (indices.empty()) first = all + i;
      indices.push_back(std::max(begins[i], part.first) - part.first);
    }
  }
};

}  // namespace tidepool::shim
