#include "shim/arg_scan.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <iterator>
#include <memory>
#include <mutex>
#include <vector>

namespace tidepool::shim {
namespace {

constexpr std::size_t kWord = 8;

// Between one place of a parameter where a pointer can begin and the next. A type's size is a multiple of its
// alignment, and so is its offset: together they tell what a pointer within is aligned to at least. Packed
// structs have pointers at odd places; where the numbers do not betray one, small structs are searched as if
// they were packed to four bytes, and large ones are not: that would double what they cost.
constexpr std::size_t kSmallStruct = 64;
constexpr std::size_t kLargestPacked = 256;
std::size_t step_in(std::size_t offset, std::size_t size) noexcept {
  if (size > kLargestPacked) return kWord;
  const std::size_t alignment = std::size_t{1} << std::countr_zero(offset | size | kWord);
  const bool may_be_packed = size > kWord && size <= kSmallStruct;
  return may_be_packed ? std::min(alignment, kWord / 2) : alignment;
}

// Where pointers can be: 8-byte words of the parameters. Never changed and never freed: functions share them,
// and there are few.
struct Layout {
  struct Word {
    std::uint32_t param;
    std::uint32_t offset;  // within the parameter
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

// Which layout a function has, worked out once for each function and generation. Readers take no lock: they
// look at the version before and after, and it is odd while the place is written.
struct Place {
  std::atomic<std::uint64_t> version;
  std::atomic<const void*> function;
  std::atomic<std::uint64_t> generation;
  std::atomic<const Layout*> layout;
};

// Open addressing. A place of an older generation is free.
constexpr std::size_t kPlaces = 1 << 16;
std::array<Place, kPlaces> g_places;
std::atomic<std::uint64_t> g_generation{1};
constinit std::mutex g_lock;  // whoever writes places, and g_layouts
std::vector<std::unique_ptr<const Layout>>& all_layouts() noexcept {
  static auto* const layouts = new std::vector<std::unique_ptr<const Layout>>;
  return *layouts;
}

std::size_t place_of(const void* function) noexcept {
  return static_cast<std::size_t>((reinterpret_cast<std::uintptr_t>(function) * 0x9E3779B97F4A7C15u) >> 48);
}

// The handle may be a CUfunction or a CUkernel cast to one (cuda.h, cuLaunchKernel). CUDA_ERROR_INVALID_VALUE
// means "past the last parameter", and for the first one also "no such handle", as does INVALID_HANDLE (H200,
// driver 580). Without parameters is what neither question has any for, not what one of them could not
// answer.
//
// False: it cannot be had now. That is not remembered, the next launch asks again.
bool read_layout(const RealDriver& driver, CUfunction function, Layout* layout) noexcept {
  enum class Answer { kSome, kNone, kFailed };
  const auto read = [&](auto* get, auto handle) {
    for (std::uint32_t i = 0;; ++i) {
      std::size_t offset = 0;
      std::size_t size = 0;
      const CUresult result = get(handle, i, &offset, &size);
      if (result == CUDA_ERROR_INVALID_VALUE) return i == 0 ? Answer::kNone : Answer::kSome;
      if (result == CUDA_ERROR_INVALID_HANDLE && i == 0) return Answer::kNone;
      if (result != CUDA_SUCCESS) return Answer::kFailed;
      layout->add_param(i, offset, size);
    }
  };
  const Answer as_function = read(driver.cuFuncGetParamInfo, function);
  if (as_function == Answer::kSome) return true;
  layout->words.clear();
  const Answer as_kernel = driver.cuKernelGetParamInfo != nullptr
                               ? read(driver.cuKernelGetParamInfo, reinterpret_cast<CUkernel>(function))
                               : Answer::kNone;
  if (as_kernel == Answer::kSome) return true;
  layout->words.clear();
  return as_function == Answer::kNone && as_kernel == Answer::kNone;
}

[[gnu::noinline, gnu::cold]] const Layout* learn_layout(const RealDriver& driver, CUfunction function,
                                                        std::uint64_t generation) noexcept {
  const std::lock_guard guard(g_lock);
  Layout read;
  if (!read_layout(driver, function, &read)) return nullptr;
  auto& layouts = all_layouts();
  auto known =
      std::find_if(layouts.begin(), layouts.end(), [&](const auto& layout) { return *layout == read; });
  if (known == layouts.end()) {
    layouts.push_back(std::make_unique<const Layout>(std::move(read)));
    known = std::prev(layouts.end());
  }
  for (std::size_t i = place_of(function), n = 0; n < kPlaces; ++i, ++n) {
    Place& place = g_places[i % kPlaces];
    const void* const other = place.function.load(std::memory_order_relaxed);
    const bool is_current = place.generation.load(std::memory_order_relaxed) == generation;
    if (other != nullptr && other != function && is_current) continue;
    const std::uint64_t version = place.version.load(std::memory_order_relaxed);
    // Each store after the first is ordered behind it, and the last behind them all.
    place.version.store(version + 1, std::memory_order_relaxed);
    place.function.store(function, std::memory_order_release);
    place.generation.store(generation, std::memory_order_release);
    place.layout.store(known->get(), std::memory_order_release);
    place.version.store(version + 2, std::memory_order_release);
    break;
  }
  return known->get();
}

// In each of the two scans, or the common one would pay for a call.
[[gnu::always_inline]] inline const Layout* layout_of(const RealDriver& driver,
                                                      CUfunction function) noexcept {
  const std::uint64_t generation = g_generation.load(std::memory_order_acquire);
  for (std::size_t i = place_of(function), n = 0; n < kPlaces; ++i, ++n) {
    const Place& place = g_places[i % kPlaces];
    const std::uint64_t version = place.version.load(std::memory_order_acquire);
    const void* const there = place.function.load(std::memory_order_acquire);
    const std::uint64_t age = place.generation.load(std::memory_order_acquire);
    const Layout* const layout = place.layout.load(std::memory_order_acquire);
    const bool is_whole = version % 2 == 0 && place.version.load(std::memory_order_relaxed) == version;
    if (there == nullptr || !is_whole) [[unlikely]]
      break;
    if (there == function && age == generation) [[likely]]
      return layout;
  }
  return learn_layout(driver, function, generation);
}

// cuda.h, cuLaunchKernel: the whole parameter block in one buffer. Such launches are rare enough to be
// searched for pointers of packed structs without a look at their layout.
template <class Set>
void scan_extra(void** extra, Set& set) noexcept {
  const std::byte* buffer = nullptr;
  std::size_t size = 0;
  for (std::size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = static_cast<const std::byte*>(extra[i + 1]);
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) std::memcpy(&size, extra[i + 1], sizeof size);
  }
  if (buffer == nullptr) return;
  constexpr std::size_t kStep = kWord / 2;
  set.add_each(size < kWord ? 0 : (size - kWord) / kStep + 1, [=](std::size_t i) noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, buffer + i * kStep, kWord);
    return word;
  });
}

template <class Set>
bool scan(const RealDriver& driver, CUfunction function, void** params, void** extra, Set& set) noexcept {
  if (params == nullptr) {
    if (extra != nullptr) scan_extra(extra, set);
    return true;
  }
  const Layout* layout = layout_of(driver, function);
  if (layout == nullptr) return false;
  const Layout::Word* const words = layout->words.data();
  set.add_each(layout->words.size(), [=](std::size_t i) noexcept {
    const auto* param = static_cast<const std::byte*>(params[words[i].param]);
    std::uint64_t word = 0;
    if (param != nullptr) std::memcpy(&word, param + words[i].offset, kWord);  // null: the driver refuses it
    return word;
  });
  return true;
}

}  // namespace

bool scan_arguments(const RealDriver& driver, CUfunction function, void** params, void** extra,
                    TouchSet& set) noexcept {
  return scan(driver, function, params, extra, set);
}

// Drivers that cannot be managed may have no way to tell a function's parameters.
bool scan_arguments(const RealDriver& driver, CUfunction function, void** params, void** extra,
                    ObservedSet& set) noexcept {
  if (params != nullptr && driver.cuFuncGetParamInfo == nullptr) return false;
  return scan(driver, function, params, extra, set);
}

void forget_layouts() noexcept {
  g_generation.fetch_add(1, std::memory_order_acq_rel);
}

}  // namespace tidepool::shim
