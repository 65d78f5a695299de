#include <cstring>
#include <vector>

#include "tools/probe/memory.h"
#include "tools/probe/rates.h"
#include "tools/probe/run.h"

/// How fast the host's memory is pinned and copied.
namespace tidepool::probe {
namespace {

/// Registers memory as the pinned arena would: anonymous, not inherited by children.
void registration(const Run& run, std::uint64_t bytes, bool touched, bool huge) {
  const double mib = static_cast<double>(bytes) / static_cast<double>(kMiB);
  const Fields params = {{"bytes", bytes}, {"touched_before", touched}, {"huge_pages", huge}};
  Samples take, touch, enroll, leave;
  Repeats repeats = run.repeats(10, 0.01);
  while (repeats.next()) {
    void* base = nullptr;
    take.add(time_ns([&] { base = map_host(bytes, huge); }) / mib);
    if (base == nullptr) return run.out.skipped("register", "mmap or madvise failed");
    if (touched) touch.add(time_ns([&] { std::memset(base, 1, bytes); }) / mib);
    CUresult result = CUDA_SUCCESS;
    enroll.add(
        time_ns([&] { result = cu().cuMemHostRegister_v2(base, bytes, CU_MEMHOSTREGISTER_PORTABLE); }) / mib);
    if (result == CUDA_SUCCESS) {
      leave.add(time_ns([&] { result = cu().cuMemHostUnregister(base); }) / mib);
    }
    unmap_host(base, bytes);
    if (result != CUDA_SUCCESS) throw DriverError("cuMemHostRegister_v2", result);
  }
  run.out.result("mmap_and_madvise", params, "ns/MiB", take);
  if (touched) run.out.result("first_touch", params, "ns/MiB", touch);
  run.out.result("register", params, "ns/MiB", enroll);
  run.out.result("unregister", params, "ns/MiB", leave);
}

void registrations(const Run& run) {
  const std::vector<std::uint64_t> sizes =
      run.quick() ? std::vector<std::uint64_t>{2 * kMiB}
                  : std::vector<std::uint64_t>{2 * kMiB, 8 * kMiB, 32 * kMiB, 128 * kMiB, 512 * kMiB};
  for (const std::uint64_t bytes : sizes) {
    for (const bool touched : {false, true}) {
      for (const bool huge : {false, true}) {
        run.part("register", [&] { registration(run, bytes, touched, huge); });
      }
    }
  }
}

/// Copies pieces of one size back to back, from and to a ring of pinned memory.
class CopyRate {
 public:
  CopyRate(const Run& run, std::uint64_t ring_bytes)
      : run_(run), ring_(ring_bytes), up_(ring_bytes), down_(ring_bytes), device_(2 * ring_bytes) {
    std::memset(up_.pointer(), 1, ring_bytes);
    std::memset(down_.pointer(), 1, ring_bytes);
  }

  void measure(std::uint64_t piece) {
    for (const char* direction : {"to device", "to host", "both"}) {
      const bool to_device = std::strcmp(direction, "to host") != 0;
      const bool to_host = std::strcmp(direction, "to device") != 0;
      const std::uint64_t total = run_.quick() ? 2 * ring_ : 8 * ring_;
      Samples rate;
      Repeats repeats = run_.repeats(10, 0.02);
      while (repeats.next()) {
        const double ns = time_ns([&] { copy(piece, total, to_device, to_host); });
        rate.add(static_cast<double>(to_device && to_host ? 2 * total : total) / ns * 1e9);
      }
      run_.out.result("copy", {{"piece_bytes", piece}, {"direction", direction}, {"total_bytes", total}},
                      "B/s", rate);
    }
  }

 private:
  void copy(std::uint64_t piece, std::uint64_t total, bool to_device, bool to_host) const {
    for (std::uint64_t done = 0; done < total; done += piece) {
      const std::uint64_t at = done % ring_;
      if (to_device) {
        TP_CU(cuMemcpyHtoDAsync_v2, device_.at() + at, static_cast<const void*>(up_.pointer<char>() + at),
              piece, upward_.get());
      }
      if (to_host) {
        TP_CU(cuMemcpyDtoHAsync_v2, static_cast<void*>(down_.pointer<char>() + at), device_.at() + ring_ + at,
              piece, downward_.get());
      }
    }
    upward_.synchronize();
    downward_.synchronize();
  }

  const Run& run_;
  std::uint64_t ring_;
  PinnedBuffer up_, down_;
  DeviceBuffer device_;
  Stream upward_, downward_;
};

void copies(const Run& run) {
  const std::uint64_t ring = run.quick() ? 2 * kMiB : 64 * kMiB;
  CopyRate rate(run, ring);
  for (const std::uint64_t piece : {kMiB / 4, kMiB, 2 * kMiB, 8 * kMiB, 32 * kMiB}) {
    if (piece <= ring) rate.measure(piece);
  }
  if (ring < 32 * kMiB) run.out.skipped("copy", "pieces of more than 2 MiB take too long for --quick");
}

}  // namespace

void run_rates(const Run& run) {
  run.part("hash", [&] { measure_hash(run); });
  run.part("copy", [&] { copies(run); });
  registrations(run);
}

}  // namespace tidepool::probe
