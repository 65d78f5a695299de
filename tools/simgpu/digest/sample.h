#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tools/simgpu/digest/access.h"
#include "tools/simgpu/digest/mixer.h"

namespace simgpu::digest {

/// How much of what a kernel reads is looked at: `line` bytes at every multiple of `period`, from the
/// extent's start on. A period of 4 KiB or less is what can be offered: then any 4 KiB in one piece, wherever
/// they begin, hold `line` bytes that count, and so a lost piece of a copy shows. With 64 KiB, fifteen of
/// sixteen would pass.
struct Stride {
  std::uint64_t line = 64;
  std::uint64_t period = 4096;

  [[nodiscard]] constexpr bool full() const { return line >= period; }
};

inline constexpr Stride kEveryByte{4096, 4096};
inline constexpr Stride kEveryPage{64, 4096};

/// The stride of a name: "full" or "4k".
std::optional<Stride> stride_named(std::string_view name);

/// A word in memory that counts as what it points to.
struct Token {
  std::uint64_t address = 0;
  std::uint64_t meaning = 0;
};

/// Memory to be read, in one piece.
struct Sample {
  Span span;
  std::uint64_t base = 0;         ///< where the stride starts: at most span.begin
  std::span<const Token> tokens;  ///< in the span, ascending
};

/// Mixes what the stride sees of the sample; pieces of a page and less are seen whole. Returns the bytes
/// looked at. Allocates nothing.
std::uint64_t mix_sample(const Sample& sample, const Stride& stride, Mixer* mixer);

/// True if the word at this address is looked at.
bool sees(const Span& span, std::uint64_t base, const Stride& stride, std::uint64_t address);

}  // namespace simgpu::digest
