// A libcuda.so.1 with a version of cuMemFree that nobody has seen yet, and an entry of a name that nobody
// hooks.

#include <dlfcn.h>

extern "C" {
__attribute__((visibility("default"))) int cuMemFree_v9(int a, int b) {
  return a + b;
}
__attribute__((visibility("default"))) int cuNewerEntry() {
  return 0;
}
}

// As wrappers around a driver do: uses, while it is being loaded, what the process knows by the driver's
// names.
__attribute__((constructor)) static void on_load() {
  if (void* const known = dlsym(RTLD_DEFAULT, "cuMemFree_v2")) {
    (void)reinterpret_cast<int (*)(unsigned long long)>(known)(0);
  }
}
