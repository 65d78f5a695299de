#include "shim/own_memory.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>
#include <thread>
#include <vector>

extern "C" {
// The linker leads calls of malloc here (--wrap=malloc).
void* __real_malloc(std::size_t size);  // NOLINT: the linker's name
void* __wrap_malloc(std::size_t size);  // NOLINT
}

namespace {

std::atomic<bool> g_refusing{false};

class Refusing {
 public:
  Refusing() { g_refusing = true; }
  ~Refusing() { g_refusing = false; }
  Refusing(const Refusing&) = delete;
  Refusing& operator=(const Refusing&) = delete;
};

struct Piece {
  unsigned char* memory;
  std::size_t size;
  unsigned char value;
};

bool is_whole(const Piece& piece) {
  for (std::size_t i = 0; i < piece.size; ++i) {
    if (piece.memory[i] != piece.value) return false;
  }
  return true;
}

}  // namespace

void* __wrap_malloc(std::size_t size) {
  return g_refusing ? nullptr : __real_malloc(size);
}

namespace tidepool::shim {

TEST_CASE("own memory: where malloc refuses, the reserve serves and is used again") {
  std::minstd_rand random(5);
  std::vector<Piece> held;
  held.reserve(64);
  std::size_t given = 0;
  bool all_whole = true;
  {
    const Refusing refusing;
    // Far more in all than the reserve holds.
    for (int round = 0; round < 20'000; ++round) {
      if (held.size() == 64) {
        const std::size_t at = random() % held.size();
        all_whole = all_whole && is_whole(held[at]);
        give_own_memory(held[at].memory);
        held[at] = held.back();
        held.pop_back();
      }
      const std::size_t size = random() % 50 == 0 ? 1 + random() % 400'000 : 1 + random() % 16'000;
      auto* const memory = static_cast<unsigned char*>(take_own_memory(size));
      const auto value = static_cast<unsigned char>(random());
      std::memset(memory, value, size);
      held.push_back({memory, size, value});
      given += size;
    }
  }
  for (const Piece& piece : held) {
    all_whole = all_whole && is_whole(piece);
    give_own_memory(piece.memory);  // also outside the shortage
  }
  CHECK(all_whole);
  CHECK(given > (std::size_t{100} << 20));
}

TEST_CASE("own memory: a request that can do without is not served from the reserve") {
  const Refusing refusing;
  const bool is_null = ::operator new(16, std::nothrow) == nullptr;
  g_refusing = false;
  CHECK(is_null);
}

TEST_CASE("own memory: with nothing left a call waits, and goes on when there is some") {
  std::atomic<void*> got{nullptr};
  std::thread waiting;
  constexpr std::size_t kMoreThanTheReserve = std::size_t{8} << 20;
  g_refusing = false;
  waiting = std::thread([&] {
    while (!g_refusing) std::this_thread::yield();
    got = take_own_memory(kMoreThanTheReserve);
  });
  g_refusing = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(got == nullptr);
  g_refusing = false;
  waiting.join();
  CHECK(got != nullptr);
  give_own_memory(got);
}

}  // namespace tidepool::shim
