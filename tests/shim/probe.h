#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

/// What the cases of door_probe share.
namespace tidepool::test {

#define EXPECT(condition) ((condition) ? void() : tidepool::test::failed(__FILE__, __LINE__, #condition))

[[noreturn]] inline void failed(const char* file, int line, const char* what) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what);
  std::exit(1);
}

inline void* driver() {
  static void* const handle = dlopen("libcuda.so.1", RTLD_NOW);
  EXPECT(handle != nullptr);
  return handle;
}

template <class F>
F* find(const char* name) {
  return reinterpret_cast<F*>(dlsym(driver(), name));
}
#define DRIVER(name) find<decltype(name)>(#name)

inline bool is_in(const void* function, const char* library) {
  Dl_info info{};
  return function != nullptr && dladdr(function, &info) != 0 &&
         std::strstr(info.dli_fname, library) != nullptr;
}
inline bool is_hook(const void* function) {
  return is_in(function, "libtidepool");
}
inline bool is_drivers(const void* function) {
  return is_in(function, "libcuda.so");
}

inline CUcontext start() {
  EXPECT(DRIVER(cuInit)(0) == CUDA_SUCCESS);
  CUcontext context = nullptr;
  EXPECT(DRIVER(cuDevicePrimaryCtxRetain)(&context, 0) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuCtxSetCurrent)(context) == CUDA_SUCCESS);
  return context;
}

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// Runs the case of context_probe.cpp, or own_context_probe.cpp, with this name; false if there is none.
bool run_context_case(std::string_view name);
bool run_own_context_case(std::string_view name);

}  // namespace tidepool::test
