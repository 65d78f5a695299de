#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

namespace workload {

/// The streams of one replica. The first does the work; the second, if there is one, copies batches to the
/// device; further ones do work that does not depend on what the first does meanwhile. All of them are
/// non-blocking streams, and none waits for another but by fork(), join() and the events of Feed. For one
/// thread.
class Lanes {
 public:
  /// `streams` from 1.
  explicit Lanes(int streams);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  [[nodiscard]] cudaStream_t main() const { return streams_.front(); }
  [[nodiscard]] cudaStream_t copies() const { return streams_.size() > 1 ? streams_[1] : main(); }

  /// How many streams there are for side work.
  [[nodiscard]] std::size_t sides() const { return sides_.size(); }

  /// The stream for piece i of side work (main() if there are no others), after it was made to wait for what
  /// is in main() now.
  cudaStream_t fork(std::size_t i);

  /// Makes main() wait for what is in the stream of piece i now.
  void join(std::size_t i);

  /// The same for all side streams at once. Between the two, side(i) is the stream for piece i.
  void fork_all();
  void join_all();
  [[nodiscard]] cudaStream_t side(std::size_t i) const;

  /// Waits until main() is done.
  void wait() const;

 private:
  struct Side {
    cudaStream_t stream;
    cudaEvent_t forked;
    cudaEvent_t done;
  };

  std::vector<cudaStream_t> streams_;
  std::vector<Side> sides_;
};

}  // namespace workload
