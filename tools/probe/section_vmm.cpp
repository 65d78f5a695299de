#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tools/probe/gemm_load.h"
#include "tools/probe/memory.h"
#include "tools/probe/run.h"
#include "tools/probe/vmm_calls.h"

/// What the calls of "Virtual Memory Management" cost, and what they accept.
namespace tidepool::probe {
namespace {

void write(const Run& run, const CallCosts& costs, std::uint64_t bytes) {
  const Fields params = {{"handle_bytes", bytes}, {"load", "idle"}};
  run.out.result("create", params, "ns", costs.create);
  run.out.result("map", params, "ns", costs.map);
  run.out.result("set_access", params, "ns", costs.set_access);
  run.out.result("unmap", params, "ns", costs.unmap);
  run.out.result("release", params, "ns", costs.release);
}

constexpr std::array<std::uint64_t, 4> kHandleSizes = {2 * kMiB, 8 * kMiB, 32 * kMiB, 128 * kMiB};

void idle_costs(const Run& run) {
  for (const std::uint64_t bytes : kHandleSizes) {
    run.part("calls_idle", [&] {
      require_room(run, bytes);
      TP_CU(cuCtxSynchronize);
      write(run, measure_calls(run, bytes, run.repeats(200, 0.08)), bytes);
    });
  }
}

/// What the products noticed of `calls`. The sum of excess is what all gaps cost together.
void write_load(const Run& run, const GemmLoad& load, const char* calls, std::uint64_t bytes) {
  const Fields params = {{"calls", calls}, {"handle_bytes", bytes}, {"side", std::uint64_t{load.side()}}};
  const Samples& periods = load.periods();
  run.out.result("gemm_period", params, "ns", periods);
  run.out.result("gemm_launch_on_host", params, "ns", load.launches());
  if (periods.empty()) return;
  run.out.answer("gemm_period_p99", params, periods.quantile(0.99), "ns");
  run.out.answer("gemm_excess_over_median", params, periods.excess_over(periods.median()),
                 "ns, the sum over " + std::to_string(periods.count()) + " periods");
}

/// Runs one group of calls while products run.
template <class F>
void beside(const Run& run, GemmLoad& load, const char* calls, std::uint64_t bytes, F&& f) {
  load.start();
  f();
  load.stop();
  write_load(run, load, calls, bytes);
}

/// A share for each load window: three for each size, and one without calls.
constexpr double kLoadShare = 0.025;

void create_beside(const Run& run, GemmLoad& load, std::uint64_t bytes) {
  Samples create, release;
  beside(run, load, "create, release", bytes, [&] {
    Repeats repeats = run.repeats(2000, kLoadShare);
    while (repeats.next()) {
      Handle handle;
      create.add(time_ns([&] { handle.create(run.gpu, bytes); }));
      release.add(time_ns([&] { handle.release(); }));
    }
  });
  const Fields params = {{"handle_bytes", bytes}, {"load", "gemm"}};
  run.out.result("create", params, "ns", create);
  run.out.result("release", params, "ns", release);
}

void map_beside(const Run& run, GemmLoad& load, std::uint64_t bytes) {
  const Handle handle(run.gpu, bytes);
  Window window(run.gpu, 1, bytes);
  Samples map, set_access, unmap;
  beside(run, load, "map, set_access, unmap", bytes, [&] {
    Repeats repeats = run.repeats(2000, kLoadShare);
    while (repeats.next()) {
      map.add(time_ns([&] { window.map(0, handle); }));
      set_access.add(time_ns([&] { window.set_access(0); }));
      unmap.add(time_ns([&] { window.unmap(0); }));
    }
  });
  const Fields params = {{"handle_bytes", bytes}, {"load", "gemm"}};
  run.out.result("map", params, "ns", map);
  run.out.result("set_access", params, "ns", set_access);
  run.out.result("unmap", params, "ns", unmap);
}

/// One handle, mapped many times before the products start; the unmaps are spread over the time they run.
void unmap_beside(const Run& run, GemmLoad& load, std::uint64_t bytes) {
  const std::size_t units = run.quick() ? 2 : 256;
  const Handle handle(run.gpu, bytes);
  Window window(run.gpu, units, bytes);
  for (std::size_t i = 0; i < units; ++i) window.map(i, handle);
  window.set_access(0, units);
  Samples unmap;
  beside(run, load, "unmap", bytes, [&] {
    const std::chrono::duration<double> pause(run.options.seconds * kLoadShare / static_cast<double>(units));
    for (std::size_t i = 0; i < units && !run.is_over(); ++i) {
      unmap.add(time_ns([&] { window.unmap(i); }));
      if (!run.quick()) std::this_thread::sleep_for(pause);
    }
  });
  run.out.result("unmap_alone", {{"handle_bytes", bytes}, {"load", "gemm"}}, "ns", unmap);
}

/// The same calls while products run, and what the products notice.
void costs_beside_products(const Run& run) {
  GemmLoad load(run);
  load.start();
  Repeats pause = run.repeats(1'000'000, kLoadShare);
  while (pause.next()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  load.stop();
  write_load(run, load, "none", 0);
  for (const std::uint64_t bytes : kHandleSizes) {
    run.part("calls_beside_gemm", [&] {
      require_room(run, bytes);
      create_beside(run, load, bytes);
      map_beside(run, load, bytes);
      unmap_beside(run, load, bytes);
    });
  }
}

std::vector<Handle> make_handles(const Run& run, std::size_t count) {
  std::vector<Handle> handles;
  for (std::size_t i = 0; i < count; ++i) handles.emplace_back(run.gpu, kGranule);
  return handles;
}

void map_all(Window& window, const std::vector<Handle>& handles) {
  for (std::size_t i = 0; i < handles.size(); ++i) window.map(i, handles[i]);
}

/// One call over many mappings against one call for each.
void many_at_once(const Run& run, std::size_t count) {
  require_room(run, count * kGranule);
  const std::vector<Handle> handles = make_handles(run, count);
  Window window(run.gpu, count, kGranule);
  Samples access_at_once, access_one_by_one, unmap_at_once, unmap_one_by_one;
  std::string refused;
  Repeats repeats = run.repeats(50, 0.05);
  while (repeats.next()) {
    map_all(window, handles);
    access_at_once.add(time_ns([&] { window.set_access(0, count); }));
    if (refused.empty()) {
      try {
        unmap_at_once.add(time_ns([&] { window.unmap(0, count); }));
        map_all(window, handles);
      } catch (const DriverError& failure) {
        refused = failure.what();
        for (std::size_t i = 0; i < count; ++i) window.unmap(i);
        map_all(window, handles);
      }
    } else {
      for (std::size_t i = 0; i < count; ++i) window.unmap(i);
      map_all(window, handles);
    }
    access_one_by_one.add(time_ns([&] {
      for (std::size_t i = 0; i < count; ++i) window.set_access(i);
    }));
    unmap_one_by_one.add(time_ns([&] {
      for (std::size_t i = 0; i < count; ++i) window.unmap(i);
    }));
  }
  const auto params = [&](const char* calls) {
    return Fields{{"mappings", std::uint64_t{count}}, {"handle_bytes", kGranule}, {"calls", calls}};
  };
  run.out.result("set_access_many", params("one"), "ns", access_at_once);
  run.out.result("set_access_many", params("one for each"), "ns", access_one_by_one);
  run.out.answer("unmap_over_several_mappings", {{"mappings", std::uint64_t{count}}}, refused.empty(),
                 refused);
  if (refused.empty()) run.out.result("unmap_many", params("one"), "ns", unmap_at_once);
  run.out.result("unmap_many", params("one for each"), "ns", unmap_one_by_one);
}

/// Maps part of a handle, at its start or further inside, and uses it.
void map_part(const Run& run, const char* name, std::uint64_t offset) {
  const Handle handle(run.gpu, 2 * kGranule);
  const Window window(run.gpu, 1, kGranule);
  const CUresult mapped = cu().cuMemMap(window.at(0), kGranule, offset, handle.id(), 0);
  if (mapped != CUDA_SUCCESS) return run.out.answer(name, {}, false, "cuMemMap: " + result_name(mapped));
  std::string problem;
  try {
    window.set_access(0);
    TP_CU(cuMemsetD8_v2, window.at(0), static_cast<unsigned char>(1), kGranule);
    TP_CU(cuCtxSynchronize);
  } catch (const DriverError& failure) {
    problem = failure.what();
  }
  TP_CU(cuMemUnmap, window.at(0), kGranule);
  run.out.answer(name, {}, problem.empty(), problem.empty() ? "mapped, written and unmapped" : problem);
}

/// Access set over a range with a unit in it that is not mapped, as guards between blocks are.
void access_over_hole(const Run& run) {
  const std::vector<Handle> handles = make_handles(run, 2);
  Window window(run.gpu, 3, kGranule);
  window.map(0, handles[0]);
  window.map(2, handles[1]);
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, run.gpu.device()},
                               CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  const CUresult result = cu().cuMemSetAccess(window.at(0), 3 * kGranule, &access, 1);
  run.out.answer("set_access_over_unmapped_gap", {}, result == CUDA_SUCCESS,
                 "cuMemSetAccess: " + result_name(result));
}

void granularity(const Run& run) {
  const CUmemAllocationProp wanted = run.gpu.properties();
  std::size_t least = 0;
  std::size_t recommended = 0;
  TP_CU(cuMemGetAllocationGranularity, &least, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  TP_CU(cuMemGetAllocationGranularity, &recommended, &wanted, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  run.out.answer("granularity_minimum", {}, std::uint64_t{least}, "bytes");
  run.out.answer("granularity_recommended", {}, std::uint64_t{recommended}, "bytes");
}

}  // namespace

void run_vmm(const Run& run) {
  run.part("granularity", [&] { granularity(run); });
  run.part("map_smaller_than_handle", [&] { map_part(run, "map_smaller_than_handle", 0); });
  run.part("map_from_inside_handle", [&] { map_part(run, "map_from_inside_handle", kGranule); });
  run.part("set_access_over_unmapped_gap", [&] { access_over_hole(run); });
  idle_costs(run);
  const std::vector<std::size_t> counts =
      run.quick() ? std::vector<std::size_t>{4} : std::vector<std::size_t>{16, 64, 256};
  for (const std::size_t count : counts) {
    run.part("many_at_once", [&] { many_at_once(run, count); });
  }
  run.part("calls_beside_gemm", [&] { costs_beside_products(run); });
}

}  // namespace tidepool::probe
