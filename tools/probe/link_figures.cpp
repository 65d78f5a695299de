#include "tools/probe/link_figures.h"

#include <algorithm>
#include <cmath>

#include "tools/probe/copy_rate.h"
#include "tools/probe/memory.h"
#include "tools/probe/rates.h"
#include "tools/probe/vmm_calls.h"

namespace tidepool::probe {
namespace {

constexpr std::uint64_t kRing = 64 * kMiB;
constexpr std::uint64_t kPieces[] = {kMiB / 4, kMiB, 2 * kMiB, 8 * kMiB, 32 * kMiB};
constexpr std::uint64_t kHandles[] = {2 * kMiB, 8 * kMiB, 32 * kMiB, 128 * kMiB};
constexpr std::size_t kSweep = 16;  // mappings under one call

std::string size_text(std::uint64_t bytes) {
  return bytes < kMiB ? std::to_string(bytes / 1024) + " KiB" : std::to_string(bytes / kMiB) + " MiB";
}

std::int64_t whole(double value) {
  return std::max<std::int64_t>(0, std::llround(value));
}

class Measurement {
 public:
  explicit Measurement(const Run& run) : run_(run) {}

  LinkFigures take() {
    facts();
    copies(HostSide::kPinned, "copy, pinned");
    copies(HostSide::kPageable, "copy, pageable");
    device_rates();
    kernel_gap();
    calls();
    mapping();
    registration();
    return std::move(figures_);
  }

 private:
  using Profile = DeviceProfile;

  /// Notes the median of a figure, in the table and in the records.
  double note(const char* group, const std::string& what, const char* unit, const Samples& samples) {
    run_.out.result(group, {{"what", what}}, unit, samples);
    figures_.rows.push_back({group, what, samples.median(), unit});
    return samples.median();
  }
  // Simulated time is the same every time, and simulated copies cost this computer real ones.
  [[nodiscard]] Repeats few() const { return run_.gpu.is_simulated() ? once() : run_.repeats(10, 0.02); }
  [[nodiscard]] Repeats many() const { return run_.gpu.is_simulated() ? once() : run_.repeats(100, 0.02); }
  static Repeats once() { return {1, 1, 0}; }

  void facts() {
    Profile& p = figures_.profile;
    p.memory_bytes = static_cast<std::int64_t>(run_.gpu.total_bytes());
    p.compute_major = run_.gpu.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    p.compute_minor = run_.gpu.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    p.compute_multiprocessors = run_.gpu.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    p.link_copy_engines = std::max(1, run_.gpu.attribute(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT));
    // CUDA C++ Programming Guide, "Compute Capabilities": results of 32-bit floating-point add, multiply and
    // multiply-add for each clock cycle and multiprocessor.
    const bool wide =
        p.compute_major > 9 || p.compute_major == 9 || (p.compute_major == 8 && p.compute_minor > 0);
    const double lanes = wide ? 128 : 64;
    const double clock = run_.gpu.attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE) * 1e3;
    p.compute_fp32_flops = std::max(1e6, 2 * lanes * clock * static_cast<double>(p.compute_multiprocessors));
    for (const Field& field : run_.gpu.facts()) {
      if (field.name == "device") p.name = std::get<std::string>(field.value);
    }
  }

  void copies(HostSide side, const char* group) {
    require_room(run_, 2 * kRing);
    const CopyRate rate(run_, kRing, side);
    const std::uint64_t total = (run_.gpu.is_simulated() ? 2 : 8) * kRing;
    Profile& p = figures_.profile;
    for (const std::uint64_t piece : kPieces) {
      double rates[3] = {};
      for (const Direction direction : kDirections) {
        const Samples samples = rate.measure(piece, total, direction, few());
        rates[static_cast<int>(direction)] =
            note(group, std::string(name_of(direction)) + ", pieces of " + size_text(piece), "B/s", samples);
      }
      if (side == HostSide::kPageable) continue;
      // The largest pieces come last.
      p.link_h2d_bytes_per_second = rates[0];
      p.link_d2h_bytes_per_second = rates[1];
      // Of the pieces in which blocks move; larger ones start too far apart in so short a time.
      constexpr std::uint64_t kMoved = 8 * kMiB;
      if (piece == kMoved) p.link_duplex = std::clamp(rates[2] / (rates[0] + rates[1]), 0.5, 1.0);
    }
    if (side == HostSide::kPageable) return;
    constexpr std::uint64_t kSmall = 4096;
    const double each =
        note(group, "to device, one of many copies of 4 KiB", "ns", rate.one_of_many(kSmall, few()));
    p.link_latency_ns = whole(each - static_cast<double>(kSmall) / p.link_h2d_bytes_per_second * 1e9);
  }

  /// What does not grow with the memory cancels in the difference of two sizes.
  static Samples without_fixed_part(const Samples& all, const Samples& half, std::uint64_t bytes) {
    Samples rate;
    const double n = static_cast<double>(bytes);
    rate.add(n / 2 / (n / all.median() - n / 2 / half.median()));
    return rate;
  }

  void device_rates() {
    const std::uint64_t most = run_.gpu.is_simulated() ? 128 * kMiB : 1024 * kMiB;
    const std::uint64_t bytes = std::min(most, run_.gpu.allowance() / 4 / kGranule * kGranule);
    require_room(run_, 8 * kGranule);
    const DeviceRates all = measure_device_rates(run_, bytes, few());
    const DeviceRates half = measure_device_rates(run_, bytes / 2, few());
    figures_.profile.memory_bytes_per_second =
        note("device", "reading", "B/s", without_fixed_part(all.read, half.read, bytes));
    note("device", "copying, read and written", "B/s", without_fixed_part(all.copied, half.copied, bytes));
    note("device", "hashing, 128 bits", "B/s", without_fixed_part(all.hashed, half.hashed, bytes));
  }

  /// The time of one call among `count` in a row.
  template <class F>
  Samples each_of(int count, F&& call) const {
    Samples each;
    Repeats repeats = few();
    while (repeats.next()) {
      each.add(run_.time_ns([&] {
        for (int i = 0; i < count; ++i) call();
      }) / count);
    }
    return each;
  }

  void calls() {
    Profile& p = figures_.profile;
    const Stream stream;
    const Event event;
    const PinnedBuffer host(kRing);
    const DeviceBuffer device(kRing);
    const Kernel<void()>& empty = run_.gpu.kernels().empty;
    constexpr int kMany = 64;
    p.cost_host_call_ns =
        whole(note("call", "record an event", "ns", each_of(kMany, [&] { event.record(stream); })));
    stream.synchronize();
    p.cost_host_launch_ns =
        whole(note("call", "launch", "ns", each_of(kMany, [&] { empty({stream.get()}); })));
    stream.synchronize();
    p.cost_host_copy_ns =
        whole(note("call", "queue a copy", "ns", each_of(kMany, [&] {
                     TP_CU(cuMemcpyHtoDAsync_v2, device.at(), static_cast<const void*>(host.pointer()),
                           std::size_t{4096}, stream.get());
                   })));
    stream.synchronize();
    p.cost_host_sync_ns = whole(
        note("call", "wait for a stream without work", "ns", each_of(kMany, [&] { stream.synchronize(); })));
    allocation();
  }

  /// Empty kernels behind a copy, so that all are queued when the first one starts.
  void kernel_gap() {
    const Stream stream;
    const PinnedBuffer host(kRing);
    const DeviceBuffer device(kRing);
    constexpr int kKernels = 16;
    const Event start, end;
    Samples gap;
    Repeats repeats = few();
    while (repeats.next()) {
      TP_CU(cuMemcpyHtoDAsync_v2, device.at(), static_cast<const void*>(host.pointer()), kRing, stream.get());
      start.record(stream);
      for (int i = 0; i < kKernels; ++i) run_.gpu.kernels().empty({stream.get()});
      end.record(stream);
      stream.synchronize();
      gap.add(end.ns_since(start) / kKernels);
    }
    figures_.profile.cost_launch_ns = whole(note("device", "one of many empty kernels", "ns", gap));
  }

  void allocation() {
    Samples allocate, release, reserve;
    Repeats repeats = many();
    while (repeats.next()) {
      CUdeviceptr at = 0;
      allocate.add(run_.time_ns([&] { TP_CU(cuMemAlloc_v2, &at, std::size_t{kGranule}); }));
      release.add(run_.time_ns([&] { TP_CU(cuMemFree_v2, at); }));
      reserve.add(run_.time_ns([&] { TP_CU(cuMemAddressReserve, &at, std::size_t{kGranule}, 0U, 0U, 0U); }));
      TP_CU(cuMemAddressFree, at, std::size_t{kGranule});
    }
    Profile& p = figures_.profile;
    p.cost_malloc_ns = whole(note("call", "cuMemAlloc of 2 MiB", "ns", allocate));
    p.cost_free_ns = whole(note("call", "cuMemFree of 2 MiB", "ns", release));
    p.vmm_reserve_ns = whole(note("call", "reserve addresses", "ns", reserve));
  }

  /// What grows with the size, and what does not, from the smallest and the largest handle.
  static void fit(double small, double large, std::int64_t* fixed, std::int64_t* per_mib) {
    constexpr double kSmall = static_cast<double>(kHandles[0]) / kMiB;
    constexpr double kLarge = static_cast<double>(kHandles[std::size(kHandles) - 1]) / kMiB;
    const double slope = std::max(0.0, (large - small) / (kLarge - kSmall));
    *per_mib = whole(slope);
    *fixed = whole(small - kSmall * static_cast<double>(*per_mib));
  }

  /// Parts `fixed`, what a call over one mapping costs but for its size, into what each further mapping adds
  /// and the rest. `swept`: over kSweep mappings of the smallest size.
  static void part(double one, double swept, std::int64_t per_mib, std::int64_t* fixed,
                   std::int64_t* per_mapping) {
    const double each =
        (swept - one) / (kSweep - 1) - static_cast<double>(kHandles[0]) / kMiB * static_cast<double>(per_mib);
    *per_mapping = std::min(whole(each), *fixed);
    *fixed -= *per_mapping;
  }

  void mapping() {
    constexpr std::size_t kSizes = std::size(kHandles);
    double create[kSizes], access[kSizes], unmap[kSizes], release[kSizes];
    Profile& p = figures_.profile;
    for (std::size_t i = 0; i < kSizes; ++i) {
      require_room(run_, kHandles[i]);
      const std::string size = "handles of " + size_text(kHandles[i]) + ": ";
      const CallCosts costs = measure_calls(run_, kHandles[i], many());
      create[i] = note("mapping", size + "create", "ns", costs.create);
      const double map = note("mapping", size + "map", "ns", costs.map);
      access[i] = note("mapping", size + "set access", "ns", costs.set_access);
      unmap[i] = note("mapping", size + "unmap", "ns", costs.unmap);
      release[i] = note("mapping", size + "release", "ns", costs.release);
      if (i == 0) p.vmm_map_ns = whole(map);
    }
    fit(create[0], create[kSizes - 1], &p.vmm_create_ns, &p.vmm_create_ns_per_mib);
    fit(access[0], access[kSizes - 1], &p.vmm_set_access_ns, &p.vmm_set_access_ns_per_mib);
    fit(unmap[0], unmap[kSizes - 1], &p.vmm_unmap_ns, &p.vmm_unmap_ns_per_mib);
    fit(release[0], release[kSizes - 1], &p.vmm_release_ns, &p.vmm_release_ns_per_mib);
    const SweepCosts swept = measure_sweep(run_, kSweep, many());
    const std::string what = std::to_string(kSweep) + " handles of " + size_text(kHandles[0]) + " at once: ";
    part(access[0], note("mapping", what + "set access", "ns", swept.set_access), p.vmm_set_access_ns_per_mib,
         &p.vmm_set_access_ns, &p.vmm_set_access_ns_per_mapping);
    part(unmap[0], note("mapping", what + "unmap", "ns", swept.unmap), p.vmm_unmap_ns_per_mib,
         &p.vmm_unmap_ns, &p.vmm_unmap_ns_per_mapping);
  }

  void registration() {
    constexpr double kMiBs = static_cast<double>(kRing) / static_cast<double>(kMiB);
    Samples per_mib;
    Repeats repeats = few();
    while (repeats.next()) {
      void* base = map_host(kRing, true);  // as the host tier does
      if (base == nullptr) throw std::runtime_error("mmap or madvise failed");
      CUresult result = CUDA_SUCCESS;
      per_mib.add(run_.time_ns([&] {
        result = cu().cuMemHostRegister_v2(base, kRing, CU_MEMHOSTREGISTER_PORTABLE);
      }) / kMiBs);
      if (result == CUDA_SUCCESS) static_cast<void>(cu().cuMemHostUnregister(base));
      unmap_host(base, kRing);
      if (result != CUDA_SUCCESS) throw DriverError("cuMemHostRegister_v2", result);
    }
    figures_.profile.cost_host_alloc_ns_per_mib = whole(note("host", "register memory", "ns/MiB", per_mib));
  }

  const Run& run_;
  LinkFigures figures_;
};

}  // namespace

LinkFigures measure_link(const Run& run) {
  if (!run.gpu.is_simulated()) return Measurement(run).take();
  const DeviceClock clock;
  Run simulated = run;
  simulated.device_clock = &clock;
  return Measurement(simulated).take();
}

}  // namespace tidepool::probe
