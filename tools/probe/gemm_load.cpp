#include "tools/probe/gemm_load.h"

#include <exception>
#include <stdexcept>

namespace tidepool::probe {
namespace {

constexpr unsigned kLargestSide = 2048;

}  // namespace

GemmLoad::GemmLoad(const Run& run) : run_(run) {
  constexpr double kLongEnoughNs = 300e3;
  const std::uint64_t largest = run.quick() ? 64 : kLargestSide;
  matrices_ = std::make_unique<DeviceBuffer>(3 * largest * largest * sizeof(float));
  for (std::size_t i = 0; i < kRing; ++i) ring_.push_back(std::make_unique<Event>());
  for (side_ = run.quick() ? 64 : 256; side_ < largest; side_ *= 2) {
    launch();
    stream_.synchronize();  // the first one loads the kernel
    if (time_ns([&] {
          launch();
          stream_.synchronize();
        }) > kLongEnoughNs) {
      break;
    }
  }
}

GemmLoad::~GemmLoad() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  (void)cu().cuStreamSynchronize(stream_.get());
}

void GemmLoad::launch() const {
  const std::size_t elements = std::size_t{side_} * side_;
  auto* base = matrices_->pointer<float>();
  const Launch how{stream_.get(), side_ / Gemm::kTile, Gemm::kTile, side_ / Gemm::kTile, Gemm::kTile};
  run_.gpu.kernels().gemm(how, base, base + elements, base + 2 * elements, side_);
}

void GemmLoad::start() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();  // whoever started it before failed
  stop_ = false;
  failure_.clear();
  periods_ = Samples();
  launches_ = Samples();
  thread_ = std::thread([this] {
    try {
      work();
    } catch (const std::exception& failure) {
      failure_ = failure.what();
    }
  });
}

void GemmLoad::stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  if (!failure_.empty()) throw std::runtime_error(failure_);
}

/// Waits for the start of a product and adds the time since the one before.
void GemmLoad::take(std::size_t product) {
  const Event& event = *ring_[product % kRing];
  TP_CU(cuEventSynchronize, event.get());
  if (product > 0) periods_.add(event.ns_since(*ring_[(product - 1) % kRing]));
}

void GemmLoad::work() {
  TP_CU(cuCtxSetCurrent, run_.gpu.context());
  std::size_t enqueued = 0;
  std::size_t taken = 0;
  while (!stop_ || enqueued < 2) {
    ring_[enqueued % kRing]->record(stream_);
    launches_.add(time_ns([&] { launch(); }));
    ++enqueued;
    if (enqueued - taken > kAhead) take(taken++);
  }
  while (taken < enqueued) take(taken++);
  stream_.synchronize();
}

}  // namespace tidepool::probe
