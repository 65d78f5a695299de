#include "tools/simgpu/digest/tensor_lists.h"

#include <array>

/// The constants are those of PyTorch's aten/src/ATen/native/cuda/MultiTensorApply.cuh, 2.6 to 2.14.
namespace simgpu::digest {
namespace {

constexpr std::uint32_t kPointer = 8;
constexpr std::uint32_t kNumel = 8;
constexpr std::uint32_t kChunk = 4;

/// One set of limits, of tensors by depth and of blocks.
struct Limits {
  std::array<std::uint32_t, 5> plain;
  std::array<std::uint32_t, 5> with_scalars;

  std::uint32_t blocks;
  std::uint32_t block_bytes;
};

constexpr Limits kSmall{{110, 64, 48, 36, 30}, {96, 64, 48, 36, 30}, 320, 1};
constexpr Limits kLarge{{770, 448, 336, 252, 210}, {672, 448, 336, 252, 210}, 2240, 2};

constexpr std::uint32_t round_up(std::uint32_t n, std::uint32_t to) {
  return (n + to - 1) / to * to;
}

/// Pointers and sizes of the tensors, `extra` bytes more for each, the blocks, and `tail` bytes.
std::optional<TensorLists> laid_out(const Limits& limits, std::uint32_t depth, std::uint32_t capacity,
                                    std::uint32_t extra, std::uint32_t tail, std::uint32_t wanted) {
  TensorLists lists{capacity, 0, capacity * (depth * kPointer + kNumel + extra), limits.block_bytes};
  const std::uint32_t chunks = round_up(lists.blocks + limits.blocks * limits.block_bytes, kChunk);
  if (round_up(chunks + limits.blocks * kChunk + tail, kPointer) != wanted) return std::nullopt;
  return lists;
}

std::optional<TensorLists> of_limits(const Limits& limits, std::uint32_t depth, std::uint32_t bytes) {
  constexpr std::uint32_t kFirstTensor = 4;  // which tensor of the call the launch starts with
  const std::uint32_t plain = limits.plain[depth - 1];
  if (auto lists = laid_out(limits, depth, plain, 0, kFirstTensor, bytes)) return lists;
  for (const std::uint32_t scalar : {4U, 8U}) {
    if (auto lists = laid_out(limits, depth, limits.with_scalars[depth - 1], scalar, 0, bytes)) return lists;
  }

  // Fused optimizers come with three lists and more; for those both limits are the same.
  if (depth < 3) return std::nullopt;
  auto lists = laid_out(limits, depth, plain, kPointer, kFirstTensor, bytes);
  if (lists.has_value()) lists->steps = plain * (depth * kPointer + kNumel);
  return lists;
}

}  // namespace

std::optional<TensorLists> tensor_lists(std::uint32_t depth, std::uint32_t param_bytes) {
  if (depth < 1 || depth > kSmall.plain.size()) return std::nullopt;
  auto lists = of_limits(kSmall, depth, param_bytes);
  return lists.has_value() ? lists : of_limits(kLarge, depth, param_bytes);
}

}  // namespace simgpu::digest
