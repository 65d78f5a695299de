#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "planner/plan/trace_record.h"

namespace tidepool::plan {

/// What differences in a chunk refer to; both sides begin each chunk with the same one.
struct CodecState {
  std::uint64_t sequence = 0;
  std::uint64_t tick = 0;
  std::uint64_t stream = 0;
  std::uint64_t address = 0;
};

constexpr std::uint64_t zigzag(std::uint64_t difference) noexcept {
  const auto sign = static_cast<std::uint64_t>(static_cast<std::int64_t>(difference) >> 63);
  return (difference << 1) ^ sign;
}
constexpr std::uint64_t unzigzag(std::uint64_t coded) noexcept {
  return (coded >> 1) ^ (~(coded & 1) + 1);
}

/// Writes fields one behind the other. The caller has made sure of the room (longest_encoding). Hook-safe.
class Encoder {
 public:
  Encoder(std::uint8_t* at, CodecState& state) noexcept : at_(at), state_(state) {}
  [[nodiscard]] std::uint8_t* at() const noexcept { return at_; }

  template <class Number>
  void number(const Number& value) noexcept {
    put(static_cast<std::uint64_t>(value));
  }
  void stream(std::uint64_t value) noexcept { difference(value, state_.stream); }
  void address(std::uint64_t value) noexcept { difference(value, state_.address); }
  void list(std::span<const std::uint32_t> ids) noexcept {
    put(ids.size());
    std::uint64_t last = 0;
    for (const std::uint32_t id : ids) difference(id, last);
  }
  void text(std::string_view value) noexcept {
    value = value.substr(0, kLongestText);
    put(value.size());
    std::memcpy(at_, value.data(), value.size());
    at_ += value.size();
  }
  void grid(const Grid& value) noexcept {
    std::uint8_t* const mask = at_++;
    *mask = 0;
    for (unsigned i = 0; i < 6; ++i) {
      const std::uint32_t n = i < 3 ? value.blocks[i] : value.threads[i - 3];
      if (n == 1) continue;
      *mask = static_cast<std::uint8_t>(*mask | 1u << i);
      put(n);
    }
  }
  void frames(std::span<const Frame> frames) noexcept {
    put(frames.size());
    for (const Frame& frame : frames) {
      put(frame.module);
      put(frame.offset);
    }
  }

 private:
  void put(std::uint64_t n) noexcept {
    while (n >= 0x80) {
      *at_++ = static_cast<std::uint8_t>(n | 0x80);
      n >>= 7;
    }
    *at_++ = static_cast<std::uint8_t>(n);
  }
  void difference(std::uint64_t value, std::uint64_t& last) noexcept {
    put(zigzag(value - last));
    last = value;
  }

  std::uint8_t* at_;
  CodecState& state_;
};

/// Memory for what the decoded record points to.
struct DecodeScratch {
  std::vector<std::uint32_t> ids;
  std::vector<Frame> frames;
};

/// Reads fields from bytes that may be anything. A record that ends before a field leaves the field zero (it
/// is older than the field); one that ends inside a field, or holds what cannot be, makes ok() false.
class Decoder {
 public:
  Decoder(std::span<const std::uint8_t> bytes, CodecState& state, DecodeScratch& scratch) noexcept
      : at_(bytes.data()), end_(bytes.data() + bytes.size()), state_(state), scratch_(scratch) {}
  [[nodiscard]] bool ok() const noexcept { return ok_; }

  template <class Number>
  void number(Number& value) {
    const std::uint64_t got = get();
    value = static_cast<Number>(got);
    if (static_cast<std::uint64_t>(value) != got) ok_ = false;
  }
  void stream(std::uint64_t& value) { difference(value, state_.stream); }
  void address(std::uint64_t& value) { difference(value, state_.address); }
  void list(std::span<const std::uint32_t>& ids) {
    const std::size_t count = get_count(kMostListed);
    scratch_.ids.clear();
    std::uint64_t last = 0;
    for (std::size_t i = 0; i < count && ok_; ++i) {
      std::uint64_t id = 0;
      difference(id, last);
      if (id > UINT32_MAX) ok_ = false;
      if (i + 1 < count && at_ == end_) ok_ = false;
      scratch_.ids.push_back(static_cast<std::uint32_t>(id));
    }
    ids = scratch_.ids;
  }
  void text(std::string_view& value) {
    const std::size_t size = get_count(kLongestText);
    value = {reinterpret_cast<const char*>(at_), size};
    at_ += size;
  }
  void grid(Grid& value) {
    const std::uint64_t mask = at_ == end_ ? 0 : *at_++;
    if (mask >= 64) ok_ = false;
    for (unsigned i = 0; i < 6; ++i) {
      std::uint32_t& n = i < 3 ? value.blocks[i] : value.threads[i - 3];
      n = 1;
      if ((mask >> i & 1) != 0) number(n);
    }
  }
  void frames(std::span<const Frame>& frames) {
    const std::size_t count = get_count(kMostFrames);
    scratch_.frames.resize(count);
    for (Frame& frame : scratch_.frames) {
      number(frame.module);
      if (at_ == end_) ok_ = false;
      number(frame.offset);
    }
    frames = scratch_.frames;
  }
  /// Unsigned differences: of sequence and time.
  std::uint64_t get() {
    std::uint64_t n = 0;
    if (at_ == end_) return n;
    for (unsigned shift = 0; at_ != end_; shift += 7) {
      const std::uint64_t bits = *at_ & 0x7fu;
      if (shift > 63 || (shift == 63 && bits > 1)) break;
      n |= bits << shift;
      if ((*at_++ & 0x80u) == 0) return n;
    }
    ok_ = false;
    at_ = end_;
    return 0;
  }

 private:
  // Every item takes at least a byte, so no more can be meant than bytes are left.
  std::size_t get_count(std::size_t most) {
    const std::uint64_t count = get();
    if (ok_ && count <= most && count <= static_cast<std::size_t>(end_ - at_)) return count;
    ok_ = false;
    return 0;
  }
  void difference(std::uint64_t& value, std::uint64_t& last) { value = last += unzigzag(get()); }

  const std::uint8_t* at_;
  const std::uint8_t* end_;
  CodecState& state_;
  DecodeScratch& scratch_;
  bool ok_ = true;
};

/// Bytes that the record takes at most, with its length, kind, sequence and time.
template <class Record>
constexpr std::size_t longest_encoding(const Record& record) noexcept {
  constexpr std::size_t kFixed = 160;  // sixteen numbers
  if constexpr (requires { record.blocks; }) return kFixed + 5 * record.blocks.size();
  if constexpr (requires { record.frames; }) return kFixed + 15 * record.frames.size();
  if constexpr (
      requires { record.name; } || requires { record.path; })
    return kFixed + kLongestText;
  return kFixed;
}

}  // namespace tidepool::plan
