#include "tests/workloads/reference.h"

#include <algorithm>
#include <cmath>

namespace tidepool::test {

double draw(std::uint64_t seed, std::uint64_t stream, std::uint64_t i) {
  std::uint64_t x = seed * 0x9e3779b97f4a7c15U + (stream << 40) + i;
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9U;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebU;
  x ^= x >> 31;
  return (static_cast<double>(x >> 40) - 8388608.0) / 8388608.0;
}

Numbers drawn_weights(std::uint64_t seed, std::size_t parameter, std::size_t inputs, std::size_t count) {
  Numbers weights(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double value = std::sqrt(6.0 / static_cast<double>(inputs)) * draw(seed, 1 + parameter, i);
    weights[i] = static_cast<double>(static_cast<float>(value));
  }
  return weights;
}

double cross_entropy(const double* logits, std::size_t classes, std::size_t label, double share,
                     double* gradient) {
  const double largest = *std::max_element(logits, logits + classes);
  double sum = 0.0;
  for (std::size_t k = 0; k < classes; ++k) sum += std::exp(logits[k] - largest);
  for (std::size_t k = 0; k < classes; ++k) {
    gradient[k] += share * (std::exp(logits[k] - largest) / sum - (k == label ? 1.0 : 0.0));
  }
  return std::log(sum) + largest - logits[label];
}

std::vector<Numbers> Reference::zero_gradients() const {
  std::vector<Numbers> zeros;
  for (const Numbers& parameter : parameters) zeros.emplace_back(parameter.size(), 0.0);
  return zeros;
}

}  // namespace tidepool::test
