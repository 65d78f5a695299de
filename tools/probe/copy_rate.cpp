#include "tools/probe/copy_rate.h"

#include <cstring>
#include <stdexcept>

namespace tidepool::probe {

const char* name_of(Direction direction) {
  switch (direction) {
    case Direction::kToDevice:
      return "to device";
    case Direction::kToHost:
      return "to host";
    case Direction::kBoth:
      break;
  }
  return "both";
}

CopyRate::Ring::Ring(std::uint64_t size, HostSide side)
    : base(static_cast<char*>(map_host(size))), bytes(size), pinned(side == HostSide::kPinned) {
  if (base == nullptr) throw std::runtime_error("mmap or madvise failed");
  std::memset(base, 1, bytes);
  if (!pinned) return;
  const CUresult result = cu().cuMemHostRegister_v2(base, bytes, CU_MEMHOSTREGISTER_PORTABLE);
  if (result == CUDA_SUCCESS) return;
  unmap_host(base, bytes);
  throw DriverError("cuMemHostRegister_v2", result);
}

CopyRate::Ring::~Ring() {
  if (pinned) static_cast<void>(cu().cuMemHostUnregister(base));
  unmap_host(base, bytes);
}

CopyRate::CopyRate(const Run& run, std::uint64_t ring_bytes, HostSide side)
    : run_(run), ring_(ring_bytes), up_(ring_bytes, side), down_(ring_bytes, side), device_(2 * ring_bytes) {}

Samples CopyRate::measure(std::uint64_t piece, std::uint64_t total, Direction direction,
                          Repeats repeats) const {
  Samples rate;
  while (repeats.next()) {
    const double ns = run_.time_ns([&] { copy(piece, total, direction); });
    rate.add(static_cast<double>(direction == Direction::kBoth ? 2 * total : total) / ns * 1e9);
  }
  return rate;
}

// A copy of the whole ring goes ahead, so that the host has queued all others when the first one starts.
Samples CopyRate::one_of_many(std::uint64_t bytes, Repeats repeats) const {
  constexpr int kMany = 16;
  const Event start, end;
  Samples each;
  while (repeats.next()) {
    TP_CU(cuMemcpyHtoDAsync_v2, device_.at(), static_cast<const void*>(up_.base), ring_, upward_.get());
    start.record(upward_);
    for (int i = 0; i < kMany; ++i) {
      TP_CU(cuMemcpyHtoDAsync_v2, device_.at(), static_cast<const void*>(up_.base), bytes, upward_.get());
    }
    end.record(upward_);
    upward_.synchronize();
    each.add(end.ns_since(start) / kMany);
  }
  return each;
}

void CopyRate::copy(std::uint64_t piece, std::uint64_t total, Direction direction) const {
  for (std::uint64_t done = 0; done < total; done += piece) {
    const std::uint64_t at = done % ring_;
    if (direction != Direction::kToHost) {
      TP_CU(cuMemcpyHtoDAsync_v2, device_.at() + at, static_cast<const void*>(up_.base + at), piece,
            upward_.get());
    }
    if (direction != Direction::kToDevice) {
      TP_CU(cuMemcpyDtoHAsync_v2, static_cast<void*>(down_.base + at), device_.at() + ring_ + at, piece,
            downward_.get());
    }
  }
  upward_.synchronize();
  downward_.synchronize();
}

}  // namespace tidepool::probe
