#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>

namespace tidepool::runtime {

/// The addresses of managed memory that lie in device memory as far as they were seen getting there, in all
/// devices of the process: tables of addresses, which kernels follow unseen. And addresses that other objects
/// name as long as they live (textures). A name is an address, not a block: what is allocated there later has
/// it too.
///
/// Thread-safe; allocates. Takes a short lock, the last of all but Residency's for what is kept.
class AddressTables {
 public:
  /// A word in device memory, at a multiple of eight, and the address that it holds.
  struct Word {
    std::uint64_t at = 0;
    std::uint64_t value = 0;
    constexpr bool operator==(const Word&) const = default;
  };
  /// So many are remembered, in at most 10 MiB. Words beyond are not, and nothing that a table has named is
  /// let go from then on (TP2104).
  static constexpr std::size_t kMostWords = std::size_t{1} << 16;

  AddressTables() noexcept = default;
  AddressTables(const AddressTables&) = delete;
  AddressTables& operator=(const AddressTables&) = delete;
  /// The process' own. Never destroyed: hooks run until the process has ended.
  static AddressTables& instance() noexcept;

  /// Is anything named? Hook-safe, one load.
  [[nodiscard]] bool any() const noexcept { return any_.load(std::memory_order_acquire); }

  /// The words have come to lie there.
  void put(std::span<const Word> words) noexcept;
  /// Other bytes have come to lie there, or the memory was freed.
  void erase(std::uint64_t at, std::uint64_t size) noexcept;
  /// What lies in one place has come to lie in another one as well.
  void copy(std::uint64_t to, std::uint64_t from, std::uint64_t size) noexcept;
  /// Does any word lie there?
  [[nodiscard]] bool lies_in(std::uint64_t at, std::uint64_t size) const noexcept;

  /// An object names the address until unname().
  void name(std::uint64_t address) noexcept;
  void unname(std::uint64_t address) noexcept;

  /// Is an address named that is at least `first` and less than `end`?
  [[nodiscard]] bool names(std::uint64_t first, std::uint64_t end) const noexcept;
  /// Too many words were put.
  [[nodiscard]] bool is_full() const noexcept { return is_full_.load(std::memory_order_acquire); }
  /// There is nothing between these addresses any more, and nothing names it: the memory of a context that
  /// has ended.
  void forget(std::uint64_t first, std::uint64_t end) noexcept;

 private:
  using Words = std::map<std::uint64_t, std::uint64_t>;  // where -> value

  // With lock_.
  void put_one(Word word) noexcept;
  void erase_in(std::uint64_t at, std::uint64_t size) noexcept;
  Words::iterator erase_one(Words::iterator word) noexcept;
  void drop(std::uint64_t value) noexcept;
  void publish() noexcept;

  mutable std::mutex lock_;
  Words words_;
  std::map<std::uint64_t, std::uint32_t> named_;  // value -> by how many words and objects
  std::atomic<bool> any_{false};
  std::atomic<bool> is_full_{false};
};

}  // namespace tidepool::runtime
