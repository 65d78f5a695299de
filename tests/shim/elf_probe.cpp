// A program that is linked against the driver: its calls reach the library by ELF symbols. `elf_probe BYTES`
// expects a device of that many bytes, and that memory works.

#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "elf_probe: %s: %d\n", what, static_cast<int>(result));
  std::exit(1);
}
#define OK(call) check(call, #call)

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  OK(cuInit(0));
  CUcontext context = nullptr;
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxSetCurrent(context));
  std::size_t free = 0;
  std::size_t total = 0;
  OK(cuMemGetInfo(&free, &total));
  if (total != std::strtoull(argv[1], nullptr, 10)) {
    std::fprintf(stderr, "elf_probe: the device has %zu bytes\n", total);
    return 1;
  }
  // More than fits into a small budget, so that some must leave and come back.
  constexpr std::size_t kSize = std::size_t{3} << 20;
  std::vector<CUdeviceptr> blocks(16);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    OK(cuMemAlloc(&blocks[i], kSize));
    OK(cuMemsetD32(blocks[i], static_cast<unsigned>(i), kSize / 4));
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    std::vector<unsigned> words(kSize / 4);
    OK(cuMemcpyDtoH(words.data(), blocks[i], kSize));
    for (const unsigned word : words) {
      if (word != i) return 1;
    }
    OK(cuMemFree(blocks[i]));
  }
  std::puts("as expected");
  return 0;
}
