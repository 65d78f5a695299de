// A driver-API program that looks at the doors from the inside: where lookups lead, and what calls answer.
// Run by shim_test.cpp, one case per process: `door_probe CASE`.

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/shim/probe.h"

extern "C" int tp_test_position();

namespace tidepool::test {
namespace {

// That this library has functions of the driver and of the CUDA runtime makes no program believe that there
// is one.
void find_nothing() {
  for (void* const scope : {RTLD_DEFAULT, RTLD_NEXT, dlopen(nullptr, RTLD_NOW)}) {
    for (const char* name :
         {"cudaMalloc", "cuInit", "cuMemAlloc_v2", "cuMemFree_v9", "cuLaunchKernel_ptsz"}) {
      if (scope == RTLD_NEXT && std::strcmp(name, "cudaMalloc") == 0) continue;  // a wrapper's question
      (void)dlerror();
      EXPECT(dlsym(scope, name) == nullptr);
      EXPECT(dlerror() != nullptr);
    }
  }
}

// Once the driver is there for everybody, its functions are, and ours in front of them.
void find_globally() {
  find_nothing();
  EXPECT(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) != nullptr);
  for (void* const scope : {RTLD_DEFAULT, RTLD_NEXT, dlopen(nullptr, RTLD_NOW)}) {
    EXPECT(dlsym(scope, "cuMemAlloc_v2") == nullptr);
    EXPECT(is_hook(dlsym(scope, "cuMemFree_v2")) && is_hook(dlsym(scope, "cuLaunchKernel")));
    EXPECT(dlsym(scope, "cuMemFree_v8") == nullptr);
    EXPECT(is_drivers(dlsym(scope, "cuNewerEntry")));
    void* const newer = dlsym(scope, "cuMemFree_v9");
    EXPECT(is_hook(newer));
    EXPECT(reinterpret_cast<int (*)(int, int)>(newer)(40, 2) == 42);
  }
}

void dlsym_door() {
  for (const char* name : {"cuMemAlloc_v2", "cuLaunchKernel", "cuLaunchKernel_ptsz", "cuMemcpyHtoD_v2_ptds",
                           "cuGetProcAddress_v2", "cuStreamDestroy_v2"}) {
    EXPECT(is_hook(dlsym(driver(), name)));
    // No door: what has no version is not found by who asks for one.
    EXPECT(dlvsym(driver(), name, "libcuda.so.1") == nullptr);
  }
  for (const char* name : {"cuDriverGetVersion", "cuCtxGetCurrent", "cuMemAddressReserve"})
    EXPECT(is_drivers(dlsym(driver(), name)));
  // Names that only look like the driver's, and names that nobody has, answer as the C library does.
  for (const char* name : {"cuNoSuchEntry", "cudaMalloc", "cu", "cuMemAlloc_v2x", ""}) {
    (void)dlerror();
    EXPECT(dlsym(driver(), name) == nullptr);
    EXPECT(dlerror() != nullptr);
  }
  // That this library has functions of the CUDA runtime makes no program believe that there is one.
  for (void* const scope : {RTLD_DEFAULT, dlopen(nullptr, RTLD_NOW)}) {
    (void)dlerror();
    EXPECT(dlsym(scope, "cudaMalloc") == nullptr);
    EXPECT(dlerror() != nullptr);
  }
  EXPECT(dlsym(RTLD_DEFAULT, "getpid") == reinterpret_cast<void*>(&getpid));
  // The next definition is the caller's next one, the second time as well.
  for (int i = 0; i < 3; ++i) EXPECT(tp_test_position() == 2);
}

void lookup_door() {
  start();
  const auto lookup = DRIVER(cuGetProcAddress_v2);
  EXPECT(is_hook(reinterpret_cast<void*>(lookup)));
  void* found = nullptr;
  CUdriverProcAddressQueryResult status{};
  const auto ask = [&](const char* name, int version, cuuint64_t flags) {
    found = &found;
    std::memset(&status, 99, sizeof status);
    return lookup(name, &found, version, flags, &status);
  };
  EXPECT(ask("cuMemAlloc", 12000, 0) == CUDA_SUCCESS);
  EXPECT(found == dlsym(driver(), "cuMemAlloc_v2") && status == CU_GET_PROC_ADDRESS_SUCCESS);
  EXPECT(ask("cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM) == CUDA_SUCCESS);
  EXPECT(found == dlsym(driver(), "cuLaunchKernel"));
  EXPECT(ask("cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) == CUDA_SUCCESS);
  EXPECT(found == dlsym(driver(), "cuLaunchKernel_ptsz"));
  EXPECT(ask("cuGetProcAddress", 12000, 0) == CUDA_SUCCESS);
  EXPECT(found == reinterpret_cast<void*>(lookup));
  EXPECT(ask("cuMemAddressReserve", 12000, 0) == CUDA_SUCCESS);
  EXPECT(is_drivers(found));
  // What the driver says of names it lacks reaches the program unchanged.
  (void)ask("cuNoSuchEntry", 12000, 0);
  EXPECT(found == nullptr && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  (void)ask("cuMemAlloc", 1000, 0);
  EXPECT(found == nullptr && status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT(lookup("cuMemFree", &found, 12000, 0, nullptr) == CUDA_SUCCESS && is_hook(found));
  EXPECT(lookup(nullptr, &found, 12000, 0, nullptr) == CUDA_ERROR_INVALID_VALUE);
  EXPECT(lookup("cuMemFree", nullptr, 12000, 0, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

// The runtime's way to a driver function, which NCCL and PyTorch take, ends in the same lookup.
void entry_point_door() {
  void* const runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_LOCAL);
  EXPECT(runtime != nullptr);
  const auto by_version = reinterpret_cast<int (*)(const char*, void**, unsigned, unsigned long long, int*)>(
      dlsym(runtime, "cudaGetDriverEntryPointByVersion"));
  EXPECT(by_version != nullptr);
  void* found = nullptr;
  int status = 99;
  const auto ask = [&](const char* name, unsigned version, unsigned long long flags) {
    return by_version(name, &found, version, flags, &status) == 0 && status == 0;
  };
  constexpr unsigned long long kPerThread = 2;  // cudaEnablePerThreadDefaultStream
  EXPECT(ask("cuMemAlloc", 12000, 0) && found == dlsym(driver(), "cuMemAlloc_v2"));
  EXPECT(ask("cuLaunchKernel", 12000, 0) && found == dlsym(driver(), "cuLaunchKernel"));
  EXPECT(ask("cuLaunchKernel", 12000, kPerThread) && found == dlsym(driver(), "cuLaunchKernel_ptsz"));
  EXPECT(ask("cuMemAddressReserve", 12000, 0) && is_drivers(found));
}

void disabled() {
  EXPECT(is_drivers(dlsym(driver(), "cuMemAlloc_v2")));
  start();
  void* found = nullptr;
  EXPECT(DRIVER(cuGetProcAddress_v2)("cuMemAlloc", &found, 12000, 0, nullptr) == CUDA_SUCCESS);
  EXPECT(is_drivers(found));
  std::size_t free = 0;
  std::size_t total = 0;
  EXPECT(DRIVER(cuMemGetInfo_v2)(&free, &total) == CUDA_SUCCESS);
  EXPECT(total >= (std::size_t{1} << 30));  // the whole card, not the budget
}

void memory() {
  const CUcontext context = start();
  const auto alloc = DRIVER(cuMemAlloc_v2);
  const auto release = DRIVER(cuMemFree_v2);
  std::size_t free = 0;
  std::size_t total = 0;
  const auto info = [&] { EXPECT(DRIVER(cuMemGetInfo_v2)(&free, &total) == CUDA_SUCCESS); };
  info();
  EXPECT(total == 32 * kMiB && free == total);
  std::size_t device_total = 0;
  EXPECT(DRIVER(cuDeviceTotalMem_v2)(&device_total, 0) == CUDA_SUCCESS && device_total == total);

  CUdeviceptr none = 0;
  EXPECT(alloc(&none, 0) == CUDA_ERROR_INVALID_VALUE);
  EXPECT(alloc(nullptr, 4096) == CUDA_ERROR_INVALID_VALUE);
  EXPECT(alloc(&none, std::size_t{1} << 50) == CUDA_ERROR_OUT_OF_MEMORY && none == 0);
  EXPECT(release(0) == CUDA_SUCCESS);

  // Twice the budget: some are out now, and every question is answered the same for all of them.
  std::vector<CUdeviceptr> blocks(16);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    EXPECT(alloc(&blocks[i], 4 * kMiB - 24) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuMemsetD8_v2)(blocks[i], static_cast<unsigned char>(i + 1), 4 * kMiB - 24) ==
           CUDA_SUCCESS);
  }
  info();
  EXPECT(total == 32 * kMiB && free == 0);
  for (const CUdeviceptr block : blocks) {
    CUdeviceptr base = 0;
    std::size_t size = 0;
    EXPECT(DRIVER(cuMemGetAddressRange_v2)(&base, &size, block + 12345) == CUDA_SUCCESS);
    EXPECT(base == block && size == 4 * kMiB - 24);
    EXPECT(DRIVER(cuMemGetAddressRange_v2)(nullptr, nullptr, block) == CUDA_SUCCESS);
    unsigned type = 0;
    CUcontext owner = nullptr;
    int ordinal = -1;
    unsigned managed = 7;
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void* values[] = {&type, &owner, &ordinal, &managed};
    EXPECT(DRIVER(cuPointerGetAttributes)(4, names, values, block + 1) == CUDA_SUCCESS);
    EXPECT(type == CU_MEMORYTYPE_DEVICE && owner == context && ordinal == 0 && managed == 0);
    for (int i = 0; i < 4; ++i)
      EXPECT(DRIVER(cuPointerGetAttribute)(values[i], names[i], block) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block + 4 * kMiB) !=
           CUDA_SUCCESS);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    std::vector<unsigned char> bytes(4 * kMiB - 24);
    EXPECT(DRIVER(cuMemcpyDtoH_v2)(bytes.data(), blocks[i], bytes.size()) == CUDA_SUCCESS);
    for (const unsigned char byte : bytes) EXPECT(byte == i + 1);
  }
  for (const CUdeviceptr block : blocks) EXPECT(release(block) == CUDA_SUCCESS);
  for (const CUdeviceptr block : blocks) EXPECT(release(block) == CUDA_ERROR_INVALID_VALUE);
  info();
  EXPECT(free == total);

  CUdeviceptr pitched = 0;
  std::size_t pitch = 0;
  EXPECT(DRIVER(cuMemAllocPitch_v2)(&pitched, &pitch, 1000, 3000, 4) == CUDA_SUCCESS);
  EXPECT(pitch >= 1000 && pitch % 512 == 0);
  EXPECT(release(pitched) == CUDA_SUCCESS);
}

// What programs do with calls now and then: null arguments, threads that have no context, a free of the other
// kind. Everything answers as the driver does.
void odd_calls() {
  start();
  std::size_t free = 0;
  std::size_t total = 0;
  const auto info = DRIVER(cuMemGetInfo_v2);
  CUdeviceptr block = 0;
  EXPECT(DRIVER(cuMemAlloc_v2)(&block, 4 * kMiB) == CUDA_SUCCESS);
  EXPECT(info(nullptr, &total) == CUDA_ERROR_INVALID_VALUE && total == 0);
  EXPECT(info(&free, nullptr) == CUDA_ERROR_INVALID_VALUE && free == 0);
  EXPECT(info(nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  EXPECT(DRIVER(cuPointerGetAttribute)(nullptr, CU_POINTER_ATTRIBUTE_MAPPED, block) ==
         CUDA_ERROR_INVALID_VALUE);
  EXPECT(DRIVER(cuMemFreeAsync)(block, nullptr) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuCtxSynchronize)() == CUDA_SUCCESS);
  EXPECT(DRIVER(cuMemFree_v2)(block) != CUDA_SUCCESS);
  EXPECT(info(&free, &total) == CUDA_SUCCESS && free == total);
  // Managed memory is the driver's, which moves it as it likes.
  for (int i = 0; i < 2; ++i) {
    CUdeviceptr moves = 0;
    int is_managed = 0;
    EXPECT(DRIVER(cuMemAllocManaged)(&moves, 64 * kMiB, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuPointerGetAttribute)(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, moves) ==
           CUDA_SUCCESS);
    EXPECT(is_managed == 1 && info(&free, &total) == CUDA_SUCCESS && free == total);
    EXPECT(DRIVER(cuMemFree_v2)(moves) == CUDA_SUCCESS);
  }
  EXPECT(DRIVER(cuMemAlloc_v2)(&block, 4 * kMiB) == CUDA_SUCCESS);
  std::thread([&] {
    CUdeviceptr none = 0;
    unsigned char byte = 0;
    CUdevice device = 0;
    EXPECT(DRIVER(cuCtxGetDevice)(&device) == CUDA_ERROR_INVALID_CONTEXT);
    EXPECT(DRIVER(cuMemAlloc_v2)(&none, 4 * kMiB) == CUDA_ERROR_INVALID_CONTEXT && none == 0);
    EXPECT(info(&free, &total) == CUDA_ERROR_INVALID_CONTEXT);
    EXPECT(DRIVER(cuDeviceTotalMem_v2)(&total, 0) == CUDA_SUCCESS && total == 32 * kMiB);
    EXPECT(DRIVER(cuMemsetD8Async)(block, 1, 1, nullptr) == CUDA_ERROR_INVALID_CONTEXT);
    EXPECT(DRIVER(cuMemcpyDtoH_v2)(&byte, block, 1) == CUDA_ERROR_INVALID_CONTEXT);
  }).join();
  EXPECT(DRIVER(cuMemFree_v2)(block) == CUDA_SUCCESS);
}

// A budget that is changed from outside while the program runs: both totals follow.
void budget_changes() {
  start();
  CUdeviceptr block = 0;
  EXPECT(DRIVER(cuMemAlloc_v2)(&block, 4 * kMiB) == CUDA_SUCCESS);
  const auto device_total = [] {
    std::size_t total = 0;
    EXPECT(DRIVER(cuDeviceTotalMem_v2)(&total, 0) == CUDA_SUCCESS);
    return total;
  };
  EXPECT(device_total() == 32 * kMiB);
  std::string command = std::getenv("TP_TEST_TIDEPOOL");
  std::string self = std::to_string(getpid());
  const char* words[] = {command.c_str(), "set", "--device-budget", "24MiB", self.c_str(), nullptr};
  pid_t child = 0;
  EXPECT(posix_spawn(&child, words[0], nullptr, nullptr, const_cast<char**>(words), environ) == 0);
  std::thread waits([&] {
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  });
  for (int tries = 0; device_total() == 32 * kMiB && tries < 20000; ++tries) usleep(1000);
  EXPECT(device_total() == 24 * kMiB);
  std::size_t free = 0;
  std::size_t total = 0;
  EXPECT(DRIVER(cuMemGetInfo_v2)(&free, &total) == CUDA_SUCCESS);
  EXPECT(total == 24 * kMiB && free == 20 * kMiB);
  waits.join();
}

// A driver that is newer than the table (newer_driver.cpp).
void newer_driver() {
  // The first call of all makes the library load the driver, whose constructor calls a hook.
  const std::string_view preload = std::getenv("LD_PRELOAD");
  void* const us = dlopen(preload.substr(preload.rfind(':') + 1).data(), RTLD_NOW | RTLD_NOLOAD);
  EXPECT(us != nullptr);
  void* const known = dlsym(us, "cuMemFree_v2");
  EXPECT(is_hook(known));
  EXPECT(reinterpret_cast<decltype(&cuMemFree_v2)>(known)(0) != CUDA_SUCCESS);
  EXPECT(is_drivers(dlsym(driver(), "cuNewerEntry")));
  void* const newer = dlsym(driver(), "cuMemFree_v9");
  EXPECT(is_hook(newer));
  EXPECT(reinterpret_cast<int (*)(int, int)>(newer)(40, 2) == 42);
  EXPECT(dlsym(driver(), "cuMemFree_v8") == nullptr);
}

// A child of fork gets whatever the driver answers there, but neither hangs nor crashes; the parent's memory
// is untouched by it.
void fork_after_start() {
  start();
  CUdeviceptr block = 0;
  EXPECT(DRIVER(cuMemAlloc_v2)(&block, 4 * kMiB) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuMemsetD8_v2)(block, 9, 4 * kMiB) == CUDA_SUCCESS);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    std::size_t free = 0;
    std::size_t total = 0;
    CUdeviceptr mine = 0;
    unsigned char byte = 0;
    (void)DRIVER(cuMemGetInfo_v2)(&free, &total);
    (void)DRIVER(cuDeviceTotalMem_v2)(&total, 0);
    (void)DRIVER(cuMemAlloc_v2)(&mine, 4 * kMiB);
    (void)DRIVER(cuMemcpyDtoH_v2)(&byte, block, 1);
    (void)DRIVER(cuPointerGetAttribute)(&total, CU_POINTER_ATTRIBUTE_RANGE_SIZE, block);
    (void)DRIVER(cuMemFree_v2)(block);
    _exit(std::string(64, 'x').size() == 64 ? 7 : 8);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
  unsigned char byte = 0;
  EXPECT(DRIVER(cuMemcpyDtoH_v2)(&byte, block + 100, 1) == CUDA_SUCCESS && byte == 9);
}

// A child forked before CUDA was used is a process like any other.
void fork_before_start() {
  const pid_t child = fork();
  if (child == 0) {
    memory();
    _exit(7);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

}  // namespace
}  // namespace tidepool::test

int main(int argc, char** argv) {
  using namespace tidepool::test;  // this file is the program
  const std::string_view which = argc == 2 ? argv[1] : "";
  if (which == "dlsym")
    dlsym_door();
  else if (which == "lookup")
    lookup_door();
  else if (which == "entry_point")
    entry_point_door();
  else if (which == "disabled")
    disabled();
  else if (which == "memory")
    memory();
  else if (which == "odd_calls")
    odd_calls();
  else if (which == "budget_changes")
    budget_changes();
  else if (which == "newer_driver")
    newer_driver();
  else if (which == "find_nothing")
    find_nothing();
  else if (which == "find_globally")
    find_globally();
  else if (which == "fork_after_start")
    fork_after_start();
  else if (which == "fork_before_start")
    fork_before_start();
  else if (!run_context_case(which) && !run_own_context_case(which))
    return 2;
  std::puts("as expected");
  return 0;
}
