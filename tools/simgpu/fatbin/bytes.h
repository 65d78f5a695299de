#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace simgpu::fatbin {

/// Bytes of an image, somebody else's memory. Every read says whether it lies inside; the machine is little
/// endian, as the images are.
class Bytes {
 public:
  Bytes() = default;
  Bytes(const void* data, std::size_t size) : span_(static_cast<const std::byte*>(data), size) {}

  [[nodiscard]] const std::byte* data() const { return span_.data(); }
  [[nodiscard]] std::size_t size() const { return span_.size(); }
  [[nodiscard]] bool empty() const { return span_.empty(); }

  /// True if `size` bytes at `offset` lie inside.
  [[nodiscard]] bool has(std::uint64_t offset, std::uint64_t size) const {
    return offset <= span_.size() && size <= span_.size() - offset;
  }

  /// Copies a value out; false (and *out unchanged) past the end.
  template <class T>
  [[nodiscard]] bool read(std::uint64_t offset, T* out) const {
    static_assert(std::is_trivially_copyable_v<T>);
    if (!has(offset, sizeof(T))) return false;
    std::memcpy(out, span_.data() + offset, sizeof(T));
    return true;
  }

  /// A part; false (and *out unchanged) if it does not lie inside.
  [[nodiscard]] bool slice(std::uint64_t offset, std::uint64_t size, Bytes* out) const {
    if (!has(offset, size)) return false;
    *out = Bytes(span_.data() + offset, static_cast<std::size_t>(size));
    return true;
  }

  /// The text at `offset` up to its NUL, which must come within `longest` bytes; else false.
  [[nodiscard]] bool text(std::uint64_t offset, std::size_t longest, std::string_view* out) const {
    if (offset >= span_.size()) return false;
    const std::size_t rest = span_.size() - static_cast<std::size_t>(offset);
    const void* start = span_.data() + offset;
    const void* end = std::memchr(start, 0, rest < longest ? rest : longest);
    if (end == nullptr) return false;
    const auto* first = static_cast<const char*>(start);
    *out = std::string_view(first, static_cast<std::size_t>(static_cast<const char*>(end) - first));
    return true;
  }

  [[nodiscard]] std::string_view as_text() const {
    return {reinterpret_cast<const char*>(span_.data()), span_.size()};
  }

 private:
  std::span<const std::byte> span_;
};

}  // namespace simgpu::fatbin
