#pragma once

#include <cstddef>
#include <string_view>

#include "allocator/support/options.h"

namespace tidepool::shim {

/// True for the variables in which PyTorch reads the settings of its GPU allocator: PYTORCH_CUDA_ALLOC_CONF,
/// and from 2.9 on also PYTORCH_ALLOC_CONF. Exact names. Hook-safe.
bool is_torch_settings(const char* variable) noexcept;

/// The other one of the two.
const char* other_torch_settings(const char* variable) noexcept;

/// What PyTorch shall read. `user` is what the user has set, in the one variable or else in the other, "" for
/// neither: PyTorch takes the first that it finds, so the answer for one must hold what is in the other.
///
/// async and auto add backend:cudaMallocAsync, so that each tensor is an allocation of its own; native adds
/// max_split_size_mb:21 (the least that PyTorch takes), so that large segments are nearly tensors. A backend
/// that the user names wins, and so does a max_split_size_mb.
///
/// Writes a zero-terminated text and returns true; false: `user` stays as it is, also where `size` is too
/// small. Hook-safe.
bool merge_torch_settings(std::string_view user, AllocChoice choice, char* out, std::size_t size) noexcept;

}  // namespace tidepool::shim
