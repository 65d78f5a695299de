// A program that is linked against the driver: its first CUDA call, on one thread, while another is in a
// dlopen whose constructors use CUDA too. `loader_probe LIBRARY`.

#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

extern "C" {
__attribute__((visibility("default"))) std::atomic<bool> tp_test_in_constructor{false};
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  alarm(20);  // it would hang
  std::thread first([] {
    while (!tp_test_in_constructor) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::size_t bytes = 0;
    (void)cuDeviceTotalMem(&bytes, 0);
  });
  void* const library = dlopen(argv[1], RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  first.join();
  std::puts("as expected");
  return 0;
}
