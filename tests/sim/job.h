#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <errno.h>  // program_invocation_short_name

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace tidepool::test {

/// Ends a program in whose calls nothing may fail, with a line that names the call.
inline void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, call, cudaGetErrorString(error));
  std::exit(1);
}

/// The runtime has the driver's codes.
inline void check(CUresult result, const char* call) {
  check(static_cast<cudaError_t>(result), call);
}

}  // namespace tidepool::test

#define OK(call) tidepool::test::check(call, #call)

namespace tidepool::test {

/// Prints one number that depends on every word there and on their order.
template <class Word>
void print_sum_of(const Word* block, std::size_t words) {
  std::vector<Word> host(words);
  OK(cudaMemcpy(host.data(), block, words * sizeof(Word), cudaMemcpyDeviceToHost));
  unsigned long long sum = 0;
  for (const Word word : host) sum = sum * 31 + word;
  std::printf("%llx\n", sum);
}

}  // namespace tidepool::test
