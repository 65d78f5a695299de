#include "allocator/address_tables.h"

#include <new>
#include <vector>

#include "allocator/support/message.h"

namespace tidepool::runtime {
namespace {

constexpr std::uint64_t kWord = sizeof(std::uint64_t);

}  // namespace

AddressTables& AddressTables::instance() noexcept {
  alignas(AddressTables) static std::byte storage[sizeof(AddressTables)];
  static AddressTables* const only = ::new (storage) AddressTables;
  return *only;
}

void AddressTables::put(std::span<const Word> words) noexcept {
  const std::lock_guard guard(lock_);
  for (const Word word : words) put_one(word);
  publish();
}

void AddressTables::put_one(Word word) noexcept {
  const auto known = words_.find(word.at);
  if (known != words_.end()) {
    if (known->second == word.value) return;  // a table that is copied again as it was
    drop(known->second);
    known->second = word.value;
  } else if (words_.size() < kMostWords) {
    words_.emplace(word.at, word.value);
  } else {
    if (!is_full_.exchange(true)) report<Msg::TP2104>(kMostWords);
    return;
  }
  ++named_[word.value];
}

void AddressTables::erase(std::uint64_t at, std::uint64_t size) noexcept {
  const std::lock_guard guard(lock_);
  erase_in(at, size);
  publish();
}

// A word of which only a part is overwritten may be an address still: the next row of a matrix, say.
void AddressTables::erase_in(std::uint64_t at, std::uint64_t size) noexcept {
  for (auto word = words_.lower_bound(at); word != words_.end() && word->first - at + kWord <= size;)
    word = erase_one(word);
}

// Places may overlap: CUDA leaves open what lies there then.
void AddressTables::copy(std::uint64_t to, std::uint64_t from, std::uint64_t size) noexcept {
  const std::lock_guard guard(lock_);
  std::vector<Word> more;
  // At other places than multiples of eight no kernel reads them in one piece.
  if (to % kWord == from % kWord) {
    for (auto word = words_.lower_bound(from); word != words_.end() && word->first - from + kWord <= size;
         ++word)
      more.push_back({to + (word->first - from), word->second});
  }
  erase_in(to, size);
  for (const Word word : more) put_one(word);
  publish();
}

bool AddressTables::lies_in(std::uint64_t at, std::uint64_t size) const noexcept {
  const std::lock_guard guard(lock_);
  const auto word = words_.lower_bound(at);
  return word != words_.end() && word->first - at < size;
}

void AddressTables::name(std::uint64_t address) noexcept {
  const std::lock_guard guard(lock_);
  ++named_[address];
  publish();
}

void AddressTables::unname(std::uint64_t address) noexcept {
  const std::lock_guard guard(lock_);
  drop(address);
  publish();
}

bool AddressTables::names(std::uint64_t first, std::uint64_t end) const noexcept {
  const std::lock_guard guard(lock_);
  const auto named = named_.lower_bound(first);
  return named != named_.end() && named->first < end;
}

void AddressTables::forget(std::uint64_t first, std::uint64_t end) noexcept {
  const std::lock_guard guard(lock_);
  const auto is_gone = [&](std::uint64_t address) { return address >= first && address < end; };
  for (auto word = words_.begin(); word != words_.end();)
    word = is_gone(word->first) || is_gone(word->second) ? erase_one(word) : std::next(word);
  named_.erase(named_.lower_bound(first), named_.lower_bound(end));
  publish();
}

AddressTables::Words::iterator AddressTables::erase_one(Words::iterator word) noexcept {
  drop(word->second);
  return words_.erase(word);
}

void AddressTables::drop(std::uint64_t value) noexcept {
  const auto known = named_.find(value);
  if (known != named_.end() && --known->second == 0) named_.erase(known);
}

void AddressTables::publish() noexcept {
  any_.store(!named_.empty(), std::memory_order_release);
}

}  // namespace tidepool::runtime
