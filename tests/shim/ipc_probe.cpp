// Two processes, both under the library: one shares 4 MiB of cuMemAlloc memory by cuIpcGetMemHandle, the
// other opens it. argv[1]: "shared" if that must work, "refused" if the first call must fail and the memory
// stay as good as before.

#include <cuda.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

#define EXPECT(condition)                                                  \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(EXIT_FAILURE);                                             \
    }                                                                      \
  } while (false)
#define OK(call) EXPECT((call) == CUDA_SUCCESS)

constexpr std::size_t kBytes = std::size_t{4} << 20;

void start() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  OK(cuInit(0));
  OK(cuDeviceGet(&device, 0));
  OK(cuDevicePrimaryCtxRetain(&context, device));
  OK(cuCtxSetCurrent(context));
}

bool holds(CUdeviceptr at, unsigned char value) {
  std::vector<unsigned char> bytes(kBytes);
  OK(cuMemcpyDtoH(bytes.data(), at, kBytes));
  for (const unsigned char byte : bytes) {
    if (byte != value) return false;
  }
  return true;
}

/// The other process: gets a handle, and what cuIpcGetMemHandle said of it.
int open_it(int from, int done) {
  CUipcMemHandle handle;
  CUresult said = CUDA_ERROR_UNKNOWN;
  EXPECT(read(from, &said, sizeof said) == sizeof said);
  EXPECT(read(from, &handle, sizeof handle) == sizeof handle);
  start();
  CUdeviceptr at = 0;
  const CUresult opened = cuIpcOpenMemHandle(&at, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  if (said == CUDA_SUCCESS) {
    EXPECT(opened == CUDA_SUCCESS && holds(at, 0x5a));
    OK(cuIpcCloseMemHandle(at));
  } else {
    EXPECT(opened != CUDA_SUCCESS);
  }
  EXPECT(write(done, "x", 1) == 1);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  EXPECT(argc == 2);
  const bool must_work = std::strcmp(argv[1], "shared") == 0;
  int to[2];
  int back[2];
  EXPECT(pipe(to) == 0 && pipe(back) == 0);
  const pid_t other = fork();  // before either has used CUDA
  if (other == 0) return open_it(to[0], back[1]);
  start();
  CUdeviceptr at = 0;
  OK(cuMemAlloc(&at, kBytes));
  OK(cuMemsetD8(at, 0x5a, kBytes));
  CUipcMemHandle handle{};
  CUresult said = cuIpcGetMemHandle(&handle, at);
  EXPECT(said == (must_work ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE));
  EXPECT(cuIpcGetMemHandle(&handle, at) == said);
  EXPECT(write(to[1], &said, sizeof said) == sizeof said);
  EXPECT(write(to[1], &handle, sizeof handle) == sizeof handle);
  char byte = 0;
  EXPECT(read(back[0], &byte, 1) == 1);
  int status = 0;
  EXPECT(waitpid(other, &status, 0) == other && status == 0);
  // More than the budget: the memory that could not be shared leaves and comes back.
  std::vector<CUdeviceptr> more(8);
  for (CUdeviceptr& each : more) {
    OK(cuMemAlloc(&each, kBytes));
    OK(cuMemsetD8(each, 1, kBytes));
  }
  EXPECT(holds(at, 0x5a));
  for (const CUdeviceptr each : more) OK(cuMemFree(each));
  OK(cuMemFree(at));
  std::puts("as expected");
  return 0;
}
