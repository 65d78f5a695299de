#include "tools/workloads/common/lanes.h"

#include "tools/workloads/common/check.h"

namespace workload {

Lanes::Lanes(int streams) {
  constexpr std::size_t kMainAndCopies = 2;
  for (int i = 0; i < streams; ++i) {
    cudaStream_t stream = nullptr;
    TP_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    streams_.push_back(stream);
  }
  for (std::size_t i = kMainAndCopies; i < streams_.size(); ++i) {
    Side side{streams_[i], nullptr, nullptr};
    TP_CUDA(cudaEventCreateWithFlags(&side.forked, cudaEventDisableTiming));
    TP_CUDA(cudaEventCreateWithFlags(&side.done, cudaEventDisableTiming));
    sides_.push_back(side);
  }
}

Lanes::~Lanes() {
  for (const Side& side : sides_) {
    TP_CUDA(cudaEventDestroy(side.forked));
    TP_CUDA(cudaEventDestroy(side.done));
  }
  for (const cudaStream_t stream : streams_) TP_CUDA(cudaStreamDestroy(stream));
}

cudaStream_t Lanes::side(std::size_t i) const {
  return sides_.empty() ? main() : sides_[i % sides_.size()].stream;
}

cudaStream_t Lanes::fork(std::size_t i) {
  if (sides_.empty()) return main();
  const Side& side = sides_[i % sides_.size()];
  TP_CUDA(cudaEventRecord(side.forked, main()));
  TP_CUDA(cudaStreamWaitEvent(side.stream, side.forked, 0));
  return side.stream;
}

void Lanes::join(std::size_t i) {
  if (sides_.empty()) return;
  const Side& side = sides_[i % sides_.size()];
  TP_CUDA(cudaEventRecord(side.done, side.stream));
  TP_CUDA(cudaStreamWaitEvent(main(), side.done, 0));
}

void Lanes::fork_all() {
  for (std::size_t i = 0; i < sides_.size(); ++i) fork(i);
}

void Lanes::join_all() {
  for (std::size_t i = 0; i < sides_.size(); ++i) join(i);
}

void Lanes::wait() const {
  TP_CUDA(cudaStreamSynchronize(main()));
}

}  // namespace workload
