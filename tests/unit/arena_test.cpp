// Words that may be addresses: none of the arena's may be missed, wherever it stands among others.

#include "allocator/arena.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "tests/fakes/fake_device.h"

namespace tidepool::runtime {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);

/// The bytes of words, at an address that is a multiple of nothing.
std::vector<std::byte> bytes_of(const std::vector<std::uint64_t>& words) {
  std::vector<std::byte> bytes(words.size() * kWord + 1);
  if (!words.empty()) std::memcpy(bytes.data() + 1, words.data(), words.size() * kWord);
  return bytes;
}

}  // namespace

TEST_CASE("arena: an address of its own is found among words, wherever it stands") {
  for (const Bytes memory : {MiB(64), GiB(80), GiB(4096)}) {
    fakes::FakeDevice device({memory, MiB(2), 1});
    const auto created = Arena::create(device);
    REQUIRE(created.ok());
    const std::unique_ptr<Arena> arena(*created);
    const Arena::Finder finder = arena->finder();
    const std::uint64_t base = arena->base().address();
    const std::uint64_t last = base + arena->size().count() - 1;
    std::mt19937_64 random(7);
    for (std::size_t many = 0; many <= 40; ++many) {
      INFO(memory.count() << " bytes, " << many << " words");
      std::vector<std::uint64_t> others(many);
      // Small numbers, negative ones, floats in pairs, and what lies right in front of the arena.
      for (std::size_t i = 0; i < many; ++i)
        others[i] = std::vector{random() % 1000, ~random() % 9, 0x3f8000003f800000 + random() % 4096,
                                base - 1}[i % 4];
      std::vector<std::byte> bytes = bytes_of(others);
      CHECK_FALSE(finder.covers_some(bytes.data() + 1, many));
      for (std::size_t at = 0; at < many; ++at) {
        for (const std::uint64_t own : {base, base + random() % arena->size().count(), last}) {
          std::vector<std::uint64_t> words = others;
          words[at] = own;
          bytes = bytes_of(words);
          CHECK(finder.covers_some(bytes.data() + 1, many));
        }
      }
    }
  }
}

}  // namespace tidepool::runtime
