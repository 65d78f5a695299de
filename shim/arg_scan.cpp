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

constinit std::array<detail::Place, detail::kPlaces> detail::g_places{};
constinit std::atomic<std::uint64_t> detail::g_generation{1};

namespace {

using detail::g_generation;
using detail::g_places;
using detail::kPlaces;
using detail::kWord;
using detail::Layout;
using detail::Place;
using detail::place_of;

constinit std::mutex g_lock;  // whoever writes places, and g_layouts
std::vector<std::unique_ptr<const Layout>>& all_layouts() noexcept {
  static auto* const layouts = new std::vector<std::unique_ptr<const Layout>>;
  return *layouts;
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

const Layout* layout_of(const RealDriver& driver, CUfunction function) noexcept {
  const Layout* const known = detail::known_layout(function);
  return known != nullptr ? known
                          : learn_layout(driver, function, g_generation.load(std::memory_order_acquire));
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
  detail::add_words(*layout, params, set);
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
