#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tools/probe/memory.h"
#include "tools/probe/run.h"

/// What launches and events cost the thread that calls them. To be run with libtidepool.so preloaded as well.
namespace tidepool::probe {
namespace {

/// Bytes that TIDEPOOL_DEVICE_BUDGET gives as a plain number; 0 if it does not.
std::uint64_t budget_bytes() {
  const char* variable = std::getenv("TIDEPOOL_DEVICE_BUDGET");
  const std::string_view text = variable != nullptr ? variable : "";
  std::uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  return error == std::errc{} && end == text.data() + text.size() ? bytes : 0;
}

/// Whether hooks do their work: "none", "passthrough", "active"; "unclear" where nothing tells. A library
/// that is mapped may hand out the driver's own functions, or forward every call; hooks at work show a device
/// as large as the budget, and hold it to that where memory is allocated.
std::string hooks_at_work(const Run& run) {
  if (!is_preloaded()) return "none";
  const std::uint64_t budget = budget_bytes();
  if (budget == 0) return "unclear";
  const DeviceBuffer block(4 * kMiB);
  std::size_t free = 0;
  std::size_t total = 0;
  TP_CU(cuMemGetInfo_v2, &free, &total);
  const bool limited = total <= budget && free + 4 * kMiB <= total;
  return run.gpu.total_bytes() == budget && limited ? "active" : "passthrough";
}

/// The answer that polling mostly gets: behind a kernel that still runs.
void query_pending(const Run& run, const std::string& hooks) {
  constexpr unsigned kBusyMs = 2;
  const Stream stream;
  const Event event(CU_EVENT_DISABLE_TIMING);
  Samples query;
  Repeats repeats = run.repeats(20, 0.03);
  while (repeats.next()) {
    run.gpu.kernels().spin({stream.get()}, run.gpu.cycles(kBusyMs));
    event.record(stream);
    for (int i = 0; i < 100; ++i) {
      CUresult result = CUDA_SUCCESS;
      const double ns = time_ns([&] { result = cu().cuEventQuery(event.get()); });
      if (result == CUDA_SUCCESS) break;
      if (result != CUDA_ERROR_NOT_READY) throw DriverError("cuEventQuery", result);
      query.add(ns);
    }
    stream.synchronize();
  }
  if (query.empty()) return run.out.skipped("event_query", "no query came before the work had ended");
  run.out.result("event_query", {{"state", "pending"}, {"hooks", hooks}}, "ns", query);
}

void events(const Run& run, const std::string& hooks) {
  const Stream stream;
  const Event timed;
  const Event start;
  const Event untimed(CU_EVENT_DISABLE_TIMING);
  Samples record, record_timed, query, elapsed;
  start.record(stream);
  Repeats repeats = run.repeats(2000, 0.03);
  while (repeats.next()) {
    record.add(time_ns([&] { untimed.record(stream); }));
    record_timed.add(time_ns([&] { timed.record(stream); }));
    stream.synchronize();
    query.add(time_ns([&] { TP_CU(cuEventQuery, untimed.get()); }));
    elapsed.add(time_ns([&] { static_cast<void>(timed.ns_since(start)); }));
  }
  run.out.result("event_record", {{"timing", false}, {"hooks", hooks}}, "ns", record);
  run.out.result("event_record", {{"timing", true}, {"hooks", hooks}}, "ns", record_timed);
  run.out.result("event_query", {{"state", "done"}, {"hooks", hooks}}, "ns", query);
  query_pending(run, hooks);
  run.out.result("event_elapsed", {{"hooks", hooks}}, "ns", elapsed);
}

/// What timing a call adds to it: the reader may take it off.
void clock_cost(const Run& run) {
  Samples cost;
  for (int i = 0; i < 1000; ++i) cost.add(time_ns([] {}));
  run.out.result("clock", {}, "ns", cost);
}

void launches(const Run& run, const std::string& hooks) {
  constexpr std::size_t kBatch = 256;  // fewer than a stream's queue holds: a full one would make us wait
  const Kernels& kernels = run.gpu.kernels();
  const Stream stream;
  const DeviceBuffer buffer(kMiB);
  Word* p = buffer.pointer<Word>();
  const Launch how{stream.get(), 1, 1};
  kernels.empty(how);
  kernels.empty_eight(how, p, p, p, p, p, p, p, p);
  stream.synchronize();
  Samples plain, eight, round_trip;
  Repeats repeats = run.repeats(40, 0.03);
  while (repeats.next()) {
    for (std::size_t i = 0; i < kBatch; ++i) plain.add(time_ns([&] { kernels.empty(how); }));
    stream.synchronize();
    for (std::size_t i = 0; i < kBatch; ++i) {
      eight.add(time_ns([&] { kernels.empty_eight(how, p, p, p, p, p, p, p, p); }));
    }
    stream.synchronize();
    round_trip.add(time_ns([&] {
      kernels.empty(how);
      stream.synchronize();
    }));
  }
  run.out.result("launch", {{"pointers", 0}, {"hooks", hooks}}, "ns", plain);
  run.out.result("launch", {{"pointers", 8}, {"hooks", hooks}}, "ns", eight);
  run.out.result("launch_and_synchronize", {{"pointers", 0}, {"hooks", hooks}}, "ns", round_trip);
}

}  // namespace

void run_launch(const Run& run) {
  clock_cost(run);
  std::string hooks = "unclear";
  run.part("hooks", [&] {
    hooks = hooks_at_work(run);
    run.out.answer("hooks", {}, hooks,
                   hooks == "unclear" ? "TIDEPOOL_DEVICE_BUDGET is no number of bytes" : "");
  });
  run.part("launch", [&] { launches(run, hooks); });
  run.part("event_record", [&] { events(run, hooks); });
}

}  // namespace tidepool::probe
