#include "shim/arg_scan.h"

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <new>
#include <vector>

namespace tidepool::shim {
namespace {

constexpr std::size_t kWord = 8;

// Where pointers can be: the 8-byte words of the parameters that sit at a multiple of eight in the parameter
// block. Worked out once for each function.
struct Layout {
  const void* function;
  std::uint64_t generation;
  const Layout* replaced;  // what had its slot before
  struct Word {
    std::uint32_t param;
    std::uint32_t offset;  // within the parameter
  };
  std::vector<Word> words;

  void add_param(std::uint32_t param, std::size_t offset, std::size_t size) {
    for (std::size_t at = (kWord - offset % kWord) % kWord; at + kWord <= size; at += kWord) {
      words.push_back({param, static_cast<std::uint32_t>(at)});
    }
  }
};

// Immutable layouts in an open-addressing table; readers take no lock. Replaced layouts are kept: a launch on
// another thread may be reading one, and there are few.
constexpr std::size_t kSlots = 1 << 16;
std::array<std::atomic<const Layout*>, kSlots> g_layouts;
std::atomic<std::uint64_t> g_generation{1};
constinit std::mutex g_lock;

std::size_t slot_of(const void* function) noexcept {
  return static_cast<std::size_t>((reinterpret_cast<std::uintptr_t>(function) * 0x9E3779B97F4A7C15u) >> 48);
}

// The handle may be a CUfunction or a CUkernel cast to one (cuda.h, cuLaunchKernel). CUDA_ERROR_INVALID_VALUE
// means "past the last parameter", and for the first one also "no such handle".
//
// Null: it cannot be had now. That is not remembered, the next launch asks again.
Layout* read_layout(const RealDriver& driver, CUfunction function, std::uint64_t generation) noexcept {
  auto* layout = new (std::nothrow) Layout{function, generation, nullptr, {}};
  if (layout == nullptr) return nullptr;
  enum class Answer { kSome, kNone, kFailed };
  const auto read = [&](auto* get, auto handle) {
    for (std::uint32_t i = 0;; ++i) {
      std::size_t offset = 0;
      std::size_t size = 0;
      const CUresult result = get(handle, i, &offset, &size);
      if (result == CUDA_ERROR_INVALID_VALUE) return i == 0 ? Answer::kNone : Answer::kSome;
      if (result != CUDA_SUCCESS) return Answer::kFailed;
      layout->add_param(i, offset, size);
    }
  };
  const Answer as_function = read(driver.cuFuncGetParamInfo, function);
  if (as_function == Answer::kSome) return layout;
  layout->words.clear();
  const Answer as_kernel = driver.cuKernelGetParamInfo != nullptr
                               ? read(driver.cuKernelGetParamInfo, reinterpret_cast<CUkernel>(function))
                               : Answer::kFailed;
  if (as_kernel == Answer::kSome) return layout;
  layout->words.clear();
  if (as_function == Answer::kNone || as_kernel == Answer::kNone) return layout;
  delete layout;
  return nullptr;
}

[[gnu::noinline, gnu::cold]] const Layout* learn_layout(const RealDriver& driver, CUfunction function,
                                                        std::uint64_t generation) noexcept {
  const std::lock_guard guard(g_lock);
  Layout* fresh = read_layout(driver, function, generation);
  if (fresh == nullptr) return nullptr;
  for (std::size_t i = slot_of(function), n = 0; n < kSlots; ++i, ++n) {
    auto& slot = g_layouts[i % kSlots];
    const Layout* layout = slot.load(std::memory_order_relaxed);
    if (layout != nullptr && layout->function != function && layout->generation == generation) continue;
    fresh->replaced = layout;
    slot.store(fresh, std::memory_order_release);
    break;
  }
  return fresh;
}

// In each of the two scans, or the common one would pay for a call.
[[gnu::always_inline]] inline const Layout* layout_of(const RealDriver& driver,
                                                      CUfunction function) noexcept {
  const std::uint64_t generation = g_generation.load(std::memory_order_acquire);
  for (std::size_t i = slot_of(function), n = 0; n < kSlots; ++i, ++n) {
    const Layout* layout = g_layouts[i % kSlots].load(std::memory_order_acquire);
    if (layout == nullptr) break;
    if (layout->function == function && layout->generation == generation) [[likely]]
      return layout;
  }
  return learn_layout(driver, function, generation);
}

// cuda.h, cuLaunchKernel: the whole parameter block in one buffer.
template <class Set>
void scan_extra(void** extra, Set& set) noexcept {
  const std::byte* buffer = nullptr;
  std::size_t size = 0;
  for (std::size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = static_cast<const std::byte*>(extra[i + 1]);
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) std::memcpy(&size, extra[i + 1], sizeof size);
  }
  if (buffer == nullptr) return;
  set.add_each(size / kWord, [=](std::size_t i) noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, buffer + i * kWord, kWord);
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
