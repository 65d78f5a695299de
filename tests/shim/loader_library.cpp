// A library whose constructor looks up a driver function, while another thread makes its first CUDA call.

#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace {

__attribute__((constructor)) void look_up() {
  const auto flag = static_cast<std::atomic<bool>*>(dlsym(RTLD_DEFAULT, "tp_test_in_constructor"));
  if (flag == nullptr) return;
  flag->store(true);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the other thread waits for the loader now
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  (void)dlsym(driver, "cuMemAlloc_v2");
  const auto total = reinterpret_cast<int (*)(unsigned long*, int)>(dlsym(driver, "cuDeviceTotalMem_v2"));
  unsigned long bytes = 0;
  if (total != nullptr) (void)total(&bytes, 0);
}

}  // namespace
