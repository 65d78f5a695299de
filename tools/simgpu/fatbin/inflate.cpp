#include "tools/simgpu/fatbin/inflate.h"

#include <lz4.h>
#include <zstd.h>

#include <new>

namespace simgpu::fatbin {
namespace {

bool inflate_lz4(Bytes from, std::byte* to, std::size_t size) {
  if (from.size() > LZ4_MAX_INPUT_SIZE || size > LZ4_MAX_INPUT_SIZE) return false;
  const int got = LZ4_decompress_safe(reinterpret_cast<const char*>(from.data()), reinterpret_cast<char*>(to),
                                      static_cast<int>(from.size()), static_cast<int>(size));
  return got >= 0 && static_cast<std::size_t>(got) == size;
}

bool inflate_zstd(Bytes from, std::byte* to, std::size_t size) {
  const std::size_t got = ZSTD_decompress(to, size, from.data(), from.size());
  return ZSTD_isError(got) == 0 && got == size;
}

}  // namespace

Problem inflate(const Entry& entry, Inflated* out, std::uint64_t largest) {
  if (entry.compression == Compression::kNone) {
    out->owned.reset();
    out->bytes = entry.stored;
    return Problem::kNone;
  }
  if (entry.inflated_size > largest) return Problem::kTooLarge;
  const auto size = static_cast<std::size_t>(entry.inflated_size);
  std::unique_ptr<std::byte[]> memory(new (std::nothrow) std::byte[size]);
  if (memory == nullptr) return Problem::kTooLarge;
  const bool good = entry.compression == Compression::kLz4 ? inflate_lz4(entry.stored, memory.get(), size)
                                                           : inflate_zstd(entry.stored, memory.get(), size);
  if (!good) return Problem::kCorrupt;
  out->bytes = Bytes(memory.get(), size);
  out->owned = std::move(memory);
  return Problem::kNone;
}

}  // namespace simgpu::fatbin
