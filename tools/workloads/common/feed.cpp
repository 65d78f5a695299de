#include "tools/workloads/common/feed.h"

#include <utility>

#include "tools/workloads/common/check.h"

namespace workload {

Feed::Feed(Memory& memory, Lanes& lanes, std::vector<std::size_t> part_bytes, int batches, int steps,
           const Make& make)
    : lanes_(lanes), part_bytes_(std::move(part_bytes)), batches_(batches), steps_(steps) {
  for (std::size_t part = 0; part < part_bytes_.size(); ++part) {
    const std::size_t bytes = part_bytes_[part];
    void* pinned = nullptr;
    TP_CUDA(cudaMallocHost(&pinned, bytes * static_cast<std::size_t>(batches)));
    host_.push_back(static_cast<unsigned char*>(pinned));
    for (int b = 0; b < batches; ++b) make(b, part, host_.back() + bytes * static_cast<std::size_t>(b));
  }
  for (Slot& slot : slots_) {
    for (const std::size_t bytes : part_bytes_) slot.parts.emplace_back(memory, bytes);
    TP_CUDA(cudaEventCreateWithFlags(&slot.filled, cudaEventDisableTiming));
    TP_CUDA(cudaEventCreateWithFlags(&slot.used, cudaEventDisableTiming));
    // The memory is for work after this point of the main stream: the first copy waits for it.
    TP_CUDA(cudaEventRecord(slot.used, lanes_.main()));
  }
  if (steps_ > 0) fill(0);
}

Feed::~Feed() {
  for (const Slot& slot : slots_) {
    TP_CUDA(cudaEventDestroy(slot.filled));
    TP_CUDA(cudaEventDestroy(slot.used));
  }
  for (unsigned char* pinned : host_) TP_CUDA(cudaFreeHost(pinned));
}

void Feed::begin(int step) {
  if (step + 1 < steps_) fill(step + 1);
  TP_CUDA(cudaStreamWaitEvent(lanes_.main(), slots_[step % 2].filled, 0));
}

void Feed::end(int step) {
  TP_CUDA(cudaEventRecord(slots_[step % 2].used, lanes_.main()));
}

void Feed::fill(int step) {
  Slot& slot = slots_[step % 2];
  const auto batch = static_cast<std::size_t>(step % batches_);
  TP_CUDA(cudaStreamWaitEvent(lanes_.copies(), slot.used, 0));
  for (std::size_t part = 0; part < part_bytes_.size(); ++part) {
    const std::size_t bytes = part_bytes_[part];
    TP_CUDA(cudaMemcpyAsync(slot.parts[part].get(), host_[part] + batch * bytes, bytes,
                            cudaMemcpyHostToDevice, lanes_.copies()));
  }
  TP_CUDA(cudaEventRecord(slot.filled, lanes_.copies()));
}

}  // namespace workload
