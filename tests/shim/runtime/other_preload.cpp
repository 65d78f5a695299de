// Another tool that is preloaded: counts calls of cudaMalloc and goes on to the next definition.

#include <dlfcn.h>

#include <cstddef>

namespace {
int g_count = 0;
}

extern "C" __attribute__((visibility("default"))) int cudaMalloc(void** out, std::size_t size) {
  ++g_count;
  const auto next = reinterpret_cast<int (*)(void**, std::size_t)>(dlsym(RTLD_NEXT, "cudaMalloc"));
  return next(out, size);
}
extern "C" __attribute__((visibility("default"))) int tp_test_preload_count() {
  return g_count;
}
