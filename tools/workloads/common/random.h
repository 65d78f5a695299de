#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace workload {

/// Number i of random stream `stream`: uniform in [-1, 1), a multiple of 2^-23. With z = seed *
/// 0x9e3779b97f4a7c15 + (stream << 40) + i, it is the top 24 bits of splitmix64's finaliser of z, less 2^23,
/// divided by 2^23.
inline float uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t i) {
  std::uint64_t z = seed * 0x9e3779b97f4a7c15ULL + (stream << 40) + i;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  z ^= z >> 31;
  return static_cast<float>(static_cast<std::int32_t>(z >> 40) - (1 << 23)) / static_cast<float>(1 << 23);
}

/// Initial weights of a parameter: uniform (stream 1 + parameter) times sqrt(6 / inputs), rounded to float.
inline std::vector<float> initial_weights(std::uint64_t seed, std::size_t parameter, int inputs,
                                          std::size_t count) {
  const double scale = std::sqrt(6.0 / inputs);
  std::vector<float> weights(count);
  for (std::size_t i = 0; i < count; ++i) {
    weights[i] = static_cast<float>(scale * static_cast<double>(uniform(seed, 1 + parameter, i)));
  }
  return weights;
}

}  // namespace workload
