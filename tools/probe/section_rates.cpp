#include <cstring>
#include <vector>

#include "tools/probe/copy_rate.h"
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

void copies(const Run& run) {
  const std::uint64_t ring = run.quick() ? 2 * kMiB : 64 * kMiB;
  const CopyRate rate(run, ring, HostSide::kPinned);
  const std::uint64_t total = run.quick() ? 2 * ring : 8 * ring;
  for (const std::uint64_t piece : {kMiB / 4, kMiB, 2 * kMiB, 8 * kMiB, 32 * kMiB}) {
    if (piece > ring) continue;
    for (const Direction direction : kDirections) {
      const Samples samples = rate.measure(piece, total, direction, run.repeats(10, 0.02));
      run.out.result("copy",
                     {{"piece_bytes", piece}, {"direction", name_of(direction)}, {"total_bytes", total}},
                     "B/s", samples);
    }
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
