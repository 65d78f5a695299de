#pragma once

#include <cstddef>
#include <vector>

namespace tidepool::runtime {

/// First in, first out, in one piece of memory that grows and never shrinks: no allocation in the long run.
template <class T>
class RingQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] T& front() noexcept { return places_[first_]; }
  void push_back(const T& value) {
    if (count_ == places_.size()) grow();
    places_[(first_ + count_++) & (places_.size() - 1)] = value;
  }
  void pop_front() noexcept {
    first_ = (first_ + 1) & (places_.size() - 1);
    --count_;
  }

 private:
  void grow() {
    std::vector<T> larger(places_.empty() ? 16 : places_.size() * 2);  // a power of two
    for (std::size_t i = 0; i < count_; ++i) larger[i] = places_[(first_ + i) & (places_.size() - 1)];
    places_.swap(larger);
    first_ = 0;
  }

  std::vector<T> places_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

}  // namespace tidepool::runtime
