#include "tools/probe/vmm_calls.h"

#include <vector>

#include "tools/probe/memory.h"

namespace tidepool::probe {

CallCosts measure_calls(const Run& run, std::uint64_t bytes, Repeats repeats) {
  CallCosts costs;
  Window window(run.gpu, 1, bytes);
  while (repeats.next()) {
    Handle handle;
    costs.create.add(run.time_ns([&] { handle.create(run.gpu, bytes); }));
    costs.map.add(run.time_ns([&] { window.map(0, handle); }));
    costs.set_access.add(run.time_ns([&] { window.set_access(0); }));
    costs.unmap.add(run.time_ns([&] { window.unmap(0); }));
    costs.release.add(run.time_ns([&] { handle.release(); }));
  }
  return costs;
}

SweepCosts measure_sweep(const Run& run, std::size_t count, Repeats repeats) {
  SweepCosts costs;
  std::vector<Handle> handles;
  for (std::size_t i = 0; i < count; ++i) handles.emplace_back(run.gpu, kGranule);
  Window window(run.gpu, count, kGranule);
  while (repeats.next()) {
    for (std::size_t i = 0; i < count; ++i) window.map(i, handles[i]);
    costs.set_access.add(run.time_ns([&] { window.set_access(0, count); }));
    costs.unmap.add(run.time_ns([&] { window.unmap(0, count); }));
  }
  return costs;
}

}  // namespace tidepool::probe
