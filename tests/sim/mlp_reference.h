#pragma once

#include <cstdint>
#include <vector>

namespace tidepool::test {

/// The losses that train_mlp should print, computed in double precision and written from the definitions in
/// its header's comments, not from its code: batches of classes with noise, ReLU layers, mean cross-entropy,
/// gradients shortened to a common norm, momentum.
std::vector<double> reference_losses(int steps, int width, int layers, int batch, std::uint64_t seed);

}  // namespace tidepool::test
