#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>

namespace tidepool::runtime {

/// Small numbers for kernels, for the recorder. A function that was seen before is one probe of a table; a
/// new one is asked for its name, once. Functions with one name are one kernel: a module that is loaded
/// again, and kernels of which a program holds several handles.
///
/// Thread-safe; hook-safe but for what `ask` does.
class KernelTable {
 public:
  /// Writes the kernel's symbol, cut to the buffer and zero-terminated.
  using AskName = void(const void* function, std::span<char> buffer);

  struct Kernel {
    std::uint32_t id = 0;  ///< from 1; 0: the table is full
    bool is_new = false;   ///< `name` has its name, which nobody was told yet
  };
  static constexpr std::size_t kNameRoom = 1024;

  /// `name`: room for a new kernel's name. Whoever gets a new kernel has to announce it before it returns to
  /// anybody else: publish() follows.
  Kernel find(const void* function, AskName* ask, std::span<char> name) noexcept {
    const std::uint64_t generation = generation_.load(std::memory_order_acquire);
    for (std::size_t i = slot_of(function), n = 0; n < kProbes; ++i, ++n) {
      const Entry& entry = entries_[i % kSlots];
      const void* seen = entry.function.load(std::memory_order_acquire);
      if (seen == nullptr) break;
      const std::uint64_t value = entry.value.load(std::memory_order_acquire);
      if (seen == function && value >> 32 == generation) [[likely]]
        return {static_cast<std::uint32_t>(value), false};
    }
    return add(function, ask, name);
  }
  /// The kernel that find() called new has been announced: others may use its number. Between the two calls,
  /// other new kernels wait.
  void publish() noexcept;

  /// A module is gone: its functions' handles may be given to others.
  void forget() noexcept { generation_.fetch_add(1, std::memory_order_acq_rel); }
  /// In a forked child: nothing is known, and nobody waits.
  void reset_after_fork() noexcept;

 private:
  struct Entry {
    std::atomic<const void*> function{nullptr};
    std::atomic<std::uint64_t> value{0};  ///< generation, id
  };
  static constexpr std::size_t kSlots = 1 << 14;
  static constexpr std::size_t kProbes = 64;

  static std::size_t slot_of(const void* function) noexcept {
    return static_cast<std::size_t>((reinterpret_cast<std::uintptr_t>(function) * 0x9E3779B97F4A7C15u) >> 50);
  }
  Kernel add(const void* function, AskName* ask, std::span<char> name) noexcept;
  void store(const void* function, std::uint32_t id) noexcept;

  std::array<Entry, kSlots> entries_;
  std::atomic<std::uint64_t> generation_{1};
  std::mutex lock_;
  std::array<std::uint64_t, kSlots> names_{};  ///< hash of each kernel's name; lock_
  std::uint32_t count_ = 0;                    ///< lock_
  const void* unpublished_ = nullptr;          ///< lock_
};

}  // namespace tidepool::runtime
