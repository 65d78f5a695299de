#pragma once

#include <cstddef>
#include <type_traits>

namespace simgpu {

/// A stack that belongs to a thread and can still be used when the thread's objects have been destroyed:
/// libraries call CUDA in their destructors. Holds `kDepth` items at most: a library that is opened while the
/// program runs has little room for what belongs to threads.
template <class T, std::size_t kDepth>
class ThreadStack {
 public:
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] T& back() { return items_[count_ - 1]; }
  /// False if it is full.
  [[nodiscard]] bool push(const T& item) {
    if (count_ == kDepth) return false;
    items_[count_++] = item;
    return true;
  }
  void pop() { --count_; }

 private:
  static_assert(std::is_trivially_destructible_v<T>);
  T items_[kDepth] = {};
  std::size_t count_ = 0;
};

}  // namespace simgpu
