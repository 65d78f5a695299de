// Compiled with CUDA_API_PER_THREAD_DEFAULT_STREAM, as nvcc does for --default-stream per-thread: the null
// stream is the calling thread's own, which waits for the legacy stream and is waited for by it. A thread
// copies from memory that the main thread then frees and allocates again in the legacy stream, and writes to
// in its own. Prints how many words of the copy are not what they were.

#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

void check(CUresult error, const char* what) {
  if (error == CUDA_SUCCESS) return;
  std::fprintf(stderr, "per_thread_job: %s: %d\n", what, static_cast<int>(error));
  std::exit(1);
}
#define OK(call) check(call, #call)

constexpr std::size_t kWords = std::size_t{1} << 20;
constexpr std::size_t kBytes = kWords * sizeof(unsigned);

}  // namespace

int main() {
  CUcontext context = nullptr;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxSetCurrent(context));
  CUdeviceptr copy = 0;
  CUdeviceptr first = 0;
  CUdeviceptr second = 0;
  OK(cuMemAlloc(&copy, kBytes));
  OK(cuMemAllocAsync(&first, kBytes, CU_STREAM_LEGACY));
  OK(cuMemsetD32Async(first, 1, kWords, CU_STREAM_LEGACY));
  OK(cuCtxSynchronize());
  std::thread([&] {
    OK(cuCtxSetCurrent(context));
    OK(cuMemcpyDtoDAsync(copy, first, kBytes, nullptr));
  }).join();
  OK(cuMemFreeAsync(first, CU_STREAM_LEGACY));
  OK(cuMemAllocAsync(&second, kBytes, CU_STREAM_LEGACY));
  OK(cuMemsetD32Async(second, 2, kWords, nullptr));
  OK(cuCtxSynchronize());
  std::vector<unsigned> words(kWords);
  OK(cuMemcpyDtoH(words.data(), copy, kBytes));
  std::printf("%zu wrong\n", kWords - static_cast<std::size_t>(std::count(words.begin(), words.end(), 1u)));
  return 0;
}
