#include "tests/sim/mlp_reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tidepool::test {
namespace {

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;

constexpr std::size_t kClasses = 16;
constexpr std::size_t kBatches = 4;

/// Number i of a stream, uniform in [-1, 1).
double draw(std::uint64_t seed, std::uint64_t stream, std::uint64_t i) {
  std::uint64_t x = seed * 0x9e3779b97f4a7c15U + (stream << 40) + i;
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9U;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebU;
  x ^= x >> 31;
  return (static_cast<double>(x >> 40) - 8388608.0) / 8388608.0;
}

struct Linear {
  Matrix w;  // [output][input]
  Vector b;
  Matrix w_speed;
  Vector b_speed;
  Matrix w_gradient;
  Vector b_gradient;
};

Matrix zeros(std::size_t rows, std::size_t columns) {
  return Matrix(rows, Vector(columns, 0.0));
}

std::vector<Linear> make_network(std::size_t width, std::size_t hidden, std::uint64_t seed) {
  std::vector<Linear> network;
  for (std::size_t l = 0; l <= hidden; ++l) {
    const std::size_t outputs = l < hidden ? width : kClasses;
    Linear layer{zeros(outputs, width), Vector(outputs, 0.0),  zeros(outputs, width),
                 Vector(outputs, 0.0),  zeros(outputs, width), Vector(outputs, 0.0)};
    for (std::size_t o = 0; o < outputs; ++o) {
      for (std::size_t i = 0; i < width; ++i) {
        layer.w[o][i] = std::sqrt(6.0 / static_cast<double>(width)) * draw(seed, 1 + l, o * width + i);
      }
    }
    network.push_back(layer);
  }
  return network;
}

/// The activations of one sample: the input, then each layer's output.
std::vector<Vector> forward(const std::vector<Linear>& network, Vector input) {
  std::vector<Vector> values = {std::move(input)};
  for (std::size_t l = 0; l < network.size(); ++l) {
    Vector out = network[l].b;
    for (std::size_t o = 0; o < out.size(); ++o) {
      for (std::size_t i = 0; i < values.back().size(); ++i) out[o] += network[l].w[o][i] * values.back()[i];
      if (l + 1 < network.size()) out[o] = std::max(out[o], 0.0);
    }
    values.push_back(out);
  }
  return values;
}

/// Adds one sample's gradients, given the gradient of its logits.
void backward(std::vector<Linear>& network, const std::vector<Vector>& values, Vector gradient) {
  for (std::size_t l = network.size(); l-- > 0;) {
    Linear& layer = network[l];
    const Vector& input = values[l];
    Vector below(input.size(), 0.0);
    for (std::size_t o = 0; o < gradient.size(); ++o) {
      layer.b_gradient[o] += gradient[o];
      for (std::size_t i = 0; i < input.size(); ++i) {
        layer.w_gradient[o][i] += gradient[o] * input[i];
        below[i] += gradient[o] * layer.w[o][i];
      }
    }
    // Only the input of the first layer is not the output of a ReLU, and nobody asks for its gradient.
    for (std::size_t i = 0; i < input.size(); ++i) {
      if (input[i] <= 0.0) below[i] = 0.0;
    }
    gradient = below;
  }
}

void each_row(std::vector<Linear>& network, auto visit) {
  for (Linear& layer : network) {
    for (std::size_t o = 0; o < layer.w.size(); ++o) visit(layer.w[o], layer.w_speed[o], layer.w_gradient[o]);
    visit(layer.b, layer.b_speed, layer.b_gradient);
  }
}

void descend(std::vector<Linear>& network) {
  double squares = 0.0;
  each_row(network, [&](const Vector&, const Vector&, const Vector& gradient) {
    for (const double g : gradient) squares += g * g;
  });
  const double factor = std::min(1.0, 5.0 / std::sqrt(squares));
  each_row(network, [&](Vector& value, Vector& speed, Vector& gradient) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      speed[i] = 0.9 * speed[i] + factor * gradient[i];
      value[i] -= 0.02 * speed[i];
      gradient[i] = 0.0;
    }
  });
}

}  // namespace

std::vector<double> reference_losses(int steps, int width, int layers, int batch, std::uint64_t seed) {
  const auto features = static_cast<std::size_t>(width);
  const auto samples = static_cast<std::size_t>(batch);
  std::vector<Linear> network = make_network(features, static_cast<std::size_t>(layers), seed);
  std::vector<double> losses;
  for (std::size_t step = 0; step < static_cast<std::size_t>(steps); ++step) {
    const std::size_t number = step % kBatches;
    double loss = 0.0;
    for (std::size_t s = 0; s < samples; ++s) {
      const std::size_t label = (7 * (number * samples + s) + 3) % kClasses;
      Vector input(features);
      for (std::size_t f = 0; f < features; ++f) {
        input[f] = 0.75 * draw(seed, 1000, label * features + f) +
                   0.25 * draw(seed, 2000 + number, s * features + f);
      }
      const std::vector<Vector> values = forward(network, input);
      const Vector& logits = values.back();
      const double largest = *std::max_element(logits.begin(), logits.end());
      double sum = 0.0;
      for (const double z : logits) sum += std::exp(z - largest);
      loss += (std::log(sum) + largest - logits[label]) / static_cast<double>(samples);
      Vector gradient(kClasses);
      for (std::size_t k = 0; k < kClasses; ++k) {
        gradient[k] =
            (std::exp(logits[k] - largest) / sum - (k == label ? 1.0 : 0.0)) / static_cast<double>(samples);
      }
      backward(network, values, gradient);
    }
    losses.push_back(loss);
    descend(network);
  }
  return losses;
}

}  // namespace tidepool::test
