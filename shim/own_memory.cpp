// The library's own operator new and delete; the program's are others. The runtime's functions are noexcept,
// so an exception for want of a few words of bookkeeping would end the program. Where malloc refuses, a
// reserve inside the library serves instead: enough to move blocks, which is how a process short of memory
// goes on.

#include "shim/own_memory.h"

#include <time.h>

#include <cstdlib>
#include <memory_resource>
#include <mutex>
#include <new>

#include "allocator/support/message.h"

namespace tidepool::shim {
namespace {

constexpr std::size_t kReserve = std::size_t{4} << 20;  // in .bss: takes no memory before it is used
constexpr std::size_t kLargestPooled = std::size_t{64} << 10;

alignas(std::max_align_t) constinit std::byte g_bytes[kReserve] = {};

/// In front of what the reserve hands out, because delete is not told a size.
struct alignas(std::max_align_t) Header {
  std::size_t size;
};

/// Pools over a piece of memory that does not grow.
class Reserve {
 public:
  void* take(std::size_t size) noexcept {
    const std::lock_guard guard(lock_);
    try {
      const std::size_t whole = size + sizeof(Header);
      auto* const header = ::new (pools_.allocate(whole)) Header{whole};
      return header + 1;
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }
  void give(void* memory) noexcept {
    const std::lock_guard guard(lock_);
    Header* const header = static_cast<Header*>(memory) - 1;
    pools_.deallocate(header, header->size);
  }

 private:
  std::mutex lock_;
  std::pmr::monotonic_buffer_resource bytes_{g_bytes, sizeof g_bytes, std::pmr::null_memory_resource()};
  std::pmr::unsynchronized_pool_resource pools_{{0, kLargestPooled}, &bytes_};
};

/// Never destroyed: hooks run until the process has ended.
Reserve& reserve() noexcept {
  alignas(Reserve) static std::byte storage[sizeof(Reserve)];
  static Reserve* const only = ::new (storage) Reserve;
  return *only;
}

bool is_reserves(const void* memory) noexcept {
  const auto* const byte = static_cast<const std::byte*>(memory);
  return byte >= g_bytes && byte < g_bytes + sizeof g_bytes;
}

}  // namespace

void* take_own_memory(std::size_t size) noexcept {
  constexpr timespec kPause{0, 10'000'000};
  for (;;) {
    if (void* const memory = std::malloc(size != 0 ? size : 1)) return memory;
    if (void* const memory = reserve().take(size)) return memory;
    // Ending the program is not ours to do; it may get memory back.
    report<Msg::TP3003>(size);
    nanosleep(&kPause, nullptr);
  }
}

void give_own_memory(void* memory) noexcept {
  if (is_reserves(memory)) return reserve().give(memory);
  std::free(memory);
}

}  // namespace tidepool::shim

// NOLINTBEGIN(misc-new-delete-overloads,cert-dcl54-cpp): the array and nothrow forms come down to these
void* operator new(std::size_t size) {
  return tidepool::shim::take_own_memory(size);
}
void operator delete(void* memory) noexcept {
  tidepool::shim::give_own_memory(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  tidepool::shim::give_own_memory(memory);
}
// NOLINTEND(misc-new-delete-overloads,cert-dcl54-cpp)
