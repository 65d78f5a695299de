#include <algorithm>
#include <string>

#include "tools/probe/child.h"
#include "tools/probe/counters.h"
#include "tools/probe/faults.h"
#include "tools/probe/run.h"

/// What follows when a kernel touches an address that is not mapped. Each case is a process of its own, which
/// writes records itself; here it is watched, and it is seen whether this process keeps working beside it.
namespace tidepool::probe {
namespace {

using std::chrono::milliseconds;

/// A kernel and a copy in this process's own context.
std::string own_work(const Run& run) {
  constexpr Word kWords = 4096;
  try {
    const DeviceBuffer block(kWords * sizeof(Word));
    const Counters wrong;
    run.gpu.kernels().write_words({nullptr, 4, 256}, block.pointer<Word>(), kWords, 7);
    run.gpu.kernels().check_words({nullptr, 4, 256}, block.pointer<const Word>(), kWords, 7, wrong.device());
    const std::uint64_t found = wrong.take().first;
    return found == 0 ? "" : std::to_string(found) + " wrong words";
  } catch (const DriverError& failure) {
    return failure.what();
  }
}

void run_case(const Run& run, const FaultCase& c) {
  // Once it is over, the child is killed. All cases have to fit into the section, even where each one hangs.
  const milliseconds patience(run.quick() ? 20'000 : 4'000);
  const Clock::time_point last = Clock::now() + patience;
  const auto left = [&] {
    return std::max(milliseconds(0), std::chrono::duration_cast<milliseconds>(last - Clock::now()));
  };
  Child child({"faults", std::to_string(run.options.device), c.name});
  // It is alive and about to fault: this process works on beside it until it is over.
  std::string problem;
  bool began = false;
  while (const std::optional<std::string> line = child.line(left())) {
    began = began || line->starts_with("{");
    if (line->starts_with("{")) {
      run.out.forward(*line);
    } else {
      run.out.skipped(c.name, *line);
    }
    if (problem.empty()) problem = own_work(run);
  }
  const std::string ended = child.finish(left());
  if (problem.empty()) problem = own_work(run);
  const std::string name(c.name);
  if (!began && ended.empty()) run.out.skipped(c.name, "the child said nothing");
  run.out.answer(name + "_process_survives", {}, ended.empty(), ended);
  run.out.answer(name + "_other_process_works", {}, problem.empty(), problem);
}

}  // namespace

void run_faults(const Run& run) {
  for (const FaultCase& c : kFaultCases) {
    run.part(c.name, [&] { run_case(run, c); });
  }
}

}  // namespace tidepool::probe
