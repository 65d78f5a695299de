// A stream waits for a value that another stream writes later, after work which needs memory that the first
// one is still to use, or has freed. All is enqueued before anything can run, and nothing waits for the host.
// Prints sums.
//
//   awaited_values_job value|batch|device|used|free|free_forbidden|free_plain

#include <cuda.h>
#include <cuda_runtime.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "simgpu/kernel.h"
#include "tests/sim/job.h"

namespace {

using Word = unsigned;
constexpr std::size_t kBytes = std::size_t{3} << 20;
constexpr std::size_t kWords = kBytes / sizeof(Word);
constexpr unsigned kThreads = 64;
constexpr std::size_t kOthers = 12;
constexpr Word kRounds = 4;

/// data[i] = data[i] * 3 + number
struct Step {
  template <class C>
  SIMGPU_HD static void run(C& c, Word* data, Word number) {
    c.reads(data, kBytes);
    c.writes(data, kBytes);
    c.phase([&](unsigned tid) {
      for (std::size_t i = c.global_x(tid); i < kWords; i += kThreads) data[i] = data[i] * 3 + number;
    });
  }
};
SIMGPU_KERNEL(step, Step, (Word * data, Word number), data, number)

/// sum[0] = sum[0] * 5 + the sum of all data
struct Sum {
  template <class C>
  SIMGPU_HD static void run(C& c, const Word* data, Word* sum) {
    c.reads(data, kBytes);
    c.reads(sum, sizeof(Word));
    c.writes(sum, sizeof(Word));
    c.phase([&](unsigned tid) {
      if (tid != 0) return;
      Word all = 0;
      for (std::size_t i = 0; i < kWords; ++i) all += data[i];
      sum[0] = sum[0] * 5 + all;
    });
  }
};
SIMGPU_KERNEL(add_up, Sum, (const Word* data, Word* sum), data, sum)

CUdeviceptr address_of(const void* at) {
  return reinterpret_cast<CUdeviceptr>(at);
}

class Job {
 public:
  explicit Job(std::string_view way) : way_(way) {
    OK(cudaStreamCreateWithFlags(&waiting_, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&working_, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&used_, cudaEventDisableTiming));
    OK(cudaMalloc(&both_, kBytes));
    OK(cudaMalloc(&sums_, 2 * sizeof(Word)));
    OK(cudaMemset(both_, 5, kBytes));
    OK(cudaMemset(sums_, 0, 2 * sizeof(Word)));
    for (Word*& block : others_) {
      OK(cudaMalloc(&block, kBytes));
      OK(cudaMemset(block, 1, kBytes));
    }
    if (way == "device") {
      OK(cudaMalloc(&value_, kBytes));
      OK(cudaMemset(value_, 0, kBytes));
    } else {
      OK(cudaHostAlloc(&value_, sizeof(Word), 0));
      *value_ = 0;
    }
    if (way == "free_forbidden" || way == "free_plain") forbid_dependencies();
    OK(cudaDeviceSynchronize());
  }

  void round(Word number) {
    if (way_ == "used") use_before(number);
    if (way_ == "value" || way_ == "used" || way_ == "batch" || way_ == "device") {
      wait(number);
      add_up<<<1, kThreads, 0, waiting_>>>(both_, sums_);
      work(number);
      add_up<<<1, kThreads, 0, working_>>>(both_, sums_ + 1);
      write(number);
    } else {
      free_and_allocate(number);
    }
    OK(cudaGetLastError());
  }

  void print() {
    OK(cudaDeviceSynchronize());
    std::array<Word, 2> sums{};
    OK(cudaMemcpy(sums.data(), sums_, sizeof sums, cudaMemcpyDeviceToHost));
    std::vector<Word> data(kWords);
    Word all = 0;
    for (const Word* block : others_) {
      OK(cudaMemcpy(data.data(), block, kBytes, cudaMemcpyDeviceToHost));
      for (const Word word : data) all = all * 7 + word;
    }
    std::printf("%08x %08x %08x\n", sums[0], sums[1], all);
  }

 private:
  void wait(Word number) {
    if (way_ != "batch") {
      OK(cuStreamWaitValue32(waiting_, address_of(value_), number, CU_STREAM_WAIT_VALUE_GEQ));
      return;
    }
    CUstreamBatchMemOpParams one{};
    one.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    one.waitValue.address = address_of(value_);
    one.waitValue.value = number;
    one.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
    OK(cuStreamBatchMemOp(waiting_, 1, &one, 0));
  }
  void write(Word number) { OK(cuStreamWriteValue32(working_, address_of(value_), number, 0)); }
  void work(Word number) {
    for (Word* block : others_) step<<<1, kThreads, 0, working_>>>(block, number);
  }
  /// The stream that is going to wait has used all that the other one will.
  void use_before(Word number) {
    for (Word* block : others_) step<<<1, kThreads, 0, waiting_>>>(block, number);
    OK(cudaEventRecord(used_, waiting_));
    OK(cudaStreamWaitEvent(working_, used_, 0));
  }
  void free_and_allocate(Word number) {
    Word* freed = nullptr;
    OK(cudaMallocAsync(&freed, kBytes, waiting_));
    OK(cudaMemsetAsync(freed, 0, kBytes, waiting_));
    OK(cudaStreamSynchronize(waiting_));
    wait(number);
    step<<<1, kThreads, 0, waiting_>>>(freed, number);
    OK(cudaFreeAsync(freed, waiting_));
    std::array<Word*, 4> allocated{};
    for (Word*& block : allocated) {
      OK(way_ == "free_plain" ? cudaMalloc(&block, kBytes) : cudaMallocAsync(&block, kBytes, working_));
      OK(cudaMemsetAsync(block, static_cast<int>(number), kBytes, working_));
      add_up<<<1, kThreads, 0, working_>>>(block, sums_ + 1);
    }
    work(number);
    write(number);
    for (Word* block : allocated) OK(cudaFreeAsync(block, working_));
    OK(cudaDeviceSynchronize());
  }
  static void forbid_dependencies() {
    cudaMemPool_t pool = nullptr;
    int none = 0;
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowInternalDependencies, &none));
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowOpportunistic, &none));
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseFollowEventDependencies, &none));
  }

  std::string_view way_;
  cudaStream_t waiting_ = nullptr;
  cudaStream_t working_ = nullptr;
  cudaEvent_t used_ = nullptr;
  Word* both_ = nullptr;   // both streams read it
  Word* sums_ = nullptr;   // one of each stream
  Word* value_ = nullptr;  // the number of the round
  std::array<Word*, kOthers> others_{};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: awaited_values_job WAY\n");
    return 2;
  }
  Job job(argv[1]);
  for (Word number = 1; number <= kRounds; ++number) job.round(number);
  job.print();
  return 0;
}
