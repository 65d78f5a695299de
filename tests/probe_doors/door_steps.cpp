// `door_steps STEPS [WORD]...`: a driver-API program that comes in by every door and knows how often. A step
// allocates and frees twice, sets once, copies twice and launches three times; prints its counts as the
// truth.
//
//   still     launches nothing          novel   one more launch, by an entry that no table has
//   kernel    launches a CUkernel       later   waits on stdin before it ends
//   lost      expects the device to be lost at its first synchronize
//   threads   steps on four threads at once
//   forks     forks a child that ends normally, once its steps are done

#include <cuda.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

#define EXPECT(condition) ((condition) ? void() : failed(__LINE__, #condition))

[[noreturn]] void failed(int line, const char* what) {
  std::fprintf(stderr, "door_steps.cpp:%d: %s\n", line, what);
  std::exit(1);
}

template <class F>
F* by_dlsym(const char* symbol) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  EXPECT(driver != nullptr);
  return reinterpret_cast<F*>(dlsym(driver, symbol));
}

template <class F>
F* by_lookup(const char* name, cuuint64_t flags = 0) {
  void* found = nullptr;
  const auto lookup = by_dlsym<decltype(cuGetProcAddress_v2)>("cuGetProcAddress_v2");
  EXPECT(lookup(name, &found, CUDA_VERSION, flags, nullptr) == CUDA_SUCCESS);
  return reinterpret_cast<F*>(found);
}

struct Counts {
  int launches = 0;
  int allocations = 0;
  int frees = 0;
  int copies = 0;
  int memsets = 0;

  void add(const Counts& other) {
    launches += other.launches;
    allocations += other.allocations;
    frees += other.frees;
    copies += other.copies;
    memsets += other.memsets;
  }
};

struct Doors {
  static constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

  decltype(cuMemAlloc)* allocate = by_dlsym<decltype(cuMemAlloc)>("cuMemAlloc_v2");
  decltype(cuMemAlloc)* allocate_too = by_lookup<decltype(cuMemAlloc)>("cuMemAlloc");
  decltype(cuMemFree)* release = by_dlsym<decltype(cuMemFree)>("cuMemFree_v2");
  decltype(cuMemFree)* release_too = by_lookup<decltype(cuMemFree)>("cuMemFree");
  decltype(cuMemsetD8)* set = by_lookup<decltype(cuMemsetD8)>("cuMemsetD8");
  decltype(cuMemcpyHtoD)* copy_in = by_dlsym<decltype(cuMemcpyHtoD)>("cuMemcpyHtoD_v2");
  decltype(cuMemcpyDtoHAsync)* copy_out =
      by_lookup<decltype(cuMemcpyDtoHAsync)>("cuMemcpyDtoHAsync", kPerThread);
  decltype(cuLaunchKernel)* launch = by_dlsym<decltype(cuLaunchKernel)>("cuLaunchKernel");
  decltype(cuLaunchKernel)* launch_per_thread =
      by_lookup<decltype(cuLaunchKernel)>("cuLaunchKernel", kPerThread);
  decltype(cuLaunchKernelEx)* launch_ex = by_lookup<decltype(cuLaunchKernelEx)>("cuLaunchKernelEx");
  decltype(cuLaunchKernel)* launch_novel = by_dlsym<decltype(cuLaunchKernel)>("cuLaunchNovel");
  decltype(cuCtxSynchronize)* synchronize = by_dlsym<decltype(cuCtxSynchronize)>("cuCtxSynchronize");
};

CUfunction load_kernel(bool as_kernel) {
  if (as_kernel) {
    CUlibrary library = nullptr;
    CUkernel kernel = nullptr;
    EXPECT(by_lookup<decltype(cuLibraryLoadData)>("cuLibraryLoadData")(&library, "", nullptr, nullptr, 0,
                                                                       nullptr, nullptr, 0) == CUDA_SUCCESS);
    EXPECT(by_lookup<decltype(cuLibraryGetKernel)>("cuLibraryGetKernel")(&kernel, library, "step_kernel") ==
           CUDA_SUCCESS);
    return reinterpret_cast<CUfunction>(kernel);  // cuda.h, cuLaunchKernel: may be one
  }
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  EXPECT(by_lookup<decltype(cuModuleLoadData)>("cuModuleLoadData")(&module, "") == CUDA_SUCCESS);
  EXPECT(by_lookup<decltype(cuModuleGetFunction)>("cuModuleGetFunction")(&function, module, "step_kernel") ==
         CUDA_SUCCESS);
  return function;
}

void launch_all(const Doors& doors, CUfunction kernel, CUdeviceptr at, bool novel, Counts& counts) {
  int size = 16;
  void* parameters[] = {&at, &at, &size};
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  EXPECT(doors.launch(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr) == CUDA_SUCCESS);
  EXPECT(doors.launch_per_thread(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr) == CUDA_SUCCESS);
  EXPECT(doors.launch_ex(&config, kernel, parameters, nullptr) == CUDA_SUCCESS);
  counts.launches += 3;
  if (!novel) return;
  EXPECT(doors.launch_novel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr) == CUDA_SUCCESS);
  ++counts.launches;
}

void make_current() {
  CUcontext context = nullptr;
  EXPECT(by_dlsym<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain")(&context, 0) ==
         CUDA_SUCCESS);
  EXPECT(by_lookup<decltype(cuCtxSetCurrent)>("cuCtxSetCurrent")(context) == CUDA_SUCCESS);
}

void step(const Doors& doors, CUfunction kernel, bool novel, Counts& counts) {
  std::vector<unsigned char> bytes(4096);
  CUdeviceptr first = 0;
  CUdeviceptr second = 0;
  EXPECT(doors.allocate(&first, bytes.size()) == CUDA_SUCCESS);
  EXPECT(doors.allocate_too(&second, bytes.size()) == CUDA_SUCCESS);
  EXPECT(doors.set(second, 7, bytes.size()) == CUDA_SUCCESS);
  EXPECT(doors.copy_in(first, bytes.data(), bytes.size()) == CUDA_SUCCESS);
  if (kernel != nullptr) launch_all(doors, kernel, first, novel, counts);
  EXPECT(doors.copy_out(bytes.data(), first, bytes.size(), nullptr) == CUDA_SUCCESS);
  EXPECT(doors.synchronize() == CUDA_SUCCESS);
  EXPECT(doors.release(first) == CUDA_SUCCESS);
  EXPECT(doors.release_too(second) == CUDA_SUCCESS);
  counts.allocations += 2;
  counts.frees += 2;
  counts.memsets += 1;
  counts.copies += 2;
}

// The error stays, whatever is called.
void lose(const Doors& doors) {
  CUdeviceptr at = 0;
  EXPECT(doors.synchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT(doors.allocate(&at, 4096) == CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT(doors.synchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
  int version = 0;
  EXPECT(by_dlsym<decltype(cuDriverGetVersion)>("cuDriverGetVersion")(&version) == CUDA_SUCCESS);
}

void fork_once() {
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) std::exit(0);
  int status = -1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 0;
  const auto said = [&](std::string_view word) {
    for (int i = 2; i < argc; ++i) {
      if (argv[i] == word) return true;
    }
    return false;
  };
  EXPECT(by_dlsym<decltype(cuInit)>("cuInit")(0) == CUDA_SUCCESS);
  make_current();
  const Doors doors;
  CUfunction kernel = said("still") ? nullptr : load_kernel(said("kernel"));
  if (said("lost")) {
    lose(doors);
    return 0;
  }
  std::vector<Counts> counts_of(said("threads") ? 4 : 1);
  std::vector<std::thread> threads;
  threads.reserve(counts_of.size());
  for (Counts& mine : counts_of) {
    threads.emplace_back([&, novel = said("novel")] {
      make_current();
      for (int i = 0; i < steps; ++i) step(doors, kernel, novel, mine);
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (said("forks")) fork_once();
  Counts counts;
  for (const Counts& mine : counts_of) counts.add(mine);
  std::printf(
      "{\"schema\": \"tidepool.probe/1\", \"section\": \"doors\", \"kind\": \"answer\", \"name\": \"truth\", "
      "\"program\": \"door_steps\", \"steps\": %d, \"launches\": %d, \"allocations\": %d, \"frees\": %d, "
      "\"copies\": %d, \"memsets\": %d}\n",
      steps, counts.launches, counts.allocations, counts.frees, counts.copies, counts.memsets);
  std::fflush(stdout);
  if (said("later")) (void)std::getchar();
  return 0;
}
