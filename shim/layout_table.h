#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

/// What is known of functions' parameters, for the launches that look it up (arg_scan.h).
namespace tidepool::shim::detail {

inline constexpr std::size_t kWord = 8;

// Between one place of a parameter where a pointer can begin and the next. A type's size is a multiple of its
// alignment, and so is its offset: together they tell what a pointer within is aligned to at least. Packed
// structs have pointers at odd places; where the numbers do not betray one, small structs are searched as if
// they were packed to four bytes, and large ones are not: that would double what they cost. Above what one
// parameter could be before CUDA 12.1 there are arrays of bytes rather than packed structs.
constexpr std::size_t kSmallStruct = 64;
constexpr std::size_t kLargestPacked = 4096;
inline std::size_t step_in(std::size_t offset, std::size_t size) noexcept {
  if (size > kLargestPacked) return kWord;
  const std::size_t alignment = std::size_t{1} << std::countr_zero(offset | size | kWord);
  const bool may_be_packed = size > kWord && size <= kSmallStruct;
  return may_be_packed ? std::min(alignment, kWord / 2) : alignment;
}

/// Where pointers can be: 8-byte words of the parameters, at the places that step_in() leaves. Never changed
/// and never freed: functions share them, and there are few.
struct Layout {
  struct Word {
    std::uint32_t param;
    std::uint32_t offset;  ///< within the parameter
    bool operator==(const Word&) const = default;
  };
  std::vector<Word> words;

  void add_param(std::uint32_t param, std::size_t offset, std::size_t size) {
    const std::size_t step = step_in(offset, size);
    for (std::size_t at = (step - offset % step) % step; at + kWord <= size; at += step) {
      words.push_back({param, static_cast<std::uint32_t>(at)});
    }
  }
  bool operator==(const Layout&) const = default;
};

/// Which layout a function has, worked out once for each function and generation. Readers take no lock: they
/// look at the version before and after, and it is odd while the place is written.
struct Place {
  std::atomic<std::uint64_t> version;
  std::atomic<const void*> function;
  std::atomic<std::uint64_t> generation;
  std::atomic<const Layout*> layout;
};

/// Open addressing. A place of an older generation is free.
inline constexpr std::size_t kPlaces = 1 << 16;
extern std::array<Place, kPlaces> g_places;
extern std::atomic<std::uint64_t> g_generation;

inline std::size_t place_of(const void* function) noexcept {
  return static_cast<std::size_t>((reinterpret_cast<std::uintptr_t>(function) * 0x9E3779B97F4A7C15u) >> 48);
}

/// The function's layout, if it is known; null else. Hook-safe.
[[gnu::always_inline]] inline const Layout* known_layout(const void* function) noexcept {
  const std::uint64_t generation = g_generation.load(std::memory_order_acquire);
  std::size_t i = place_of(function);
  for (std::size_t n = 0; n < kPlaces; ++n) {
    const Place& place = g_places[i];
    const std::uint64_t version = place.version.load(std::memory_order_acquire);
    const void* const there = place.function.load(std::memory_order_acquire);
    const std::uint64_t age = place.generation.load(std::memory_order_acquire);
    const Layout* const layout = place.layout.load(std::memory_order_acquire);
    const bool is_whole = version % 2 == 0 && place.version.load(std::memory_order_relaxed) == version;
    if (!is_whole) [[unlikely]]
      return nullptr;
    if (there == function && age == generation) [[likely]]
      return layout;
    if (there == nullptr) return nullptr;
    i = (i + 1) % kPlaces;
  }
  return nullptr;
}

/// Adds every block that one of the words points into. A parameter that is null the driver refuses.
template <class Set>
[[gnu::always_inline]] inline void add_words(const Layout& layout, void** params, Set& set) noexcept {
  const Layout::Word* const words = layout.words.data();
  set.add_each(layout.words.size(), [=](std::size_t i) noexcept {
    const auto* param = static_cast<const std::byte*>(params[words[i].param]);
    std::uint64_t word = 0;
    if (param != nullptr) std::memcpy(&word, param + words[i].offset, kWord);
    return word;
  });
}

}  // namespace tidepool::shim::detail
