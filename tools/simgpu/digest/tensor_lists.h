#pragma once

#include <cstdint>
#include <optional>

namespace simgpu::digest {

/// The parameter in which PyTorch hands lists of tensors to multi_tensor_apply_kernel: `depth` lists, each of
/// which has room for `capacity` pointers, one list behind the other from its first byte on. A launch uses
/// only as many of each as its blocks name; the rest is what earlier launches left.
struct TensorLists {
  std::uint32_t capacity = 0;
  std::uint32_t steps = 0;        ///< where a further list, of step counters, starts; 0: there is none
  std::uint32_t blocks = 0;       ///< where the number of each block's tensor is stored
  std::uint32_t block_bytes = 0;  ///< how large such a number is: 1 or 2
};

/// The layout for a depth from 1 to 5, by the size of the parameter: for builds with parameters of up to 4
/// KiB and of up to 32 KiB, with and without a list of scalars (of 4 or 8 bytes), and for fused optimizers.
/// nullopt where none has this size.
std::optional<TensorLists> tensor_lists(std::uint32_t depth, std::uint32_t param_bytes);

}  // namespace simgpu::digest
