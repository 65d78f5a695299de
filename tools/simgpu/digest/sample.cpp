#include "tools/simgpu/digest/sample.h"

#include <algorithm>

namespace simgpu::digest {
namespace {

constexpr std::uint64_t kWord = 8;
constexpr std::uint64_t kAhead =
    16;  ///< lines asked for before they are needed: one at a time waits for memory

const unsigned char* at(std::uint64_t address) {
  return reinterpret_cast<const unsigned char*>(address);
}

/// Mixes bytes with tokens in place of the words that they stand for; drops the tokens it passed.
void mix_bytes(Span span, std::span<const Token>* tokens, Mixer* mixer) {
  while (!tokens->empty() && tokens->front().address + kWord <= span.begin) *tokens = tokens->subspan(1);
  while (!tokens->empty() && tokens->front().address < span.end) {
    const Token token = tokens->front();
    if (token.address > span.begin) mixer->bytes(at(span.begin), token.address - span.begin);
    mixer->number(token.meaning);
    span.begin = std::min(token.address + kWord, span.end);
    *tokens = tokens->subspan(1);
  }
  if (!span.empty()) mixer->bytes(at(span.begin), span.bytes());
}

bool whole(const Span& span, const Stride& stride) {
  return stride.full() || span.bytes() <= stride.period;
}

}  // namespace

std::optional<Stride> stride_named(std::string_view name) {
  if (name == "full") return kEveryByte;
  if (name == "4k") return kEveryPage;
  return std::nullopt;
}

std::uint64_t mix_sample(const Sample& sample, const Stride& stride, Mixer* mixer) {
  const Span& span = sample.span;
  std::span<const Token> tokens = sample.tokens;
  mixer->number(span.begin - sample.base);
  mixer->number(span.bytes());
  if (whole(span, stride)) {
    mix_bytes(span, &tokens, mixer);
    return span.bytes();
  }
  std::uint64_t seen = stride.line;
  mix_bytes({span.begin, span.begin + stride.line}, &tokens, mixer);
  const std::uint64_t first = (span.begin - sample.base) / stride.period + 1;
  for (std::uint64_t line = sample.base + first * stride.period; line < span.end; line += stride.period) {
    __builtin_prefetch(at(line + kAhead * stride.period));
    const std::uint64_t end = std::min(line + stride.line, span.end);
    mix_bytes({line, end}, &tokens, mixer);
    seen += end - line;
  }
  return seen;
}

bool sees(const Span& span, std::uint64_t base, const Stride& stride, std::uint64_t address) {
  if (whole(span, stride) || address < span.begin + stride.line) return true;
  const std::uint64_t into = (address - base) % stride.period;
  return into < stride.line || into + kWord > stride.period;
}

}  // namespace simgpu::digest
