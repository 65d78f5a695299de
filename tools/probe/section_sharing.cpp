#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <thread>

#include "tools/probe/child.h"
#include "tools/probe/counters.h"
#include "tools/probe/descriptor.h"
#include "tools/probe/sharing.h"

/// Memory that another process made: what importing costs, and what becomes of it when its maker is killed.
namespace tidepool::probe {
namespace {

using std::chrono::milliseconds;

/// What one process imported from another.
class Imports {
 public:
  explicit Imports(const Run& run) : run_(run) {}

  void add(Descriptor descriptor, std::uint64_t bytes) {
    CUmemGenericAllocationHandle id = 0;
    const double ns = time_ns([&] {
      TP_CU(cuMemImportFromShareableHandle, &id,
            reinterpret_cast<void*>(static_cast<std::uintptr_t>(descriptor.get())),
            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    });
    Costs& costs = costs_[bytes];
    costs.import.add(ns);
    handles_.emplace_back(id);
    descriptor.close();
    windows_.push_back(std::make_unique<Window>(run_.gpu, 1, bytes));
    costs.map.add(time_ns([&] { windows_.back()->map(0, handles_.back()); }));
    costs.set_access.add(time_ns([&] { windows_.back()->set_access(0); }));
  }

  /// Words that are not what the exporter wrote; `shift`: added to the seeds that are looked for.
  [[nodiscard]] std::uint64_t wrong_words(Word shift = 0) const {
    const Counters wrong;
    for (std::size_t i = 0; i < windows_.size(); ++i) {
      run_.gpu.kernels().check_words({nullptr, 64, 256}, windows_[i]->pointer<Word>(),
                                     windows_[i]->unit_bytes() / sizeof(Word), i + 1 + shift, wrong.device());
    }
    return wrong.take().first;
  }

  void write_costs() const {
    for (const auto& [bytes, costs] : costs_) {
      const Fields params = {{"handle_bytes", bytes}};
      run_.out.result("import", params, "ns", costs.import);
      run_.out.result("map_imported", params, "ns", costs.map);
      run_.out.result("set_access_imported", params, "ns", costs.set_access);
    }
  }

  void release() {
    for (std::size_t i = 0; i < windows_.size(); ++i) {
      windows_[i]->unmap(0);
      handles_[i].release();
    }
    windows_.clear();
    handles_.clear();
  }

 private:
  struct Costs {
    Samples import, map, set_access;
  };
  const Run& run_;
  std::map<std::uint64_t, Costs> costs_;
  std::vector<Handle> handles_;
  std::vector<std::unique_ptr<Window>> windows_;
};

/// What free memory did after something happened.
struct Settled {
  std::uint64_t free;     ///< bytes, at the end
  double ms;              ///< from what happened to the first look that saw this
  bool changing = false;  ///< it had not come to rest when patience was over
};

/// Looks at free memory every millisecond until it has not changed for a while. `start`: when it happened.
Settled wait_until_settled(const Run& run, Clock::time_point start) {
  const milliseconds quiet(run.quick() ? 20 : 1500);
  const auto look = [&] {
    const std::uint64_t free = free_bytes();
    return Settled{free, std::chrono::duration<double, std::milli>(Clock::now() - start).count()};
  };
  Settled found = look();
  Clock::time_point changed = Clock::now();
  while (Clock::now() - changed < quiet) {
    if (Clock::now() - start > 4 * quiet) {
      found.changing = true;
      break;
    }
    std::this_thread::sleep_for(milliseconds(1));
    const Settled now = look();
    if (now.free == found.free) continue;
    changed = Clock::now();
    found = now;
  }
  return found;
}

std::int64_t difference(std::uint64_t now, std::uint64_t before) {
  return static_cast<std::int64_t>(now) - static_cast<std::int64_t>(before);
}

void write_settled(const Run& run, const std::string& after, const Settled& now, std::uint64_t before) {
  run.out.answer("free_bytes_gained_after_" + after, {}, difference(now.free, before),
                 now.changing ? "by cuMemGetInfo; still changing" : "by cuMemGetInfo");
  if (now.free == before) return;  // nothing happened that could have taken time
  Samples ms;
  ms.add(now.ms);
  run.out.result("free_bytes_settled_after_" + after, {}, "ms", ms);
}

/// Takes what the child sends; false, with a record, if it cannot send.
bool receive_all(const Run& run, Child& child, int socket, Imports& imports) {
  for (const std::uint64_t bytes : exported_sizes(run.quick())) {
    std::optional<Descriptor> descriptor = receive_descriptor(socket);
    if (!descriptor) {
      const std::string said = child.line(milliseconds(500)).value_or("the exporter sent nothing");
      run.out.skipped("import", said);
      return false;
    }
    imports.add(std::move(*descriptor), bytes);
  }
  return child.line(milliseconds(20'000)).has_value();
}

void share(const Run& run) {
  if (cu().cuMemExportToShareableHandle == nullptr) {
    return run.out.skipped("import", "the driver has no cuMemExportToShareableHandle");
  }
  if (!run.gpu.exportable()) return run.out.skipped("import", "exportable handles cannot be created here");
  const std::vector<std::uint64_t> sizes = exported_sizes(run.quick());
  const std::uint64_t shared = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  if (shared > run.gpu.allowance()) {
    return run.out.skipped("import", "the handles are more than a quarter of the device");
  }
  auto [ours, theirs] = make_socket_pair();
  Imports imports(run);
  (void)imports.wrong_words();  // what checking takes is taken before free memory is looked at
  const std::uint64_t before_start = free_bytes();
  Child child({"exporter", std::to_string(run.options.device), run.quick() ? "quick" : "full"}, theirs.get());
  theirs.close();
  if (!receive_all(run, child, ours.get(), imports)) return;
  const std::uint64_t when_ready = free_bytes();
  imports.write_costs();
  run.out.answer("shared_bytes", {}, shared);
  ReturnedMemory memory{static_cast<std::int64_t>(shared), 0, 0, 0};
  memory.exporter_overhead = difference(before_start, when_ready) - memory.shared;
  run.out.answer("exporter_overhead_bytes", {}, memory.exporter_overhead,
                 "what free memory lost until the exporter was ready, less the shared bytes");
  run.out.answer("checker_finds", {}, imports.wrong_words(1),
                 "expected " + std::to_string(shared / sizeof(Word)) + ": looked for with other seeds");
  run.out.answer("wrong_words_while_exporter_lives", {}, imports.wrong_words());

  const std::uint64_t before_kill = free_bytes();
  child.kill();
  const std::string ended = child.finish(milliseconds(20'000));
  const Settled killed = wait_until_settled(run, Clock::now());
  run.out.answer("exporter_end", {}, ended);
  write_settled(run, "kill", killed, before_kill);
  run.out.answer("wrong_words_after_exporter_was_killed", {}, imports.wrong_words());
  const std::uint64_t before_release = free_bytes();
  const Clock::time_point release_time = Clock::now();
  imports.release();
  const Settled released = wait_until_settled(run, release_time);
  write_settled(run, "release", released, before_release);
  memory.gained_at_death = difference(before_release, before_kill);
  memory.gained_at_release = difference(released.free, before_release);
  const bool changing = killed.changing || released.changing;
  run.out.answer("memory_returns_at", {}, changing ? "unclear" : memory_returns_at(memory),
                 changing ? "free memory did not come to rest" : "");
}

}  // namespace

std::string memory_returns_at(const ReturnedMemory& memory) {
  const auto is_near = [&](std::int64_t gained, std::int64_t expected) {
    return std::abs(gained - expected) <= memory.shared / 10;
  };
  const bool death_gave_own = is_near(memory.gained_at_death, memory.exporter_overhead);
  const bool death_gave_all = is_near(memory.gained_at_death, memory.exporter_overhead + memory.shared);
  const bool release_gave_nothing = is_near(memory.gained_at_release, 0);
  if (death_gave_own && is_near(memory.gained_at_release, memory.shared)) return "release by importer";
  if (death_gave_all && release_gave_nothing) return "death of exporter";
  return death_gave_own && release_gave_nothing ? "neither" : "unclear";
}

void run_sharing(const Run& run) {
  run.part("import", [&] { share(run); });
  run.part("scrubbing", [&] { measure_scrubbing(run); });
}

}  // namespace tidepool::probe
