#include "tools/probe/memory.h"
#include "tools/probe/run.h"

/// What launches and events cost the thread that calls them. To be run with libtidepool.so preloaded as well.
namespace tidepool::probe {
namespace {

void events(const Run& run) {
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
  run.out.result("event_record", {{"timing", false}}, "ns", record);
  run.out.result("event_record", {{"timing", true}}, "ns", record_timed);
  run.out.result("event_query", {{"state", "done"}}, "ns", query);
  run.out.result("event_elapsed", {}, "ns", elapsed);
}

/// What timing a call adds to it: the reader may take it off.
void clock_cost(const Run& run) {
  Samples cost;
  for (int i = 0; i < 1000; ++i) cost.add(time_ns([] {}));
  run.out.result("clock", {}, "ns", cost);
}

void launches(const Run& run) {
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
  run.out.result("launch", {{"pointers", 0}}, "ns", plain);
  run.out.result("launch", {{"pointers", 8}}, "ns", eight);
  run.out.result("launch_and_synchronize", {{"pointers", 0}}, "ns", round_trip);
}

}  // namespace

void run_launch(const Run& run) {
  clock_cost(run);
  run.part("launch", [&] { launches(run); });
  run.part("event_record", [&] { events(run); });
}

}  // namespace tidepool::probe
