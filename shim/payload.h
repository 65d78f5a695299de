#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "allocator/runtime.h"
#include "shim/process.h"

namespace tidepool::shim {

/// Bytes that a copy brings from the host: `layers` times `rows` rows. A program that makes a table of
/// addresses brings it to the device like this, and no argument of the kernel that follows them will show
/// them.
struct Payload {
  const std::byte* from = nullptr;  ///< null: nothing comes from the host
  std::uint64_t to = 0;             ///< where the first byte goes; what counts is its place in a word
  std::size_t width = 0;            ///< bytes of a row
  std::size_t rows = 1, layers = 1;
  std::size_t from_pitch = 0, from_layer = 0;  ///< bytes from row to row, and from layer to layer
  std::size_t to_pitch = 0, to_layer = 0;

  [[nodiscard]] std::size_t size() const noexcept { return width * rows * layers; }
};

/// The i-th of words that lie anyhow.
inline std::uint64_t word_at(const std::byte* words, std::size_t i) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, words + i * sizeof word, sizeof word);
  return word;
}

/// Calls `visit(at, words, many)` for each row's words that lie at multiples of eight on the device, where
/// alone a kernel can read an address in one piece; `words` lie anyhow. For none where the payload is larger
/// than TIDEPOOL_SCAN_COPIES.
template <class Visit>
void for_each_row(const Payload& payload, Visit&& visit) noexcept {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  if (payload.from == nullptr || payload.size() > options().scan_copies.count()) return;
  for (std::size_t layer = 0; layer < payload.layers; ++layer) {
    for (std::size_t row = 0; row < payload.rows; ++row) {
      const std::byte* const from = payload.from + layer * payload.from_layer + row * payload.from_pitch;
      const std::uint64_t to = payload.to + layer * payload.to_layer + row * payload.to_pitch;
      const std::size_t first = (kWord - to % kWord) % kWord;
      if (first + kWord <= payload.width) visit(to + first, from + first, (payload.width - first) / kWord);
    }
  }
}

/// What becomes of a call's work.
enum class Fate : bool {
  kDone,      ///< it is done once, in the stream's order
  kCaptured,  ///< it goes into a graph, which does it any number of times
};

/// The addresses that a call brings to the device, from before the call until after it. Memory that they name
/// is on the device then and stays there: as long as the words lie where they were copied to
/// (runtime::AddressTables) or, of a graph's copies, until it is freed.
///
/// Allocates only where memory is named.
class BroughtNames {
 public:
  BroughtNames() noexcept = default;
  ~BroughtNames();
  BroughtNames(const BroughtNames&) = delete;
  BroughtNames& operator=(const BroughtNames&) = delete;

  /// Looks at what the call brings. An error: not all that it names could be brought to the device, and the
  /// call must not be made. `what` is the call.
  CUresult keep(const Payload& payload, const char* what, Fate fate) noexcept;
  /// The same for a word that a call stores itself.
  CUresult keep(std::uint64_t at, std::uint64_t value, const char* what, Fate fate) noexcept;
  /// The call has succeeded, and will be done once.
  void arrived() noexcept;

 private:
  /// The words that lie in the arena; the first lies at `at` on the device.
  [[gnu::noinline, gnu::cold]] void add(const runtime::Arena::Finder& finder, std::uint64_t at,
                                        const std::byte* words, std::size_t many) noexcept;
  CUresult keep_from(std::size_t first, runtime::Runtime& runtime, const char* what, Fate fate) noexcept;

  std::vector<runtime::AddressTables::Word> words_;
  std::vector<std::uint64_t> names_;  // each counted in AddressTables while this lives
};

/// What a linear copy brings from an address that may be the host's or the device's.
Payload payload_of(CUdeviceptr to, CUdeviceptr from, std::size_t size) noexcept;

/// What one copy of a batch brings.
Payload payload_of(const CUDA_MEMCPY3D_BATCH_OP& operation) noexcept;

/// What a copy of rows brings: `Shape` is CUDA_MEMCPY2D, CUDA_MEMCPY3D or CUDA_MEMCPY3D_PEER. Nothing where
/// the shape is one that the driver refuses.
template <class Shape>
Payload payload_of(const Shape& shape) noexcept {
  const bool is_host = shape.srcMemoryType == CU_MEMORYTYPE_HOST;
  if (!is_host && shape.srcMemoryType != CU_MEMORYTYPE_UNIFIED) return {};
  Payload payload;
  payload.width = shape.WidthInBytes;
  payload.rows = shape.Height;
  // Without a pitch, rows follow each other; without a height, so do layers.
  payload.from_pitch = shape.srcPitch != 0 ? shape.srcPitch : shape.srcXInBytes + payload.width;
  payload.to_pitch = shape.dstPitch != 0 ? shape.dstPitch : shape.dstXInBytes + payload.width;
  if (payload.from_pitch < shape.srcXInBytes + payload.width) return {};
  std::size_t before = shape.srcXInBytes + shape.srcY * payload.from_pitch;
  payload.to = shape.dstDevice + shape.dstXInBytes + shape.dstY * payload.to_pitch;
  if constexpr (requires { shape.Depth; }) {
    payload.layers = shape.Depth;
    payload.from_layer =
        payload.from_pitch * (shape.srcHeight != 0 ? shape.srcHeight : shape.srcY + payload.rows);
    payload.to_layer =
        payload.to_pitch * (shape.dstHeight != 0 ? shape.dstHeight : shape.dstY + payload.rows);
    before += shape.srcZ * payload.from_layer;
    payload.to += shape.dstZ * payload.to_layer;
  }
  const auto from = is_host ? reinterpret_cast<std::uintptr_t>(shape.srcHost) : shape.srcDevice;
  if (from != 0 && payload.size() != 0) {
    payload.from = payload_of(payload.to, from + before, payload.size()).from;
  }
  return payload;
}

}  // namespace tidepool::shim
