#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/process/child_process.h"
#include "tests/sim/mlp_reference.h"

namespace tidepool::test {
namespace {

const std::string kSimgpu = built("bin/simgpu");
const std::string kTrainMlp = built("bin/train_mlp");
constexpr int kSeeds = 20;

/// What a run printed.
struct Training {
  std::vector<double> losses;
  std::string digest;
};

Outcome train(const std::vector<std::string>& device, const std::vector<std::string>& options) {
  std::vector<std::string> words = {kSimgpu, "--device", "h100"};
  words.insert(words.end(), device.begin(), device.end());
  words.insert(words.end(), {"--", kTrainMlp});
  words.insert(words.end(), options.begin(), options.end());
  return run({words, "", {}, false, false});
}

Training parse(const Outcome& got) {
  INFO(got.err);
  REQUIRE(got.code() == 0);
  Training training;
  std::istringstream lines(got.out);
  for (std::string word; lines >> word;) {
    if (word == "loss") {
      lines >> word;
      training.losses.push_back(std::strtod(word.c_str(), nullptr));
    } else if (word == "digest") {
      lines >> training.digest;
    }
  }
  REQUIRE(training.digest.size() == 16);
  return training;
}

TEST_CASE("train_mlp: losses follow a reference in double precision") {
  struct Shape {
    int steps, width, layers, batch;
    std::uint64_t seed;
  };
  // Widths and batches that fill blocks and that do not.
  for (const Shape& shape : {Shape{6, 64, 3, 16, 1}, Shape{5, 100, 2, 48, 7}, Shape{5, 300, 1, 32, 12345}}) {
    const Training got =
        parse(train({}, {"--steps", std::to_string(shape.steps), "--width", std::to_string(shape.width),
                         "--layers", std::to_string(shape.layers), "--batch", std::to_string(shape.batch),
                         "--seed", std::to_string(shape.seed)}));
    const auto want = reference_losses(shape.steps, shape.width, shape.layers, shape.batch, shape.seed);
    REQUIRE(got.losses.size() == want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      INFO("width " << shape.width << " step " << i << ": " << got.losses[i] << " and " << want[i]);
      CHECK(std::abs(got.losses[i] - want[i]) < 2e-5 * want[i]);
    }
  }
}

TEST_CASE("train_mlp: the loss falls") {
  const Training got = parse(train({}, {}));
  REQUIRE(got.losses.size() == 6);
  CHECK(got.losses.back() < 0.5 * got.losses.front());
}

TEST_CASE("train_mlp: the order in which the device works does not change a bit") {
  const std::vector<std::string> options = {"--width", "256", "--layers", "5", "--steps", "5"};
  const Training in_order = parse(train({"--schedule", "inorder"}, options));
  for (int seed = 1; seed <= kSeeds; ++seed) {
    const Training got = parse(train({"--seed", std::to_string(seed)}, options));
    INFO("simgpu --seed " << seed);
    CHECK(got.digest == in_order.digest);
    CHECK(got.losses == in_order.losses);
  }
  CHECK(parse(train({}, {"--width", "256", "--layers", "5", "--steps", "5", "--seed", "2"})).digest !=
        in_order.digest);
}

/// The first number behind `key` in a JSON text.
std::uint64_t number_behind(const std::string& text, const std::string& key) {
  const std::size_t found = text.find("\"" + key + "\":");
  REQUIRE(found != std::string::npos);
  return std::strtoull(text.c_str() + text.find_first_of("0123456789", found + key.size() + 3), nullptr, 10);
}

TEST_CASE("train_mlp: what --describe says is what the device saw") {
  ScratchFolder folder;
  const Outcome trained = train({"--report", folder / "report.json"}, {"--steps", "3"});
  REQUIRE(trained.code() == 0);
  std::ifstream file(folder / "report.json");
  std::ostringstream report;
  report << file.rdbuf();
  const Outcome described = run({{kTrainMlp, "--describe"}, "", {}, false, false});
  REQUIRE(described.code() == 0);

  const auto said = [&](const char* key) { return number_behind(described.out, key); };
  const auto copied = [&](const char* direction) {
    const std::string text = report.str();
    return number_behind(text.substr(text.find("\"" + std::string(direction) + "\"")), "bytes");
  };
  CHECK(copied("h2d") == said("h2d_bytes_once") + 3 * said("h2d_bytes_per_step"));
  CHECK(copied("d2h") == said("d2h_bytes_once") + 3 * said("d2h_bytes_per_step"));
  // The device hands out memory in pieces; the weights of a layer are whole pieces.
  const std::uint64_t peak = number_behind(report.str(), "physical_peak_bytes");
  CHECK(peak >= said("peak_bytes"));
  CHECK(peak <= said("peak_bytes") + (4U << 20));
}

TEST_CASE("train_mlp: mistakes are one line and exit code 1") {
  for (const std::vector<std::string>& options : std::vector<std::vector<std::string>>{{"--width"},
                                                                                       {"--width", "0"},
                                                                                       {"--batch", "17"},
                                                                                       {"--steps", "x"},
                                                                                       {"--mode", "eval"},
                                                                                       {"--nonsense"}}) {
    const Outcome got = train({}, options);
    CHECK(got.code() == 1);
    CHECK(got.out.empty());
    CHECK(std::count(got.err.begin(), got.err.end(), '\n') == 1);
    CHECK(got.err.find("train_mlp: --") == 0);
  }
}

}  // namespace
}  // namespace tidepool::test
