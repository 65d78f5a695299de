#include "tools/workloads/common/check.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace workload {
namespace {

const char* g_name = "workload";
std::atomic_flag g_failing = ATOMIC_FLAG_INIT;

std::string function_of(const char* call) {
  const std::string text = call;
  return text.substr(0, text.find('('));
}

[[noreturn]] void fail_call(const char* call, const char* name, const char* text) {
  const std::string why = std::string(name) + " (" + text + ")";
  fail((function_of(call) + " failed").c_str(), why.c_str());
}

}  // namespace

void set_program_name(const char* name) {
  g_name = name;
}

void fail(const char* what, const char* why) {
  // Another thread's failure may be the consequence of the first one, and exit() may run only once.
  while (g_failing.test_and_set()) ::pause();
  std::fprintf(stderr, "%s: %s: %s\n", g_name, what, why);
  std::exit(1);
}

void check(cudaError_t error, const char* call) {
  if (error != cudaSuccess) fail_call(call, cudaGetErrorName(error), cudaGetErrorString(error));
}

void check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  const std::string number = "CUresult " + std::to_string(static_cast<int>(result));
  const auto text_of = [&](const char* function) -> const char* {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult status{};
    if (cudaGetDriverEntryPointByVersion(function, &found, 12000, cudaEnableDefault, &status) !=
            cudaSuccess ||
        found == nullptr) {
      return number.c_str();
    }
    const char* text = nullptr;
    reinterpret_cast<CUresult (*)(CUresult, const char**)>(found)(result, &text);
    return text == nullptr ? number.c_str() : text;
  };
  fail_call(call, text_of("cuGetErrorName"), text_of("cuGetErrorString"));
}

void check_launch(const char* kernel) {
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) {
    fail_call(("launch of " + std::string(kernel)).c_str(), cudaGetErrorName(error),
              cudaGetErrorString(error));
  }
}

}  // namespace workload
