#include "tools/simgpu/driver/freed_blocks.h"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

using simgpu::FreedBlocks;

TEST_CASE("freed blocks: the latest that held an address is found") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    FreedBlocks freed;
    struct Freed {
      FreedBlocks::Block block;
      std::uint64_t rounded;
    };
    std::vector<Freed> all;  // the oracle looks through all, the latest first
    for (int step = 0; step < 400; ++step) {
      const std::uint64_t base = 1000 + random() % 500;
      const std::uint64_t size = 1 + random() % 60;
      const std::uint64_t rounded = size + random() % 8;
      freed.add({base, size}, rounded);
      all.push_back({{base, size}, rounded});
      for (int i = 0; i < 20; ++i) {
        const std::uint64_t address = 990 + random() % 600;
        const FreedBlocks::Block* wanted = nullptr;
        for (auto it = all.rbegin(); it != all.rend() && wanted == nullptr; ++it) {
          if (address >= it->block.base && address < it->block.base + it->rounded) wanted = &it->block;
        }
        const FreedBlocks::Block* got = freed.at(address);
        INFO("step " << step << ", address " << address);
        REQUIRE((got != nullptr) == (wanted != nullptr));
        if (got == nullptr) continue;
        CHECK(got->base == wanted->base);
        CHECK(got->size == wanted->size);
      }
    }
  }
}

TEST_CASE("freed blocks: the oldest are forgotten, thousands are not") {
  FreedBlocks freed;
  constexpr std::uint64_t kBlocks = 50 * FreedBlocks::kRemembered;
  for (std::uint64_t i = 0; i < kBlocks; ++i) freed.add({4096 * i, 100}, 512);
  CHECK(freed.at(0) == nullptr);
  for (std::uint64_t i = kBlocks - FreedBlocks::kRemembered; i < kBlocks; ++i) {
    REQUIRE(freed.at(4096 * i + 511) != nullptr);
    CHECK(freed.at(4096 * i + 511)->base == 4096 * i);
    CHECK(freed.at(4096 * i + 512) == nullptr);
  }
}
