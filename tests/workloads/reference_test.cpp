// The references of this folder are held to differences of their own losses.

#include "tests/workloads/reference.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace tidepool::test {
namespace {

/// Compares derivatives of the loss with central differences, at a few places of every parameter.
void expect_right_gradients(Reference& reference) {
  constexpr double kStep = 1e-5;
  constexpr std::size_t kPlaces = 5;
  reference.train(0);  // away from zeros and ones
  reference.train(1);
  std::vector<Numbers> gradients;
  for (const Numbers& parameter : reference.parameters) gradients.emplace_back(parameter.size(), 0.0);
  reference.loss(2, 7, &gradients);
  for (std::size_t p = 0; p < reference.parameters.size(); ++p) {
    Numbers& values = reference.parameters[p];
    for (std::size_t place = 0; place < kPlaces; ++place) {
      const std::size_t i = (place * 7919 + p) % values.size();
      const double was = values[i];
      values[i] = was + kStep;
      const double above = reference.loss(2, 7, nullptr);
      values[i] = was - kStep;
      const double below = reference.loss(2, 7, nullptr);
      values[i] = was;
      INFO("parameter " << p << ", number " << i);
      CHECK(gradients[p][i] == Approx((above - below) / (2 * kStep)).epsilon(1e-5).margin(1e-8));
    }
  }
}

TEST_CASE("cnn reference: derivatives are those of its loss") {
  expect_right_gradients(*make_cnn_reference({3, 2, 4, 6, 5}));
}

TEST_CASE("transformer reference: derivatives are those of its loss") {
  expect_right_gradients(*make_transformer_reference({8, 2, 2, 2, 5, 5}));
}

TEST_CASE("lstm reference: derivatives are those of its loss") {
  expect_right_gradients(*make_lstm_reference({6, 2, 3, 5, 5}));
}

}  // namespace
}  // namespace tidepool::test
