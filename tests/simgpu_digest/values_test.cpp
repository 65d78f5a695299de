#include "tools/simgpu/digest/values.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

/// What digests write reads as a finite float and a small integer in every type.
namespace {

using simgpu::digest::Span;

constexpr std::size_t kBytes = 1 << 16;

std::vector<std::uint64_t> memory_of_values(std::uint64_t seed) {
  std::vector<std::uint64_t> words(kBytes / 8, ~std::uint64_t{0});
  const auto begin = reinterpret_cast<std::uint64_t>(words.data());
  simgpu::digest::write_values({begin, begin + kBytes}, begin, seed);
  return words;
}

template <class T>
std::vector<T> read_as() {
  const auto words = memory_of_values(3);
  std::vector<T> values(kBytes / sizeof(T));
  std::memcpy(values.data(), words.data(), kBytes);
  return values;
}

/// Checks every element of an integer type.
template <class T>
void check_integers() {
  bool some = false;
  for (const T value : read_as<T>()) {
    REQUIRE(value >= 0);
    REQUIRE(value <= T{120});
    some = some || value > 64;
  }
  CHECK(some);
}

/// True if the exponent of a binary float is all ones: an infinity or no number.
template <class T>
bool not_finite(T bits, unsigned exponent_bits, unsigned fraction_bits) {
  const std::uint64_t ones = (std::uint64_t{1} << exponent_bits) - 1;
  return ((std::uint64_t{bits} >> fraction_bits) & ones) == ones;
}

}  // namespace

TEST_CASE("digest values: every integer type reads small numbers") {
  check_integers<std::int64_t>();
  check_integers<std::int32_t>();
  check_integers<std::int16_t>();
  check_integers<std::int8_t>();
  check_integers<std::uint64_t>();
  check_integers<std::uint32_t>();
  check_integers<std::uint16_t>();
  check_integers<std::uint8_t>();
}

TEST_CASE("digest values: every floating-point type reads finite numbers") {
  for (const double value : read_as<double>()) REQUIRE(std::isfinite(value));
  for (const float value : read_as<float>()) REQUIRE(std::isfinite(value));
  for (const std::uint16_t half : read_as<std::uint16_t>()) {
    REQUIRE_FALSE(not_finite(half, 5, 10));  // binary16
    REQUIRE_FALSE(not_finite(half, 8, 7));   // bfloat16
  }
  for (const std::uint8_t byte : read_as<std::uint8_t>()) {
    REQUIRE_FALSE(not_finite(byte, 5, 2));  // E5M2
    REQUIRE((byte & 0x7f) != 0x7f);         // E4M3: its one NaN
  }
}

TEST_CASE("digest values: every page differs from every other, and from that of another seed") {
  const auto one = memory_of_values(1);
  const auto two = memory_of_values(2);
  constexpr std::size_t kPageWords = 4096 / 8;
  for (std::size_t page = 0; page < kBytes / 4096; ++page) {
    const auto* first = one.data() + page * kPageWords;
    CHECK(std::memcmp(first, two.data() + page * kPageWords, 4096) != 0);
    for (std::size_t other = 0; other < page; ++other) {
      CHECK(std::memcmp(first, one.data() + other * kPageWords, 64) != 0);
    }
  }
}

TEST_CASE("digest values: a part holds what the whole holds there, and nothing else is written") {
  const auto whole = memory_of_values(5);
  const auto* expected = reinterpret_cast<const unsigned char*>(whole.data());
  for (const std::size_t begin : {0, 1, 7, 8, 63, 64, 100, 1000}) {
    for (const std::size_t end : {begin, begin + 1, begin + 9, begin + 64, begin + 129, begin + 700}) {
      std::vector<std::uint64_t> words(256, 0xeeeeeeeeeeeeeeeeU);
      const auto base = reinterpret_cast<std::uint64_t>(words.data());
      simgpu::digest::write_values({base + begin, base + end}, base, 5);
      const auto* got = reinterpret_cast<const unsigned char*>(words.data());
      for (std::size_t i = 0; i < 2048; ++i) REQUIRE(got[i] == (i >= begin && i < end ? expected[i] : 0xee));
    }
  }
}
