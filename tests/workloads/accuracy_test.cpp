// What the workloads compute is what their definitions say, within what single precision costs.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/workloads/programs.h"
#include "tests/workloads/reference.h"

namespace tidepool::test {
namespace {

struct Tolerance {
  double loss;        ///< relative, of each step
  double parameters;  ///< absolute, of each final parameter, whose size is about 0.1 to 1
};

using Options = std::vector<std::pair<std::string, std::uint64_t>>;

void expect_like(Reference& reference, const std::string& program, const Options& shape, int steps,
                 const Tolerance& most) {
  std::vector<std::string> options = {"--steps", std::to_string(steps)};
  for (const auto& [name, value] : shape) options.insert(options.end(), {"--" + name, std::to_string(value)});
  const Training got = train_and_save(program, options);
  REQUIRE(got.losses.size() == static_cast<std::size_t>(steps));
  for (int step = 0; step < steps; ++step) {
    const double want = reference.train(step);
    const double loss = got.losses[static_cast<std::size_t>(step)];
    INFO(program << " step " << step << ": " << loss << " and " << want);
    CHECK(std::abs(loss - want) < most.loss * want);
  }
  std::size_t at = 0;
  for (std::size_t p = 0; p < reference.parameters.size(); ++p) {
    double worst = 0.0;
    double worst_idle = 0.0;
    for (std::size_t i = 0; i < reference.parameters[p].size(); ++i) {
      REQUIRE(at < got.parameters.size());
      const double off = std::abs(static_cast<double>(got.parameters[at++]) - reference.parameters[p][i]);
      double& highest = reference.is_idle(p, i) ? worst_idle : worst;
      highest = std::max(highest, off);
    }
    INFO(program << " parameter " << p << " of " << reference.parameters[p].size() << " numbers");
    CHECK(worst < most.parameters);
    CHECK(worst_idle < 2e-4);
  }
  CHECK(at == got.parameters.size());
}

// Sizes that fill blocks of the kernels and that do not.
TEST_CASE("train_cnn: losses and parameters follow a reference in double precision") {
  for (const CnnShape& s : {CnnShape{3, 1, 6, 8, 1}, CnnShape{5, 2, 9, 6, 7}}) {
    const auto reference = make_cnn_reference(s);
    expect_like(
        *reference, "train_cnn",
        {{"width", s.width}, {"layers", s.layers}, {"batch", s.batch}, {"image", s.image}, {"seed", s.seed}},
        5, {2e-5, 1e-5});
  }
}

TEST_CASE("train_transformer: losses and parameters follow a reference in double precision") {
  for (const TransformerShape& s :
       {TransformerShape{16, 2, 1, 3, 7, 1}, TransformerShape{36, 3, 2, 2, 20, 7}}) {
    const auto reference = make_transformer_reference(s);
    expect_like(*reference, "train_transformer",
                {{"width", s.width},
                 {"heads", s.heads},
                 {"layers", s.layers},
                 {"batch", s.batch},
                 {"sequence", s.sequence},
                 {"seed", s.seed}},
                5, {2e-5, 1e-5});
  }
}

TEST_CASE("train_lstm: losses and parameters follow a reference in double precision") {
  for (const LstmShape& s : {LstmShape{12, 1, 3, 6, 1}, LstmShape{20, 2, 5, 9, 7}}) {
    const auto reference = make_lstm_reference(s);
    expect_like(*reference, "train_lstm",
                {{"width", s.width},
                 {"layers", s.layers},
                 {"batch", s.batch},
                 {"sequence", s.sequence},
                 {"seed", s.seed}},
                5, {2e-5, 1e-5});
  }
}

TEST_CASE("workloads: the loss falls") {
  const std::vector<std::pair<std::string, std::vector<std::string>>> runs = {
      {"train_cnn", {"--width", "4", "--layers", "1", "--batch", "16", "--image", "8", "--steps", "60"}},
      {"train_transformer",
       {"--width", "32", "--heads", "2", "--layers", "1", "--batch", "4", "--sequence", "16", "--steps",
        "60"}},
      {"train_lstm",
       {"--width", "24", "--layers", "1", "--batch", "8", "--sequence", "8", "--steps", "120"}}};
  for (const auto& [program, options] : runs) {
    const Training got = train_workload(program, {}, options);
    INFO(program << ": from " << got.losses.front() << " to " << got.losses.back());
    CHECK(got.losses.back() < 0.5 * got.losses.front());
  }
}

}  // namespace
}  // namespace tidepool::test
