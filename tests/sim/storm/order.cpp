#include "tests/sim/storm/order.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace storm {
namespace {

/// For each stream, the last of its operations that has ended: everything of the stream up to it has.
using Clock = std::vector<int>;

void merge(Clock& into, const Clock& other) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], other[i]);
}

/// What somebody needs of an earlier operation.
struct Need {
  unsigned index;
  bool ended;            ///< or else only called
  bool by_host = false;  ///< the call itself reads what that operation writes
};

class Orderer {
 public:
  Orderer(const Options& options, Program& program)
      : options_(options),
        program_(program),
        random_(options.seed),
        nothing_(program.streams.size(), -1),
        writer_(objects_of_buffers(program) + program.captures.size(), -1),
        readers_(writer_.size()),
        of_stream_(program.streams.size()),
        host_(options.threads, nothing_),
        issued_(options.threads, std::vector<int>(options.threads, -1)),
        ended_(program.operations.size(), nothing_),
        host_then_(program.operations.size(), nothing_),
        issued_then_(program.operations.size()) {}

  void run() {
    for (unsigned i = 0; i < program_.operations.size(); ++i) {
      Operation& operation = program_.operations[i];
      const std::vector<Need> needs = needs_of(operation);
      if (operation.kind == Kind::kAwaitValue) await_calls_of_section(operation);
      for (const Need& need : needs) await_call(operation, need.index);
      issued_[operation.thread][operation.thread] = static_cast<int>(i);
      if (operation.stream != kNone && runs_in_stream(operation)) {
        enqueue(i, operation, needs);
      } else {
        for (const Need& need : needs) {
          if (need.ended) await_end_on_host(operation, need.index);
        }
        after_host_call(operation);
      }
      host_then_[i] = host_[operation.thread];
      issued_then_[i] = issued_[operation.thread];
      note(i, operation);
    }
  }

 private:
  static bool runs_in_stream(const Operation& operation) {
    return operation.kind != Kind::kStreamCreate && operation.kind != Kind::kStreamDestroy &&
           operation.kind != Kind::kSynchronize;
  }

  /// cudaFree of cudaMalloc's memory waits by itself.
  bool waits_by_itself(const Operation& operation) const {
    return operation.kind == Kind::kFree && !operation.asynchronous &&
           program_.buffers[operation.to.buffer].home == Home::kMalloc;
  }

  std::vector<Need> needs_of(const Operation& operation) const {
    std::vector<Need> needs;
    const bool ended = !waits_by_itself(operation);
    for (const Use& use : uses_of(program_, operation)) {
      // Copies from pageable memory may read it at once, before what the stream waits for ("API
      // synchronization behavior" in the runtime's manual).
      const bool at_once = !use.writes && use.object < objects_of_buffers(program_) &&
                           program_.buffers[use.buffer()].home == Home::kPageable;
      if (writer_[use.object] >= 0)
        needs.push_back({static_cast<unsigned>(writer_[use.object]), ended, at_once});
      if (!use.writes) continue;
      for (const unsigned reader : readers_[use.object]) needs.push_back({reader, ended});
    }
    // Addresses must be known where a graph is made.
    for (const Operation& node : operation.nodes) {
      for (const Use& use : uses_of(program_, node)) {
        if (writer_[use.object] >= 0) needs.push_back({static_cast<unsigned>(writer_[use.object]), false});
      }
    }
    if (operation.stream != kNone && !of_stream_[operation.stream].empty()) {
      needs.push_back({of_stream_[operation.stream].back(), false});
    }
    return needs;
  }

  /// Once a stream awaits a value, its thread waits for no other thread until the value is written: that one
  /// may be waiting for the device. And of two sections the earlier one is over first: in less memory there
  /// may be no room for what two streams are still to use.
  void await_calls_of_section(Operation& operation) {
    const Section& section = program_.sections[operation.section];
    if (operation.section > 0) await_call(operation, program_.sections[operation.section - 1].last);
    for (unsigned i = section.first + 1; i <= section.last; ++i) {
      for (const Need& need : needs_of(program_.operations[i])) await_call(operation, need.index);
    }
  }

  /// Of a section, the call that writes the value is waited for: work behind one that awaits it must not fill
  /// the memory that the section needs.
  void await_call(Operation& operation, unsigned index) {
    const Operation& other = program_.operations[index];
    if (other.section != kNone) index = program_.sections[other.section].last;
    std::vector<int>& known = issued_[operation.thread];
    if (other.thread == operation.thread || known[other.thread] >= static_cast<int>(index)) return;
    operation.after_issue.push_back(index);
    for (std::size_t i = 0; i < known.size(); ++i) known[i] = std::max(known[i], issued_then_[index][i]);
    merge(host_[operation.thread], host_then_[index]);
  }

  /// Operations of the host have ended when they have been called.
  bool is_of_device(unsigned index) const {
    const Operation& operation = program_.operations[index];
    return operation.stream != kNone && runs_in_stream(operation);
  }

  void await_end_on_host(Operation& operation, unsigned index) {
    Clock& host = host_[operation.thread];
    if (!is_of_device(index) || host[program_.operations[index].stream] >= static_cast<int>(index)) return;
    operation.host_waits.push_back(index);
    program_.operations[index].records = true;
    merge(host, ended_[index]);
  }

  /// The latest operation of a stream that this thread knows to have been called.
  int latest_called(unsigned stream, unsigned thread) const {
    const std::vector<unsigned>& all = of_stream_[stream];
    for (auto it = all.rbegin(); it != all.rend(); ++it) {
      if (is_of_device(*it) && issued_[thread][program_.operations[*it].thread] >= static_cast<int>(*it)) {
        return static_cast<int>(*it);
      }
    }
    return -1;
  }

  void join(Clock& clock, unsigned stream, unsigned thread) const {
    const int latest = latest_called(stream, thread);
    if (latest >= 0) merge(clock, ended_[static_cast<unsigned>(latest)]);
  }

  static bool blocks(StreamKind kind) {
    return kind == StreamKind::kBlocking || kind == StreamKind::kPerThread;
  }

  Clock start_of(const Operation& operation) const {
    Clock clock = host_[operation.thread];
    join(clock, operation.stream, operation.thread);
    const Stream& mine = program_.streams[operation.stream];
    for (unsigned i = 0; i < program_.streams.size(); ++i) {
      const Stream& other = program_.streams[i];
      if (other.device != mine.device) continue;
      const bool joins = mine.kind == StreamKind::kLegacy
                             ? blocks(other.kind)
                             : blocks(mine.kind) && other.kind == StreamKind::kLegacy;
      if (joins) join(clock, i, operation.thread);
    }
    return clock;
  }

  void enqueue(unsigned index, Operation& operation, const std::vector<Need>& needs) {
    Clock clock = start_of(operation);
    for (const Need& need : needs) {
      if (!need.ended || !is_of_device(need.index)) continue;
      if (need.by_host) await_end_on_host(operation, need.index);
      const bool known = clock[program_.operations[need.index].stream] >= static_cast<int>(need.index);
      if (known || need.by_host) {
        // Nothing to wait for in the stream.
      } else if (options_.has(Feature::k_hostsync) && random_() % 5 == 0) {
        await_end_on_host(operation, need.index);
      } else {
        operation.stream_waits.push_back(need.index);
        program_.operations[need.index].records = true;
      }
      merge(clock, ended_[need.index]);
    }
    clock[operation.stream] = static_cast<int>(index);
    ended_[index] = clock;
    if (operation.waits_for_stream) merge(host_[operation.thread], clock);
  }

  void after_host_call(const Operation& operation) {
    Clock& host = host_[operation.thread];
    if (operation.kind == Kind::kSynchronize && operation.stream != kNone) {
      join(host, operation.stream, operation.thread);
    } else if (operation.kind == Kind::kSynchronize || waits_by_itself(operation)) {
      // The executor calls for the device of the buffer, or for all of them.
      for (unsigned i = 0; i < program_.streams.size(); ++i) {
        const bool all = operation.kind == Kind::kSynchronize;
        if (all || program_.streams[i].device == program_.buffers[operation.to.buffer].device) {
          join(host, i, operation.thread);
        }
      }
    }
  }

  void note(unsigned index, const Operation& operation) {
    for (const Use& use : uses_of(program_, operation)) {
      if (use.writes) {
        writer_[use.object] = static_cast<int>(index);
        readers_[use.object].clear();
      } else {
        readers_[use.object].push_back(index);
      }
    }
    if (operation.stream != kNone) of_stream_[operation.stream].push_back(index);
  }

  const Options& options_;
  Program& program_;
  std::mt19937_64 random_;
  const Clock nothing_;
  std::vector<int> writer_;                       ///< by object
  std::vector<std::vector<unsigned>> readers_;    ///< by object, since it was written
  std::vector<std::vector<unsigned>> of_stream_;  ///< its operations
  std::vector<Clock> host_;                       ///< by thread: what its host knows to have ended
  std::vector<std::vector<int>> issued_;  ///< by thread: the last operation of each thread it knows called
  std::vector<Clock> ended_;              ///< by operation: what has ended when it has
  std::vector<Clock> host_then_;          ///< by operation: what its thread knew after it
  std::vector<std::vector<int>> issued_then_;
};

void forget_wait(unsigned number, Program& program) {
  for (Operation& operation : program.operations) {
    if (number < operation.stream_waits.size()) {
      operation.stream_waits.erase(operation.stream_waits.begin() + number);
      return;
    }
    number -= static_cast<unsigned>(operation.stream_waits.size());
  }
  std::fprintf(stderr, "storm: --forget-wait: the program has not so many waits\n");
  std::exit(2);
}

}  // namespace

void add_order(const Options& options, Program& program) {
  for (Operation& operation : program.operations) {
    operation.waits_for_stream = operation.kind == Kind::kCheck;
  }
  Orderer(options, program).run();
  if (options.forgotten) forget_wait(*options.forgotten, program);
}

}  // namespace storm
