// What all workloads promise: the same bits whatever the device does and however memory and streams are used,
// and mistakes answered by one line.

#include "tests/workloads/programs.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

namespace tidepool::test {
namespace {

using Words = std::vector<std::string>;

/// A small run of each program.
struct Small {
  std::string program;
  Words options;
};
const std::vector<Small> kSmall = {
    {"train_mlp", {"--width", "96", "--layers", "2", "--steps", "3"}},
    {"train_cnn", {"--width", "3", "--layers", "1", "--batch", "5", "--image", "8", "--steps", "3"}},
    {"train_transformer",
     {"--width", "24", "--heads", "2", "--layers", "2", "--batch", "2", "--sequence", "9", "--steps", "3"}},
    {"train_lstm", {"--width", "16", "--layers", "2", "--batch", "3", "--sequence", "5", "--steps", "3"}}};
const int kSeeds = sanitized() ? 2 : 8;

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words seed(int number) {
  return {"--seed", std::to_string(number)};
}

TEST_CASE("workloads: no order of the device's work and no number of streams changes a bit") {
  for (const Small& small : kSmall) {
    const Training want =
        train_workload(small.program, {"--schedule", "inorder"}, with(small.options, {"--streams", "1"}));
    for (int n = 1; n <= kSeeds; ++n) {
      const std::string streams = std::to_string(1 + n % 5);
      const Training got =
          train_workload(small.program, seed(n), with(small.options, {"--streams", streams}));
      INFO(small.program << ": simgpu --seed " << n << ", --streams " << streams);
      CHECK(got.digest == want.digest);
      CHECK(got.losses == want.losses);
    }
    CHECK(train_workload(small.program, {}, with(small.options, seed(2))).digest != want.digest);
  }
}

void expect_same_bits_with(const std::string& allocator) {
  for (const Small& small : kSmall) {
    const Training want = train_workload(small.program, {}, small.options);
    for (int n = 1; n <= kSeeds / 2; ++n) {
      const Training got =
          train_workload(small.program, seed(n), with(small.options, {"--alloc", allocator}));
      INFO(small.program << ": simgpu --seed " << n << ", --alloc " << allocator);
      CHECK(got.digest == want.digest);
      CHECK(got.losses == want.losses);
    }
  }
}

TEST_CASE("workloads: memory that the program maps itself changes no bit") {
  expect_same_bits_with("vmm");
}

TEST_CASE("workloads: memory that is allocated in the order of a stream changes no bit") {
  expect_same_bits_with("async");
}

TEST_CASE("workloads: memory of a pool changes no bit") {
  expect_same_bits_with("pool");
}

TEST_CASE("workloads: replicas in threads compute what they compute alone") {
  for (const Small& small : kSmall) {
    const Words threads = with(small.options, {"--threads", "3"});
    const Training together = train_workload(small.program, seed(1), threads);
    CHECK(train_workload(small.program, seed(2), threads).digest == together.digest);
    CHECK(train_workload(small.program, {}, with(threads, {"--alloc", "vmm"})).digest == together.digest);
    CHECK(train_workload(small.program, {"--device", "h100", "--device", "h100"},
                         with(threads, {"--devices", "2"}))
              .digest == together.digest);
    std::vector<double> losses;
    for (int replica = 0; replica < 3; ++replica) {
      const Training alone = train_workload(small.program, {}, with(small.options, seed(1 + replica)));
      losses.insert(losses.end(), alone.losses.begin(), alone.losses.end());
    }
    INFO(small.program);
    CHECK(together.losses == losses);
  }
}

TEST_CASE("workloads: a mistake is one line and exit code 1", "[plain]") {
  const std::vector<std::pair<Words, std::string>> mistakes = {
      {{"--widht", "8"}, "--widht: is no option; did you mean --width?"},
      {{"--nonsense"}, "--nonsense: is no option; see --help"},
      {{"--steps"}, "--steps: needs a value; see --help"},
      {{"--steps", "-1"}, "--steps: needs a number in 0..1000000"},
      {{"--seed", "99999999999999999999"}, "--seed: needs a number in 0..18446744073709551615"},
      {{"--alloc", "managed"}, "--alloc: needs plain, async, pool or vmm"},
      {{"--streams", "0"}, "--streams: needs a number in 1..16"},
      {{"--threads", "2x"}, "--threads: needs a number in 1..64"},
      {{"--devices", "0"}, "--devices: needs a number in 1..16"}};
  for (const Small& small : kSmall) {
    for (const auto& [options, line] : mistakes) {
      const Outcome got = run_workload(small.program, {}, options);
      CHECK(got.code() == 1);
      CHECK(got.out.empty());
      CHECK(got.err == small.program + ": " + line + "\n");
    }
    const Outcome unwritable =
        run_workload(small.program, {}, with(small.options, {"--save", "/no_such_folder/parameters"}));
    CHECK(unwritable.code() == 1);
    CHECK(unwritable.err == small.program + ": --save /no_such_folder/parameters: cannot be written\n");
  }
  CHECK(run_workload("train_transformer", {}, {"--heads", "5"}).err ==
        "train_transformer: --heads: must divide --width\n");
}

TEST_CASE("workloads: --help names every option", "[plain]") {
  for (const Small& small : kSmall) {
    const Outcome got = run({{built("bin/" + small.program), "--help"}, "", {}, false, false});
    CHECK(got.code() == 0);
    for (const char* option : {"--width", "--layers", "--batch", "--steps", "--seed", "--alloc", "--streams",
                               "--threads", "--devices", "--save", "--help"}) {
      INFO(small.program << " " << option);
      CHECK(got.out.find(std::string("\n  ") + option) != std::string::npos);
    }
  }
}

TEST_CASE("workloads: a call of CUDA that fails is named, with its error", "[plain]") {
  const ScratchFolder folder;
  const std::string device = folder / "small.toml";
  std::ifstream file(built("share/tidepool/profiles/t4.toml"));
  std::string profile(std::istreambuf_iterator<char>(file), {});
  const std::size_t from = profile.find("bytes = ");
  REQUIRE(from != std::string::npos);
  profile.replace(from, profile.find('\n', from) - from, "bytes = 33554432");
  write_file(device, profile);
  const std::vector<std::pair<std::string, std::string>> calls = {{"plain", "cudaMalloc"},
                                                                  {"vmm", "cuMemCreate"}};
  for (const auto& [allocator, call] : calls) {
    const Outcome got = run({{built("bin/simgpu"), "--device", device, "--", built("bin/train_mlp"),
                              "--alloc", allocator, "--threads", "2"},
                             "",
                             {},
                             false,
                             false});
    INFO(got.err);
    CHECK(got.code() == 1);
    const std::string error = allocator == "vmm" ? "CUDA_ERROR_OUT_OF_MEMORY" : "cudaErrorMemoryAllocation";
    CHECK(got.err == "train_mlp: " + call + " failed: " + error + " (out of memory)\n");
  }
}

}  // namespace
}  // namespace tidepool::test
