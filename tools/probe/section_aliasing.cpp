#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tools/probe/coherence.h"
#include "tools/probe/counters.h"
#include "tools/probe/memory.h"
#include "tools/probe/run.h"

/// One handle at several addresses: how many mappings there can be, and what kernels over them cost.
namespace tidepool::probe {
namespace {

constexpr Word kUnitWords = kGranule / sizeof(Word);
constexpr unsigned kThreads = 256;
constexpr std::size_t kBatch = 64;  ///< mappings that are handled together

/// Handles that are mapped again and again: unit i holds handle owner[i], and the first units one each.
struct Crowd {
  std::vector<Handle> handles;
  Window window;
  std::vector<std::size_t> owner;

  Crowd(const Run& run, std::size_t handle_count, std::size_t mappings)
      : window(run.gpu, mappings, kGranule), owner(mappings) {
    for (std::size_t i = 0; i < handle_count; ++i) handles.emplace_back(run.gpu, kGranule);
    std::mt19937 random(1);
    for (std::size_t i = 0; i < mappings; ++i) owner[i] = i < handle_count ? i : random() % handle_count;
  }
};

/// Maps every unit, and makes them accessible in batches; returns how many could be mapped.
std::size_t map_crowd(const Run& run, Crowd& crowd) {
  const std::size_t wanted = crowd.owner.size();
  Samples map, access;
  std::string failure;
  const std::uint64_t free_before = free_bytes();
  std::size_t mapped = 0;
  std::size_t accessible = 0;
  try {
    while (accessible < wanted) {
      if (run.is_over()) throw std::runtime_error("the section's time is over");
      const std::size_t end = std::min(wanted, accessible + kBatch);
      for (; mapped < end; ++mapped) {
        map.add(time_ns([&] { crowd.window.map(mapped, crowd.handles[crowd.owner[mapped]]); }));
      }
      access.add(time_ns([&] { crowd.window.set_access(accessible, end - accessible); }) /
                 static_cast<double>(end - accessible));
      accessible = end;
    }
  } catch (const std::exception& error) {
    failure = error.what();
  }
  const Fields params = {{"handles", std::uint64_t{crowd.handles.size()}},
                         {"mappings", std::uint64_t{wanted}},
                         {"handle_bytes", kGranule}};
  run.out.answer("mappings_made", params, std::uint64_t{accessible}, failure);
  run.out.result("map_alias", params, "ns", map);
  run.out.result("set_access_per_mapping", params, "ns", access);
  const std::uint64_t free_after = free_bytes();
  run.out.answer("device_bytes_taken_by_mappings", params,
                 std::uint64_t{free_before > free_after ? free_before - free_after : 0},
                 "by cuMemGetInfo, handles not counted");
  return accessible;
}

/// Writes each handle through its first address and reads it through every address.
void check_crowd(const Run& run, const Crowd& crowd, std::size_t mapped) {
  const Counters wrong;
  const Launch how{nullptr, 64, kThreads};
  const std::size_t handles = std::min(crowd.handles.size(), mapped);
  for (std::size_t i = 0; i < handles; ++i) {
    run.gpu.kernels().write_words(how, crowd.window.pointer<Word>(i), kUnitWords, i + 1);
  }
  std::size_t checked = 0;
  for (; checked < mapped; ++checked) {
    const std::size_t i = checked;
    if (i % kBatch == 0) {
      TP_CU(cuCtxSynchronize);  // else the time is seen when everything is queued
      if (run.is_over()) break;
    }
    run.gpu.kernels().check_words(how, crowd.window.pointer<Word>(i), kUnitWords, crowd.owner[i] + 1,
                                  wrong.device());
  }
  if (checked == 0) return run.out.skipped("wrong_words_over_all_mappings", "the section's time is over");
  run.out.answer("wrong_words_over_all_mappings", {{"mappings", std::uint64_t{checked}}}, wrong.take().first,
                 "written through one address, read through all, by kernels on one stream");
}

/// Device time of what f enqueues on the stream, ns.
template <class F>
double device_ns(const Stream& stream, const Event& start, const Event& end, F&& f) {
  start.record(stream);
  f();
  end.record(stream);
  stream.synchronize();
  return end.ns_since(start);
}

/// Reads through the crowd's addresses, and as many bytes through one mapping of one handle.
void time_crowd(const Run& run, const Crowd& crowd, std::size_t mapped) {
  const std::uint64_t held = crowd.handles.size() * kGranule;
  const std::uint64_t allowed = (run.gpu.allowance() - std::min(run.gpu.allowance(), held)) / kGranule;
  const std::uint64_t bytes = std::min<std::uint64_t>(mapped, allowed) * kGranule;
  if (bytes == 0) throw std::runtime_error("there is no room for one mapping of as many bytes");
  const Handle handle(run.gpu, bytes);
  Window one(run.gpu, 1, bytes);
  one.map(0, handle);
  one.set_access(0);
  const DeviceBuffer out(sizeof(Word));
  const Stream stream;
  const Event start, end;
  const auto& kernel = run.gpu.kernels().read_pairs;
  const Launch how{stream.get(), run.gpu.full_grid(kernel.function(), kThreads), kThreads};
  const Window* const windows[] = {&one, &crowd.window};
  for (const Window* window : windows) {
    const auto read = [&] {
      kernel(how, window->pointer<Word>(), bytes / sizeof(WordPair), out.pointer<Word>());
    };
    run.warm_up([&] { (void)device_ns(stream, start, end, read); });
    Samples samples;
    Repeats repeats = run.repeats(50, 0.03);
    while (repeats.next() && !(run.is_over() && !samples.empty())) {
      samples.add(device_ns(stream, start, end, read));
    }
    // The first units of the crowd hold one handle each.
    const std::uint64_t mappings = window == &one ? 1 : bytes / kGranule;
    const std::uint64_t handles = std::min<std::uint64_t>(crowd.handles.size(), mappings);
    run.out.result("read_many_mappings", {{"bytes", bytes}, {"handles", handles}, {"mappings", mappings}},
                   "ns", samples);
  }
}

void many_mappings(const Run& run) {
  const std::size_t handles = run.quick() ? 6 : 300;
  const std::size_t mappings = run.quick() ? 48 : 10'000;
  require_room(run, handles * kGranule);
  Crowd crowd(run, handles, mappings);
  const std::size_t mapped = map_crowd(run, crowd);
  check_crowd(run, crowd, mapped);
  run.part("read_many_mappings", [&] { time_crowd(run, crowd, mapped); });
}

/// Time of kernels over memory that is mapped once, and over memory that is mapped twice.
class SpeedTest {
 public:
  SpeedTest(const Run& run, std::size_t handles)
      : run_(run),
        units_(handles),
        plain_(run.gpu, handles, kGranule),
        alias_(run.gpu, handles, kGranule),
        out_(sizeof(Word)) {
    for (std::size_t i = 0; i < handles; ++i) {
      handles_.emplace_back(run.gpu, kGranule);
      plain_.map(i, handles_.back());
    }
    plain_.set_access(0, handles);
  }

  void measure() {
    time_kernels(plain_, "only");
    std::vector<std::size_t> order(units_);
    for (std::size_t i = 0; i < units_; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), std::mt19937(2));
    for (std::size_t i = 0; i < units_; ++i) alias_.map(i, handles_[order[i]]);
    alias_.set_access(0, units_);
    time_kernels(plain_, "first of two");
    time_kernels(alias_, "second of two, shuffled");
  }

 private:
  void time_kernels(const Window& window, const char* mapping) {
    const Word words = units_ * kUnitWords;
    const Kernels& kernels = run_.gpu.kernels();
    const Launch reading{stream_.get(), run_.gpu.full_grid(kernels.read_pairs.function(), kThreads),
                         kThreads};
    const Launch writing{stream_.get(), run_.gpu.full_grid(kernels.write_words.function(), kThreads),
                         kThreads};
    const auto time_reading = [&] {
      return device_ns(stream_, start_, end_, [&] {
        kernels.read_pairs(reading, window.pointer<Word>(), words / 2, out_.pointer<Word>());
      });
    };
    const auto time_writing = [&] {
      return device_ns(stream_, start_, end_,
                       [&] { kernels.write_words(writing, window.pointer<Word>(), words, 1); });
    };
    run_.warm_up([&] {
      (void)time_reading();
      (void)time_writing();
    });
    Samples read, write;
    Repeats repeats = run_.repeats(50, 0.05);
    while (repeats.next() && !(run_.is_over() && !read.empty())) {
      read.add(time_reading());
      write.add(time_writing());
    }
    const Fields params = {{"bytes", words * sizeof(Word)}, {"mapping", mapping}};
    run_.out.result("read_kernel", params, "ns", read);
    run_.out.result("write_kernel", params, "ns", write);
  }

  const Run& run_;
  std::size_t units_;
  std::vector<Handle> handles_;
  Window plain_, alias_;
  DeviceBuffer out_;
  Stream stream_;
  Event start_, end_;
};

void speed_of_kernels(const Run& run) {
  const std::size_t handles = run.quick() ? 4 : 256;
  require_room(run, handles * kGranule);
  SpeedTest(run, handles).measure();
}

}  // namespace

void run_aliasing(const Run& run) {
  run.part("many_mappings", [&] { many_mappings(run); });
  run.part("wrong_words", [&] { check_coherence(run, kGranule); });
  run.part("speed_of_kernels", [&] { speed_of_kernels(run); });
  if (!run.quick()) run.part("wrong_words", [&] { check_coherence(run, 64 * kMiB); });
}

}  // namespace tidepool::probe
