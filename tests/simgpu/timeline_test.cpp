#include "tools/simgpu/timing/timeline.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

/// Virtual time: random programs against a simulation that starts from nothing at every question.
namespace {

using simgpu::timing::After;
using simgpu::timing::Engine;
using simgpu::timing::kDevices;
using simgpu::timing::Lane;
using simgpu::timing::LaneKind;
using simgpu::timing::Link;
using simgpu::timing::LocalEngines;
using simgpu::timing::Nanos;
using simgpu::timing::Slice;
using simgpu::timing::Span;
using simgpu::timing::Stamp;
using simgpu::timing::Task;
using simgpu::timing::Timeline;
using simgpu::timing::Work;

const std::string kName = "work";

std::array<Link, kDevices> links(int duplex_permille, int copy_engines = 3) {
  std::array<Link, kDevices> all;
  all.fill(Link{duplex_permille, copy_engines});
  return all;
}

/// The oracle: all operations in one list, simulated afresh by looking for what can start next.
struct Plain {
  struct Op {
    std::size_t stream = 0;
    Work work;
    Nanos called = 0;
    std::vector<std::size_t> after;
    Nanos start = -1, end = -1;
  };

  std::vector<Op> ops;
  int duplex_permille = 2000;

  /// Simulates until `target` has run; its end.
  Nanos end_of(std::size_t target) {
    for (Op& op : ops) op.start = op.end = -1;
    Nanos free[2][4] = {};
    for (;;) {
      std::size_t best = ops.size();
      Nanos best_ready = std::numeric_limits<Nanos>::max();
      for (std::size_t i = 0; i < ops.size(); ++i) {
        Nanos ready = ops[i].called;
        bool can = ops[i].end < 0;
        for (const std::size_t a : ops[i].after) {
          can = can && ops[a].end >= 0;
          ready = std::max(ready, ops[a].end);
        }
        if (can && ready < best_ready) {
          best = i;
          best_ready = ready;
        }
      }
      if (best == ops.size()) return ops[target].end;
      run(ops[best], best_ready, free[ops[best].work.device]);
      if (best == target) return ops[target].end;
    }
  }

 private:
  void run(Op& op, Nanos ready, Nanos* free) const {
    op.start = ready;
    const auto engine = static_cast<std::size_t>(op.work.engine);
    if (op.work.engine == Engine::kNone) {
      op.end = ready + op.work.fixed + op.work.busy;
      return;
    }
    op.start = std::max(ready, free[engine]);
    Nanos at = op.start + op.work.fixed;
    // Bytes move nanosecond by nanosecond: in thousandths of what one direction does alone.
    const bool link = op.work.engine == Engine::kCopyIn || op.work.engine == Engine::kCopyOut;
    const Nanos other = free[op.work.engine == Engine::kCopyIn ? 2 : 1];
    Nanos left = op.work.busy * 1000;
    while (left > 0) {
      left -= link && at < other ? duplex_permille - 1000 : 1000;
      ++at;
    }
    op.end = at;
    free[engine] = op.end;
  }
};

/// One program, told to a timeline and to the oracle.
class Program {
 public:
  Program(unsigned seed, int duplex_permille, unsigned laziness)
      : random_(seed), lazy_(laziness), engines_(links(duplex_permille)), timeline_(engines_) {
    plain_.duplex_permille = duplex_permille;
    const LaneKind kinds[] = {LaneKind::kLegacy,      LaneKind::kBlocking, LaneKind::kBlocking,
                              LaneKind::kNonBlocking, LaneKind::kLegacy,   LaneKind::kBlocking};
    for (std::size_t i = 0; i < std::size(kinds); ++i) {
      const std::uint64_t context = i < 4 ? 1 : 2;
      lanes_.push_back(Timeline::new_lane(i + 1, context, kinds[i]));
      kinds_.push_back(kinds[i]);
      contexts_.push_back(context);
      of_stream_.emplace_back();
    }
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
    timeline_.wait_all(0);
    if (plain_.ops.empty()) return;
    plain_.end_of(plain_.ops.size());
    for (std::size_t i = 0; i < plain_.ops.size(); ++i) {
      INFO("operation " << i);
      REQUIRE(stamps_[i]->time == plain_.ops[i].end);
    }
  }

  [[nodiscard]] std::vector<Nanos> ends() const {
    std::vector<Nanos> all;
    for (const auto& stamp : stamps_) all.push_back(stamp->time);
    all.push_back(timeline_.now());
    return all;
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }

  void step() {
    // Questions that change nothing may come at any moment.
    if (lazy_ != 0 && lazy_random_() % lazy_ == 0) timeline_.advance();
    const std::size_t what = below(10);
    if (what < 7) return enqueue();
    if (what < 9) {
      const auto nanos = static_cast<Nanos>(below(30));
      timeline_.charge(nanos);
      host_ += nanos;
      return;
    }
    if (plain_.ops.empty()) return;
    const std::size_t target = below(plain_.ops.size());
    host_ = std::max(host_, plain_.end_of(target));
    timeline_.wait(lanes_[plain_.ops[target].stream], tickets_[target]);
    REQUIRE(timeline_.now() == host_);
  }

  void enqueue() {
    const std::size_t stream = below(lanes_.size());
    Plain::Op op;
    op.stream = stream;
    op.called = host_;
    constexpr Engine kAll[] = {Engine::kCompute, Engine::kCopyIn, Engine::kCopyOut, Engine::kCopyLocal,
                               Engine::kNone};
    op.work.engine = kAll[below(std::size(kAll))];
    op.work.device = contexts_[stream] == 1 ? 0 : 1;
    op.work.fixed = static_cast<Nanos>(below(6));
    op.work.busy = 50 * static_cast<Nanos>(below(4));
    std::vector<After> after;
    while (!plain_.ops.empty() && below(3) == 0) {
      const std::size_t awaited = below(plain_.ops.size());
      op.after.push_back(awaited);
      after.push_back({lanes_[plain_.ops[awaited].stream], tickets_[awaited]});
    }
    if (!of_stream_[stream].empty()) op.after.push_back(of_stream_[stream].back());
    for (std::size_t other = 0; other < lanes_.size(); ++other) {
      if (contexts_[other] != contexts_[stream] || of_stream_[other].empty()) continue;
      if ((kinds_[stream] == LaneKind::kLegacy && kinds_[other] == LaneKind::kBlocking) ||
          (kinds_[stream] == LaneKind::kBlocking && kinds_[other] == LaneKind::kLegacy)) {
        op.after.push_back(of_stream_[other].back());
      }
    }
    stamps_.push_back(std::make_shared<Stamp>());
    tickets_.push_back(timeline_.enqueue(lanes_[stream], Task{op.work, &kName, stamps_.back()}, after));
    of_stream_[stream].push_back(plain_.ops.size());
    plain_.ops.push_back(op);
  }

  std::mt19937 random_;
  unsigned lazy_;
  std::mt19937 lazy_random_;
  LocalEngines engines_;
  Timeline timeline_;
  Plain plain_;
  std::vector<std::shared_ptr<Lane>> lanes_;
  std::vector<LaneKind> kinds_;
  std::vector<std::uint64_t> contexts_;
  std::vector<std::vector<std::size_t>> of_stream_;
  std::vector<std::shared_ptr<Stamp>> stamps_;
  std::vector<std::uint64_t> tickets_;
  Nanos host_ = 0;
};

Task kernel(Nanos nanos) {
  return Task{Work{Engine::kCompute, 0, 0, nanos}, &kName, nullptr};
}
Task copy_in(Nanos nanos) {
  return Task{Work{Engine::kCopyIn, 0, 0, nanos}, &kName, nullptr};
}
Task copy_out(Nanos nanos) {
  return Task{Work{Engine::kCopyOut, 0, 0, nanos}, &kName, nullptr};
}

struct Fixture {
  explicit Fixture(int duplex_permille = 2000, int copy_engines = 3)
      : engines(links(duplex_permille, copy_engines)) {
    timeline.on_slice([this](const Slice& slice) { slices.push_back(slice); });
  }
  LocalEngines engines;
  Timeline timeline{engines};
  std::shared_ptr<Lane> one = Timeline::new_lane(1, 1, LaneKind::kNonBlocking);
  std::shared_ptr<Lane> two = Timeline::new_lane(2, 1, LaneKind::kNonBlocking);
  std::vector<Slice> slices;
};

}  // namespace

TEST_CASE("timeline: random programs take the time that a plain simulation says") {
  for (const int duplex : {1000, 1500, 2000}) {
    for (unsigned seed = 1; seed <= 60; ++seed) {
      INFO("duplex " << duplex << " seed " << seed);
      Program program(seed, duplex, 0);
      program.run(60 + static_cast<int>(seed));
    }
  }
}

TEST_CASE("timeline: when the simulation is run changes nothing") {
  for (unsigned seed = 100; seed < 140; ++seed) {
    Program never(seed, 1700, 0);
    Program often(seed, 1700, 2);
    never.run(120);
    often.run(120);
    CHECK(never.ends() == often.ends());
  }
}

TEST_CASE("timeline: kernels of one device take turns, copies run beside them") {
  Fixture f;
  f.timeline.enqueue(f.one, kernel(100), {});
  f.timeline.enqueue(f.two, kernel(100), {});
  f.timeline.enqueue(f.one, copy_in(50), {});
  f.timeline.wait_all(0);
  REQUIRE(f.slices.size() == 3);
  CHECK(f.slices[1].span.start == 100);
  CHECK(f.slices[2].span.start == 100);
  CHECK(f.timeline.now() == 200);
}

TEST_CASE("timeline: both directions of the link together do what the limit says") {
  for (const auto& [duplex, second_end] : {std::pair{1000, 200}, {1500, 150}, {2000, 100}}) {
    Fixture f(duplex);
    f.timeline.enqueue(f.one, copy_in(100), {});
    f.timeline.enqueue(f.two, copy_out(100), {});
    f.timeline.wait(f.one, 1);
    CHECK(f.timeline.now() == 100);
    f.timeline.wait(f.two, 1);
    CHECK(f.timeline.now() == second_end);
  }
}

TEST_CASE("timeline: a device with one copy engine copies in turns") {
  Fixture f(2000, 1);
  f.timeline.enqueue(f.one, copy_in(100), {});
  f.timeline.enqueue(f.two, copy_out(100), {});
  f.timeline.wait_all(0);
  CHECK(f.timeline.now() == 200);
}

TEST_CASE("timeline: saturated both ways, the link gives its limit") {
  Fixture f(1600);
  for (int i = 0; i < 500; ++i) {
    f.timeline.enqueue(f.one, copy_in(100), {});
    f.timeline.enqueue(f.two, copy_out(100), {});
  }
  f.timeline.wait_all(0);
  // 100,000 ns of copies alone, at 1.6 times the speed of one direction.
  CHECK(f.timeline.now() > 62'000);
  CHECK(f.timeline.now() < 63'500);
}

TEST_CASE("timeline: a full queue makes the host wait") {
  Fixture f;
  for (int i = 0; i < 1024; ++i) f.timeline.enqueue(f.one, kernel(10), {});
  CHECK(f.timeline.now() == 0);
  f.timeline.enqueue(f.one, kernel(10), {});
  CHECK(f.timeline.now() == 10);
  f.timeline.wait(f.one, f.one->enqueued());
  CHECK(f.timeline.now() == 10'250);
}

TEST_CASE("timeline: a million operations without a wait") {
  Fixture f;
  f.timeline.on_slice({});
  for (int i = 0; i < 1'000'000; ++i) f.timeline.enqueue(i % 2 == 0 ? f.one : f.two, kernel(10), {});
  f.timeline.wait_all(0);
  CHECK(f.timeline.now() == 10'000'000);
}
