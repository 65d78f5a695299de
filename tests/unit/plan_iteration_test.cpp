#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <random>
#include <set>

#include "planner/plan/iteration.h"

namespace tidepool::plan {
namespace {

using Stream = std::vector<Operation>;

constexpr std::uint32_t kLongest = 1 << 14;

/// What a detector says of a stream, and where it saw iterations begin.
struct Judged {
  IterationVerdict verdict;
  std::vector<std::size_t> starts;
};
Judged judge(const Stream& stream, std::uint32_t longest = kLongest) {
  std::vector<std::uint64_t> memory(IterationDetector::memory_bytes(longest) / 8);
  IterationDetector detector(memory.data(), longest);
  Judged judged;
  std::uint64_t period = 0;
  for (std::size_t i = 0; i < stream.size(); ++i) {
    if (!detector.add(stream[i])) continue;
    // Starts of another period were mistaken, a loop inside.
    if (detector.verdict().period != period) judged.starts.clear();
    period = detector.verdict().period;
    judged.starts.push_back(i + 1);
  }
  judged.verdict = detector.verdict();
  return judged;
}

Operation kernel(std::uint32_t id) {
  return {id * 2654435761u + 17, 0, false};
}
Operation allocate(std::int64_t bytes) {
  return {static_cast<std::uint32_t>(bytes) ^ 0xA110Cu, bytes, false};
}
Operation release(std::int64_t bytes) {
  return {static_cast<std::uint32_t>(bytes) ^ 0xF4EEu, -bytes, false};
}
const Operation kInput{0x1234567, 0, true};

void append(Stream& to, const Stream& what, std::size_t times = 1) {
  for (std::size_t i = 0; i < times; ++i) to.insert(to.end(), what.begin(), what.end());
}

Stream random_stream(std::mt19937_64& random, std::size_t size, std::uint32_t kinds) {
  Stream stream;
  for (std::size_t i = 0; i < size; ++i)
    stream.push_back(kernel(static_cast<std::uint32_t>(random() % kinds)));
  return stream;
}

/// A training step of so many equal layers: activations are allocated on the way up and freed on the way
/// down.
Stream training_step(std::uint32_t layers, std::uint32_t batch = 1) {
  Stream step{kInput, kInput};
  for (std::uint32_t i = 0; i < layers; ++i) {
    append(step, {allocate(batch << 20), kernel(1), allocate(batch << 19), kernel(2), release(batch << 19)});
  }
  for (std::uint32_t i = 0; i < layers; ++i) {
    append(step, {allocate(batch << 18), kernel(3), kernel(4), release(batch << 18), release(batch << 20)});
  }
  for (std::uint32_t i = 0; i < layers; ++i) step.push_back(kernel(5));
  return step;
}

/// The same by trying every period: the shortest with which the end of the stream repeats at least three
/// times and for at least half of it. Shares no code with the detector.
std::size_t shortest_period_of_end(const Stream& stream) {
  for (std::size_t period = 1; period * 3 <= stream.size(); ++period) {
    std::size_t same = 0;
    while (same < stream.size() - period &&
           stream[stream.size() - 1 - same].token == stream[stream.size() - 1 - same - period].token) {
      ++same;
    }
    if (same >= 2 * period && same * 2 >= stream.size()) return period;
  }
  return 0;
}

TEST_CASE("iteration: a stream that repeats has the period that trying all of them finds") {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    const auto kinds = static_cast<std::uint32_t>(2 + random() % 30);
    Stream stream = random_stream(random, random() % 200, kinds);
    const std::size_t warm_up = stream.size();
    const Stream body = random_stream(random, 1 + random() % 300, kinds);
    const std::size_t times = 8 + (32 + 2 * warm_up) / body.size() + random() % 10;
    append(stream, body, times);
    const Stream rest(body.begin(), body.begin() + static_cast<std::ptrdiff_t>(random() % body.size()));
    append(stream, rest);
    const IterationVerdict verdict = judge(stream).verdict;
    if (shortest_period_of_end(stream) == 1) {
      REQUIRE(verdict.why_not == NoPeriod::kUniform);
      continue;
    }
    REQUIRE(verdict.is_periodic());
    REQUIRE(verdict.period == shortest_period_of_end(stream));
    REQUIRE(verdict.confidence() > 0.99);
    // A period's worth may go to the warm-up, part of one to each end.
    const std::uint64_t possible = (stream.size() - warm_up) / verdict.period;
    REQUIRE(verdict.iterations <= possible + 2);
    REQUIRE(verdict.iterations + 2 >= possible);
    REQUIRE(verdict.exact == verdict.iterations);
    REQUIRE(verdict.operations == stream.size());
  }
}

TEST_CASE("iteration: equal layers inside are not taken for iterations") {
  for (const std::uint32_t layers : {2u, 12u, 48u, 100u}) {
    INFO(layers << " layers");
    Stream stream = random_stream(*std::make_unique<std::mt19937_64>(layers), 77, 50);
    const Stream step = training_step(layers);
    append(stream, step, 6);
    const Judged judged = judge(stream);
    REQUIRE(judged.verdict.is_periodic());
    CHECK(judged.verdict.period == step.size());
    CHECK(judged.verdict.confidence() == 1);
    // An iteration begins with its input, where least memory is in use.
    REQUIRE_FALSE(judged.starts.empty());
    for (const std::size_t start : judged.starts) CHECK((start - 77) % step.size() == 0);
    CHECK(judged.verdict.first % step.size() == 77 % step.size());
  }
}

TEST_CASE("iteration: other operations now and then do not disturb") {
  const Stream step = training_step(10);
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    Stream stream = random_stream(random, random() % 500, 40);
    const std::size_t every = 4 + random() % 20;
    const Stream other = random_stream(random, 1 + random() % (step.size() / 3), 1000);
    const std::size_t where = random() % 3 == 0 ? random() % step.size() : step.size();
    constexpr std::size_t kSteps = 60;
    std::size_t disturbed = 0;
    for (std::size_t i = 0; i < kSteps; ++i) {
      Stream now = step;
      if (i % every == every - 1) {
        now.insert(now.begin() + static_cast<std::ptrdiff_t>(where), other.begin(), other.end());
        ++disturbed;
      }
      append(stream, now);
    }
    const IterationVerdict verdict = judge(stream).verdict;
    REQUIRE(verdict.is_periodic());
    REQUIRE(verdict.period == step.size());
    REQUIRE(verdict.confidence() > 0.9);
    // All but the first of the loop are recognised, and those with something in between are not called exact.
    REQUIRE(verdict.iterations + 1 >= kSteps);
    REQUIRE(verdict.iterations <= kSteps);
    REQUIRE(verdict.exact + disturbed + 1 >= kSteps - 1);
    REQUIRE(verdict.exact <= kSteps - disturbed + 1);
  }
}

TEST_CASE("iteration: a step that leaves something out is followed again") {
  const Stream step = training_step(10);
  Stream stream;
  for (std::size_t i = 0; i < 40; ++i) {
    Stream now = step;
    if (i % 10 == 9) now.erase(now.begin() + 30, now.begin() + 40);
    append(stream, now);
  }
  const IterationVerdict verdict = judge(stream).verdict;
  REQUIRE(verdict.is_periodic());
  CHECK(verdict.period == step.size());
  CHECK(verdict.confidence() > 0.95);
  CHECK(verdict.iterations >= 38);
  CHECK(verdict.exact <= verdict.iterations - 3);
}

TEST_CASE("iteration: steps that gather gradients are one iteration with the update") {
  // The first one stores gradients, the others add to them; then comes the update of all weights.
  Stream iteration = training_step(6);
  for (int i = 0; i < 3; ++i)
    append(iteration, {kernel(8), kernel(9)}, 6), append(iteration, training_step(6));
  append(iteration, {kernel(10), kernel(11), kernel(12)}, 30);
  Stream stream;
  append(stream, iteration, 20);
  const IterationVerdict verdict = judge(stream).verdict;
  REQUIRE(verdict.is_periodic());
  CHECK(verdict.period == iteration.size());
}

TEST_CASE("iteration: layers that free all they allocate are not taken for iterations either") {
  // Inference: what goes from layer to layer is held around each of them. They are 97 of 100 operations.
  Stream pass{kInput, allocate(1 << 21)};
  append(pass,
         {allocate(1 << 22), kernel(1), allocate(1 << 23), kernel(2), release(1 << 22), release(1 << 23)},
         24);
  append(pass, {kernel(3), release(1 << 21)});
  Stream stream;
  append(stream, pass, 12);
  const Judged judged = judge(stream);
  REQUIRE(judged.verdict.is_periodic());
  CHECK(judged.verdict.period == pass.size());
  REQUIRE_FALSE(judged.starts.empty());
  for (const std::size_t start : judged.starts) CHECK(start % pass.size() == 0);
}

TEST_CASE("iteration: what does not repeat is refused with the reason") {
  std::mt19937_64 random(5);
  CHECK(judge({}).verdict.why_not == NoPeriod::kTooFew);
  CHECK(judge(random_stream(random, 20, 3)).verdict.why_not == NoPeriod::kTooFew);
  for (const std::uint32_t kinds : {3u, 10u, 1000u}) {
    INFO(kinds << " kinds");
    const IterationVerdict verdict = judge(random_stream(random, 50'000, kinds)).verdict;
    CHECK_FALSE(verdict.is_periodic());
    CHECK(verdict.period == 0);
  }
  // Twice is not confirmed.
  Stream twice;
  append(twice, random_stream(random, 500, 1000), 2);
  CHECK(judge(twice).verdict.why_not == NoPeriod::kNoRepeat);
  // One step of a network: its layers repeat, but they take memory, or give it back.
  CHECK(judge(training_step(50)).verdict.why_not != NoPeriod::kNone);
  Stream layers;
  append(layers, {allocate(1 << 20), kernel(1), kernel(2)}, 300);
  CHECK(judge(layers).verdict.why_not == NoPeriod::kGrows);
  // A loop at the end of something else.
  Stream tail = random_stream(random, 3000, 1000);
  append(tail, {kernel(1), kernel(2)}, 50);
  const IterationVerdict rare = judge(tail).verdict;
  CHECK(rare.why_not == NoPeriod::kTooRare);
  CHECK(describe(rare).starts_with("no period: what repeats is only "));
  // Steps of ever other sizes.
  Stream changing;
  for (std::uint32_t i = 1; i < 40; ++i) append(changing, training_step(5 + i % 7, i));
  CHECK_FALSE(judge(changing).verdict.is_periodic());
}

TEST_CASE("iteration: one operation over and over is no iteration, and neither does it hide one") {
  Stream loop;
  append(loop, {kernel(1)}, 4803);
  const IterationVerdict same = judge(loop).verdict;
  CHECK(same.why_not == NoPeriod::kUniform);
  CHECK(same.period == 0);
  CHECK(describe(same) ==
        "no period: 4803 of 4803 operations are one over and over, which does not show where an iteration "
        "begins");
  // Some of it, some of others, in no order.
  std::mt19937_64 random(7);
  Stream mixed;
  for (int i = 0; i < 300; ++i) {
    append(mixed, {kernel(1)}, 30 + random() % 90);
    append(mixed, {kernel(static_cast<std::uint32_t>(2 + random() % 1000))});
  }
  CHECK(judge(mixed).verdict.why_not == NoPeriod::kUniform);
  // A step that is a copy, a long run of one kernel and a copy back.
  for (const std::size_t launches : {40u, 100u, 1000u}) {
    INFO(launches << " launches");
    Stream steps;
    for (int i = 0; i < 20; ++i) {
      append(steps, {kInput});
      append(steps, {kernel(1)}, launches);
      append(steps, {kernel(2)});
    }
    const IterationVerdict verdict = judge(steps).verdict;
    CHECK(verdict.is_periodic());
    CHECK(verdict.period == launches + 2);
    CHECK(verdict.iterations >= 15);
  }
}

TEST_CASE("iteration: of two loops the one with most operations is named") {
  const Stream first = training_step(4);
  const Stream second = training_step(9);
  Stream stream;
  append(stream, first, 10);
  append(stream, second, 40);
  CHECK(judge(stream).verdict.period == second.size());
  append(stream, first, 20);
  CHECK(judge(stream).verdict.period == second.size());
}

TEST_CASE("iteration: little memory and much give the same verdict") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    Stream stream = random_stream(random, random() % 400, 300);
    const Stream step = training_step(static_cast<std::uint32_t>(2 + random() % 40));
    for (std::size_t i = 0; i < 60; ++i) {
      append(stream, step);
      if (random() % 8 == 0) append(stream, random_stream(random, random() % 60, 300));
    }
    const Judged small = judge(stream, 1 << 10);
    const Judged large = judge(stream, 1 << 16);
    REQUIRE(small.verdict.period == step.size());
    REQUIRE(small.verdict == large.verdict);
    REQUIRE(small.starts == large.starts);
  }
  // A period that does not fit into the memory is not found, and nothing wrong is.
  Stream stream;
  append(stream, training_step(200), 10);
  CHECK_FALSE(judge(stream, 1 << 10).verdict.is_periodic());
  CHECK(judge(stream, 1 << 12).verdict.period == training_step(200).size());
}

TEST_CASE("iteration: no two operations of different kind, size or kernel count as one") {
  std::set<std::uint32_t> tokens;
  std::size_t count = 0;
  const auto take = [&](const Operation& operation) { tokens.insert(operation.token), ++count; };
  for (std::uint32_t i = 1; i <= 3000; ++i) {
    AllocationRecord allocation;
    allocation.bytes = i * 512;
    take(operation_of(allocation));
    FreeRecord release_record;
    release_record.bytes = i * 512;
    take(operation_of(release_record));
    LaunchRecord launch;
    launch.kernel = i % 50;
    launch.grid = {{i, 1, 1}, {128, 1, 1}};
    take(operation_of(launch));
    CopyRecord copy;
    copy.kind = CopyKind::kToHost;
    copy.bytes = i * 512;
    take(operation_of(copy));
  }
  CHECK(tokens.size() == count);
  // Where they are does not count.
  AllocationRecord here;
  here.bytes = 4096;
  here.address = 1 << 20;
  here.block = 7;
  AllocationRecord there = here;
  there.address = 1 << 30;
  there.block = 9;
  CHECK(operation_of(here).token == operation_of(there).token);
}

}  // namespace
}  // namespace tidepool::plan
