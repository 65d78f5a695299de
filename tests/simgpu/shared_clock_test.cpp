#include "tools/simgpu/timing/shared_clock.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <limits>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tools/simgpu/timing/timeline.h"

/// Several processes on one device: the same times in every run, whoever really runs first.
namespace {

using namespace std::chrono_literals;
using simgpu::timing::After;
using simgpu::timing::Engine;
using simgpu::timing::Lane;
using simgpu::timing::LaneKind;
using simgpu::timing::Nanos;
using simgpu::timing::SharedClock;
using simgpu::timing::SharedEngines;
using simgpu::timing::Stamp;
using simgpu::timing::Task;
using simgpu::timing::Timeline;
using simgpu::timing::Work;

constexpr int kDuplex = 1500;
constexpr std::size_t kStreams = 3;

/// What a process does: its calls, drawn from a seed.
struct Call {
  enum Kind { kCharge, kEnqueue, kWait } kind = kCharge;
  Nanos nanos = 0;
  Work work;
  std::size_t stream = 0;
  std::vector<std::size_t> after;  ///< by index of the operation
  std::size_t target = 0;
};

std::vector<Call> make_calls(unsigned seed, int count) {
  std::mt19937 random(seed);
  std::vector<Call> calls;
  std::size_t operations = 0;
  for (int i = 0; i < count; ++i) {
    Call c;
    const auto what = random() % 10;
    if (what < 6) {
      c.kind = Call::kEnqueue;
      c.stream = random() % kStreams;
      c.work.engine = static_cast<Engine>(random() % 5);
      c.work.fixed = static_cast<Nanos>(random() % 4);
      c.work.busy = 10 * static_cast<Nanos>(random() % 5);
      if (operations > 0 && random() % 3 == 0) c.after.push_back(random() % operations);
      ++operations;
    } else if (what < 9 || operations == 0) {
      c.nanos = static_cast<Nanos>(random() % 40);
    } else {
      c.kind = Call::kWait;
      c.target = random() % operations;
    }
    calls.push_back(c);
  }
  return calls;
}

/// One process as it really is: a timeline over shared engines. Fills in when each operation ended.
void run_process(SharedClock& clock, int rank, const std::vector<Call>& calls, unsigned delays, Nanos* ends,
                 const SharedEngines::Options& options) {
  SharedEngines engines(clock, options);
  Timeline timeline(engines);
  Nanos start = 0;
  if (!engines.join(simgpu::this_process(), rank, &start)) return;
  timeline.raise(start);
  std::vector<std::shared_ptr<Lane>> lanes;
  for (std::size_t i = 0; i < kStreams; ++i) {
    lanes.push_back(Timeline::new_lane(i + 1, 1, LaneKind::kNonBlocking));
  }
  std::vector<std::pair<std::size_t, std::uint64_t>> operations;
  std::vector<std::shared_ptr<Stamp>> stamps;
  std::mt19937 random(delays);
  for (const Call& c : calls) {
    if (delays != 0 && random() % 8 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    engines.enter_call();
    if (c.kind == Call::kCharge) {
      timeline.charge(c.nanos);
      timeline.advance();
    } else if (c.kind == Call::kWait) {
      timeline.wait(lanes[operations[c.target].first], operations[c.target].second);
    } else {
      std::vector<After> after;
      for (const std::size_t a : c.after) after.push_back({lanes[operations[a].first], operations[a].second});
      stamps.push_back(std::make_shared<Stamp>());
      operations.emplace_back(c.stream,
                              timeline.enqueue(lanes[c.stream], Task{c.work, nullptr, stamps.back()}, after));
    }
    engines.leave_call();
  }
  engines.enter_call();
  timeline.wait_all(0);
  engines.leave_call();
  engines.leave();
  for (std::size_t i = 0; i < stamps.size(); ++i) ends[i] = stamps[i]->time;
}

/// The oracle: all processes in one simulation, one event after the other in the order of time.
class Everything {
 public:
  explicit Everything(const std::vector<std::vector<Call>>& programs) {
    for (const auto& calls : programs) processes_.push_back(Process{&calls, 0, 0, {}});
  }

  std::vector<std::vector<Nanos>> run() {
    for (;;) {
      std::size_t who = 0;
      std::size_t what = 0;
      const Nanos ready = next_operation(&who, &what);
      if (run_hosts(ready)) continue;
      if (ready == kNever) break;
      dispatch(processes_[who].operations[what], ready);
    }
    std::vector<std::vector<Nanos>> ends;
    for (const Process& p : processes_) {
      ends.emplace_back();
      for (const Operation& o : p.operations) ends.back().push_back(o.end);
    }
    return ends;
  }

 private:
  static constexpr Nanos kNever = std::numeric_limits<Nanos>::max();

  struct Operation {
    const Call* call;
    Nanos called;
    std::vector<std::size_t> after;
    Nanos end = -1;
  };
  struct Process {
    const std::vector<Call>* calls;
    std::size_t at;
    Nanos clock;
    std::vector<Operation> operations;
  };

  /// The operation that is ready first, of the lowest process, the oldest.
  Nanos next_operation(std::size_t* who, std::size_t* what) const {
    Nanos best = kNever;
    for (std::size_t p = 0; p < processes_.size(); ++p) {
      const std::vector<Operation>& all = processes_[p].operations;
      for (std::size_t i = 0; i < all.size(); ++i) {
        Nanos ready = all[i].end >= 0 ? kNever : all[i].called;
        for (const std::size_t a : all[i].after)
          ready = all[a].end < 0 ? kNever : std::max(ready, all[a].end);
        if (ready >= best) continue;
        best = ready;
        *who = p;
        *what = i;
      }
    }
    return best;
  }

  /// Lets every host that has come no further than this do one thing; false if none could.
  bool run_hosts(Nanos until) {
    bool any = false;
    for (Process& p : processes_) {
      if (p.at == p.calls->size() || p.clock > until) continue;
      const Call& c = (*p.calls)[p.at];
      if (c.kind == Call::kWait) {
        const Nanos end = p.operations[c.target].end;
        if (end < 0) continue;
        p.clock = std::max(p.clock, end);
      } else if (c.kind == Call::kCharge) {
        p.clock += c.nanos;
      } else {
        Operation o{&c, p.clock, c.after, -1};
        for (std::size_t i = p.operations.size(); i-- > 0;) {
          if (p.operations[i].call->stream != c.stream) continue;
          o.after.push_back(i);
          break;
        }
        p.operations.push_back(o);
      }
      ++p.at;
      any = true;
    }
    return any;
  }

  void dispatch(Operation& o, Nanos ready) {
    const Work& work = o.call->work;
    if (work.engine == Engine::kNone) {
      o.end = ready + work.fixed + work.busy;
      return;
    }
    const auto engine = static_cast<std::size_t>(work.engine);
    const bool link = work.engine == Engine::kCopyIn || work.engine == Engine::kCopyOut;
    const Nanos other = free_[work.engine == Engine::kCopyIn ? 2 : 1];
    Nanos at = std::max(ready, free_[engine]) + work.fixed;
    for (Nanos left = work.busy * 1000; left > 0; ++at) left -= link && at < other ? kDuplex - 1000 : 1000;
    o.end = free_[engine] = at;
  }

  std::vector<Process> processes_;
  Nanos free_[4] = {};
};

constexpr std::size_t kMaxOperations = 4096;
constexpr std::size_t kMaxProcesses = 4;

struct Shared {
  SharedClock clock;
  Nanos ends[kMaxProcesses][kMaxOperations];
  std::atomic<int> progress;
};

struct SharedMemory {
  SharedMemory()
      : at(new (::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
               Shared) {}
  ~SharedMemory() { ::munmap(static_cast<void*>(at), sizeof(Shared)); }
  Shared* at;
};

void expect_ends(const Shared& shared, const std::vector<std::vector<Nanos>>& wanted) {
  for (std::size_t p = 0; p < wanted.size(); ++p) {
    const std::vector<Nanos> got(shared.ends[p], shared.ends[p] + wanted[p].size());
    INFO("process " << p);
    CHECK(got == wanted[p]);
  }
}

}  // namespace

TEST_CASE("shared clock: threads in any order get the times of one simulation of all") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    const std::size_t count = 2 + seed % 3;
    std::vector<std::vector<Call>> programs;
    for (unsigned p = 0; p < count; ++p) programs.push_back(make_calls(100 * seed + p, 150));
    const auto wanted = Everything(programs).run();
    for (unsigned delays = 0; delays < 2; ++delays) {
      const SharedMemory memory;
      SharedEngines::Options options;
      options.links[0].duplex_permille = kDuplex;
      options.patience = 20s;
      memory.at->clock.expected.store(static_cast<std::uint32_t>(count));
      std::vector<std::thread> threads;
      for (std::size_t p = 0; p < count; ++p) {
        threads.emplace_back([&, p] {
          run_process(memory.at->clock, static_cast<int>(p), programs[p],
                      delays * (seed + 7 * static_cast<unsigned>(p) + 1), memory.at->ends[p], options);
        });
      }
      for (std::thread& thread : threads) thread.join();
      expect_ends(*memory.at, wanted);
      CHECK(memory.at->clock.escapes.load() == 0);
    }
  }
}

TEST_CASE("shared clock: processes get the times of one simulation of all") {
  std::vector<std::vector<Call>> programs;
  for (unsigned p = 0; p < 3; ++p) programs.push_back(make_calls(40 + p, 400));
  const auto wanted = Everything(programs).run();
  const SharedMemory memory;
  memory.at->clock.expected.store(3);
  for (int p = 0; p < 3; ++p) {
    if (::fork() == 0) {
      SharedEngines::Options options;
      options.links[0].duplex_permille = kDuplex;
      options.patience = 20s;
      run_process(memory.at->clock, p, programs[static_cast<std::size_t>(p)], static_cast<unsigned>(p + 1),
                  memory.at->ends[p], options);
      ::_exit(0);
    }
  }
  for (int p = 0; p < 3; ++p) {
    int status = 0;
    REQUIRE(::wait(&status) > 0);
    CHECK(status == 0);
  }
  expect_ends(*memory.at, wanted);
  CHECK(memory.at->clock.escapes.load() == 0);
}

TEST_CASE(
    "shared clock: a killed process holds nobody up, one that makes no calls is passed over and counted") {
  for (const bool killed : {true, false}) {
    const SharedMemory memory;
    memory.at->clock.expected.store(2);
    SharedEngines::Options options;
    options.patience = 300ms;
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      SharedEngines engines(memory.at->clock, options);
      Nanos start = 0;
      engines.join(simgpu::this_process(), 0, &start);
      memory.at->progress.store(1);
      for (;;) ::pause();
    }
    while (memory.at->progress.load() == 0) std::this_thread::sleep_for(1ms);
    if (killed) ::kill(child, SIGKILL);
    run_process(memory.at->clock, 1, make_calls(5, 100), 0, memory.at->ends[1], options);
    CHECK(memory.at->clock.escapes.load() == (killed ? 0 : 1));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
}

TEST_CASE("shared clock: a process that starts after another has ended goes on from its time") {
  const SharedMemory memory;
  Nanos start = -1;
  {
    SharedEngines first(memory.at->clock, {});
    REQUIRE(first.join(simgpu::this_process(), -1, &start));
    CHECK(start == 0);
    first.promise(1000, true);
    first.leave();
  }
  SharedEngines second(memory.at->clock, {});
  REQUIRE(second.join(simgpu::this_process(), -1, &start));
  CHECK(start == 1000);
  // While it runs, one more starts where it is.
  second.promise(1500, true);
  SharedEngines third(memory.at->clock, {});
  REQUIRE(third.join(simgpu::this_process(), -1, &start));
  CHECK(start == 1500);
}

TEST_CASE("shared clock: processes that are expected and do not come are given up") {
  const SharedMemory memory;
  memory.at->clock.expected.store(2);
  SharedEngines::Options options;
  options.start = 100ms;
  SharedEngines only(memory.at->clock, options);
  Nanos start = -1;
  REQUIRE(only.join(simgpu::this_process(), -1, &start));
  simgpu::timing::Span span;
  const Work work{Engine::kCompute, 0, 0, 10};
  CHECK_FALSE(only.take(work, 0, false, &span));
  CHECK(only.take(work, 0, true, &span));
  CHECK(memory.at->clock.escapes.load() == 1);
}
