// The library's own operator new and delete; the program's are others. The runtime's functions are noexcept,
// so an exception for want of a few words of bookkeeping would end the program. Where malloc refuses, a
// reserve inside the library serves instead: enough to move blocks, which is how a process short of memory
// goes on.

#include "shim/own_memory.h"

#include <time.h>

#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <new>

#include "allocator/support/message.h"

namespace tidepool::shim {
namespace {

constexpr std::size_t kReserve = std::size_t{4} << 20;  // in .bss: takes no memory before it is used

alignas(std::max_align_t) constinit std::byte g_bytes[kReserve] = {};

/// First fit over a list of free pieces in the order of their addresses; neighbours merge.
class Reserve {
 public:
  void* take(std::size_t size) noexcept {
    if (size > kReserve - sizeof(Piece)) return nullptr;
    const std::size_t whole = (size + sizeof(Piece) + kUnit - 1) / kUnit * kUnit;
    const std::lock_guard guard(lock_);
    if (!started_) first_ = ::new (g_bytes) Piece{kReserve, nullptr};
    started_ = true;
    for (Piece** link = &first_; *link != nullptr; link = &(*link)->next) {
      Piece* const piece = *link;
      if (piece->size < whole) continue;
      if (piece->size - whole > sizeof(Piece)) {
        *link = ::new (start_of(piece) + whole) Piece{piece->size - whole, piece->next};
        piece->size = whole;
      } else {
        *link = piece->next;
      }
      return piece + 1;
    }
    return nullptr;
  }

  void give(void* memory) noexcept {
    Piece* const piece = static_cast<Piece*>(memory) - 1;
    const std::lock_guard guard(lock_);
    Piece* before = nullptr;
    Piece* after = first_;
    while (after != nullptr && after < piece) {
      before = after;
      after = after->next;
    }
    piece->next = after;
    (before != nullptr ? before->next : first_) = piece;
    merge_with_next(piece);
    if (before != nullptr) merge_with_next(before);
  }

 private:
  struct alignas(std::max_align_t) Piece {
    std::size_t size;  // with this header
    Piece* next;       // while it is free
  };
  static constexpr std::size_t kUnit = alignof(Piece);
  static std::byte* start_of(Piece* piece) noexcept { return reinterpret_cast<std::byte*>(piece); }
  static void merge_with_next(Piece* piece) noexcept {
    if (piece->next == nullptr || start_of(piece) + piece->size != start_of(piece->next)) return;
    piece->size += piece->next->size;
    piece->next = piece->next->next;
  }

  std::mutex lock_;
  Piece* first_ = nullptr;
  bool started_ = false;
};

constinit Reserve g_reserve;  // trivially destroyed: hooks run until the process has ended

bool is_reserves(const void* memory) noexcept {
  const auto* const byte = static_cast<const std::byte*>(memory);
  return byte >= g_bytes && byte < g_bytes + sizeof g_bytes;
}

}  // namespace

void* take_own_memory(std::size_t size) noexcept {
  constexpr timespec kPause{0, 10'000'000};
  for (;;) {
    if (void* const memory = std::malloc(size != 0 ? size : 1)) return memory;
    if (void* const memory = g_reserve.take(size)) return memory;
    // Ending the program is not ours to do; it may get memory back.
    report<Msg::TP3003>(size);
    nanosleep(&kPause, nullptr);
  }
}

void give_own_memory(void* memory) noexcept {
  if (is_reserves(memory)) return g_reserve.give(memory);
  std::free(memory);
}

}  // namespace tidepool::shim

// Every form, because a sanitizer's run-time has its own of those that are missing. The nothrow forms ask
// malloc only: their callers can do without.
void* operator new(std::size_t size) {
  return tidepool::shim::take_own_memory(size);
}
void* operator new[](std::size_t size) {
  return tidepool::shim::take_own_memory(size);
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return std::malloc(size != 0 ? size : 1);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return std::malloc(size != 0 ? size : 1);
}
void operator delete(void* memory) noexcept {
  tidepool::shim::give_own_memory(memory);
}
void operator delete[](void* memory) noexcept {
  tidepool::shim::give_own_memory(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  tidepool::shim::give_own_memory(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  tidepool::shim::give_own_memory(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  tidepool::shim::give_own_memory(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  tidepool::shim::give_own_memory(memory);
}
