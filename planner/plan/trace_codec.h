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

/// Bits of a launch's shape besides the six for extents that are not 1.
inline constexpr unsigned kHasShared = 64;
inline constexpr unsigned kAnyBlockBit = 128;

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
  // Two bytes for each id, or four if one needs them: half the instructions of a varint, and hardly longer.
  void list(std::span<const std::uint32_t> ids) noexcept {
    std::uint8_t* const begin = at_;
    put(ids.size() << 1);
    std::uint32_t all = 0;
    for (const std::uint32_t id : ids) {
      all |= id;
      const auto narrow = static_cast<std::uint16_t>(id);
      std::memcpy(at_, &narrow, sizeof narrow);
      at_ += sizeof narrow;
    }
    if (all > UINT16_MAX) [[unlikely]] {
      *begin |= 1;
      at_ -= ids.size() * sizeof(std::uint16_t);
      std::memcpy(at_, ids.data(), ids.size_bytes());
      at_ += ids.size_bytes();
    }
  }
  void text(std::string_view value) noexcept {
    value = value.substr(0, kLongestText);
    put(value.size());
    std::memcpy(at_, value.data(), value.size());
    at_ += value.size();
  }
  void shape(const Grid& grid, std::uint32_t shared_bytes, bool any_block) noexcept {
    std::uint8_t* const mask = at_++;
    unsigned bits = (grid.blocks[0] != 1 ? 1u : 0u) | (grid.threads[0] != 1 ? 8u : 0u) |
                    (shared_bytes != 0 ? kHasShared : 0u) | (any_block ? kAnyBlockBit : 0u);
    const std::uint32_t flat =
        (grid.blocks[1] ^ 1) | (grid.blocks[2] ^ 1) | (grid.threads[1] ^ 1) | (grid.threads[2] ^ 1);
    if ((bits & 1) != 0) put(grid.blocks[0]);
    if (flat != 0) [[unlikely]] {
      for (const unsigned i : {1u, 2u}) {
        if (grid.blocks[i] != 1) bits |= 1u << i, put(grid.blocks[i]);
      }
    }
    if ((bits & 8) != 0) put(grid.threads[0]);
    if (flat != 0) [[unlikely]] {
      for (const unsigned i : {1u, 2u}) {
        if (grid.threads[i] != 1) bits |= 8u << i, put(grid.threads[i]);
      }
    }
    if (shared_bytes != 0) put(shared_bytes);
    *mask = static_cast<std::uint8_t>(bits);
  }
  void frames(std::span<const Frame> frames) noexcept {
    put(frames.size());
    for (const Frame& frame : frames) {
      put(frame.module);
      put(frame.offset);
    }
  }

 private:
  // On the launch path: most numbers have one byte, most others two.
  void put(std::uint64_t n) noexcept {
    if (n < 0x80) [[likely]] {
      *at_++ = static_cast<std::uint8_t>(n);
      return;
    }
    do {
      *at_++ = static_cast<std::uint8_t>(n | 0x80);
      n >>= 7;
    } while (n >= 0x80);
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
    const std::uint64_t coded = get();
    const bool is_wide = (coded & 1) != 0;
    const std::size_t width = is_wide ? 4 : 2;
    scratch_.ids.clear();
    if (coded >> 1 > kMostListed || (coded >> 1) * width > static_cast<std::size_t>(end_ - at_)) {
      ok_ = false;
    } else {
      scratch_.ids.resize(static_cast<std::size_t>(coded >> 1));
    }
    for (std::uint32_t& id : scratch_.ids) {
      id = 0;
      std::memcpy(&id, at_, width);
      at_ += width;
    }
    ids = scratch_.ids;
  }
  void text(std::string_view& value) {
    const std::size_t size = get_count(kLongestText);
    value = {reinterpret_cast<const char*>(at_), size};
    at_ += size;
  }
  void shape(Grid& grid, std::uint32_t& shared_bytes, bool& any_block) {
    const unsigned bits = at_ == end_ ? 0 : *at_++;
    for (unsigned i = 0; i < 6; ++i) {
      std::uint32_t& n = i < 3 ? grid.blocks[i] : grid.threads[i - 3];
      n = 1;
      if ((bits >> i & 1) != 0) number(n);
    }
    if ((bits & kHasShared) != 0) number(shared_bytes);
    any_block = (bits & kAnyBlockBit) != 0;
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
