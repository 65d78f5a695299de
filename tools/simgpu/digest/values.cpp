#include "tools/simgpu/digest/values.h"

#include <emmintrin.h>

#include <algorithm>
#include <cstring>

namespace simgpu::digest {
namespace {

constexpr std::uint64_t kLine = 64;
constexpr std::uint64_t kQuarter = 16;
/// From this size on lines go past the caches: nobody reads them again soon, and memory need not be read
/// first.
constexpr std::uint64_t kLarge = std::uint64_t{256} << 10;

/// The finalizer of SplitMix64: every bit of the result depends on every bit of the number.
std::uint64_t scrambled(std::uint64_t n) {
  n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9U;
  n = (n ^ (n >> 27)) * 0x94d049bb133111ebU;
  return n ^ (n >> 31);
}

/// Eight random bytes, each from 0 to kLargestValue: every second one scaled from 0…255 at a time.
std::uint64_t line_bytes(std::uint64_t line, std::uint64_t seed) {
  constexpr std::uint64_t kEven = 0x00ff00ff00ff00ffU;
  constexpr std::uint64_t kValues = kLargestValue + 1;
  const std::uint64_t random = scrambled(seed + line * 0x9e3779b97f4a7c15U);
  const std::uint64_t even = (((random & kEven) * kValues) >> 8) & kEven;
  const std::uint64_t odd = (((random >> 8) & kEven) * kValues) & ~kEven;
  return even | odd;
}

/// The bytes of a line, each followed by seven zeros, in four parts.
template <class Store>
void write_line(unsigned char* to, std::uint64_t line, std::uint64_t seed, Store&& store) {
  const __m128i zero = _mm_setzero_si128();
  const __m128i bytes = _mm_cvtsi64_si128(static_cast<long long>(line_bytes(line, seed)));
  const __m128i words = _mm_unpacklo_epi8(bytes, zero);
  const __m128i low = _mm_unpacklo_epi16(words, zero);
  const __m128i high = _mm_unpackhi_epi16(words, zero);
  auto* quarter = reinterpret_cast<__m128i*>(to);
  store(quarter, _mm_unpacklo_epi32(low, zero));
  store(quarter + 1, _mm_unpackhi_epi32(low, zero));
  store(quarter + 2, _mm_unpacklo_epi32(high, zero));
  store(quarter + 3, _mm_unpackhi_epi32(high, zero));
}

void store_anywhere(__m128i* to, __m128i value) {
  _mm_storeu_si128(to, value);
}

void store_past_caches(__m128i* to, __m128i value) {
  _mm_stream_si128(to, value);
}

/// A part of one line.
void write_part(const Span& span, std::uint64_t start, std::uint64_t line, std::uint64_t seed) {
  alignas(kQuarter) unsigned char whole[kLine];
  write_line(whole, line, seed, store_anywhere);
  std::memcpy(reinterpret_cast<void*>(span.begin), whole + (span.begin - start), span.bytes());
}

}  // namespace

void write_values(const Span& span, std::uint64_t base, std::uint64_t seed) {
  std::uint64_t line = (span.begin - base) / kLine;
  std::uint64_t at = base + line * kLine;
  if (at < span.begin) {
    write_part({span.begin, std::min(at + kLine, span.end)}, at, line, seed);
    at += kLine;
    ++line;
  }
  const bool large = span.bytes() >= kLarge && base % kQuarter == 0;
  for (; at + kLine <= span.end; at += kLine, ++line) {
    auto* to = reinterpret_cast<unsigned char*>(at);
    large ? write_line(to, line, seed, store_past_caches) : write_line(to, line, seed, store_anywhere);
  }
  if (large) _mm_sfence();
  if (at < span.end) write_part({at, span.end}, at, line, seed);
}

}  // namespace simgpu::digest
