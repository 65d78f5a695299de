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

  /// Words that are not what the exporter wrote.
  [[nodiscard]] std::uint64_t wrong_words() const {
    const Counters wrong;
    for (std::size_t i = 0; i < windows_.size(); ++i) {
      run_.gpu.kernels().check_words({nullptr, 64, 256}, windows_[i]->pointer<Word>(),
                                     windows_[i]->unit_bytes() / sizeof(Word), i + 1, wrong.device());
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
  std::uint64_t free;  ///< bytes, at the end
  double ms;           ///< from what happened to the first look that saw this
};

/// Looks at free memory every millisecond until it has not changed for a while. `start`: when it happened.
Settled wait_until_settled(const Run& run, Clock::time_point start) {
  const milliseconds quiet(run.quick() ? 20 : 700);
  const auto look = [&] {
    const std::uint64_t free = free_bytes();
    return Settled{free, std::chrono::duration<double, std::milli>(Clock::now() - start).count()};
  };
  Settled found = look();
  Clock::time_point changed = Clock::now();
  while (Clock::now() - changed < quiet && Clock::now() - start < 5 * quiet) {
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
  run.out.answer("free_bytes_gained_after_" + after, {}, difference(now.free, before), "by cuMemGetInfo");
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
  Child child({"exporter", std::to_string(run.options.device), run.quick() ? "quick" : "full"}, theirs.get());
  theirs.close();
  Imports imports(run);
  if (!receive_all(run, child, ours.get(), imports)) return;
  imports.write_costs();
  run.out.answer("shared_bytes", {}, shared);
  run.out.answer("wrong_words_while_exporter_lives", {}, imports.wrong_words());

  const std::uint64_t before_kill = free_bytes();
  const Clock::time_point kill_time = Clock::now();
  child.kill();
  const Settled killed = wait_until_settled(run, kill_time);
  write_settled(run, "kill", killed, before_kill);
  run.out.answer("wrong_words_after_exporter_was_killed", {}, imports.wrong_words());
  const Clock::time_point release_time = Clock::now();
  imports.release();
  const Settled released = wait_until_settled(run, release_time);
  write_settled(run, "release", released, killed.free);
  const bool at_release = difference(released.free, killed.free) >= static_cast<std::int64_t>(shared / 2);
  run.out.answer("memory_returns_at", {},
                 std::string(at_release ? "release by importer" : "death of exporter"));
}

}  // namespace

void run_sharing(const Run& run) {
  run.part("import", [&] { share(run); });
  run.part("scrubbing", [&] { measure_scrubbing(run); });
}

}  // namespace tidepool::probe
