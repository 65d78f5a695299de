#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "allocator/support/content_hash_kernel.h"
#include "simgpu/kernel.h"
#include "tests/simgpu/device_process.h"

/// Kernels of images whose bodies simgpu brings with it, because what they compute is believed.
extern "C" int simgpuLibrarySetBody(void* library, const char* name, const SimgpuKernelBody* body);

namespace {

using namespace simgpu_test;

/// A module with a kernel of the name that simgpu has a body for, with so many parameters of 64 bits.
CUmodule load_hash_kernel(int params) {
  std::string text =
      ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry tidepool_content_hash(\n";
  for (int i = 0; i < params; ++i)
    text += (i == 0 ? "" : ",\n") + std::string(".param .u64 p") + std::to_string(i);
  text += "\n)\n{\nret;\n}\n";
  CUmodule module = nullptr;
  OK(cuModuleLoadData(&module, text.c_str()));
  return module;
}

struct Ignore {
  template <class C>
  static void run(C& c, void*, void*) {
    c.phase([](unsigned) {});
  }
};

CUfunction hash_kernel(CUmodule module) {
  CUfunction function = nullptr;
  OK(cuModuleGetFunction(&function, module, "tidepool_content_hash"));
  return function;
}

}  // namespace

TEST_CASE("module: a kernel whose body simgpu brings is computed") {
  on_device({}, [] {
    const CUfunction kernel = hash_kernel(load_hash_kernel(5));
    constexpr std::size_t kSize = 70'001;
    std::vector<unsigned char> bytes(kSize);
    for (std::size_t i = 0; i < kSize; ++i) bytes[i] = static_cast<unsigned char>(i * 31 >> 2);
    CUdeviceptr data = 0;
    CUdeviceptr slot = 0;
    OK(cuMemAlloc(&data, kSize));
    OK(cuMemAlloc(&slot, sizeof(tidepool::HashSlot)));
    OK(cuMemcpyHtoD(data, bytes.data(), kSize));
    OK(cuMemsetD8(slot, 0, sizeof(tidepool::HashSlot)));
    unsigned long long size = kSize;
    CUdeviceptr control = 0;
    unsigned long long number = 1;
    void* params[] = {&data, &size, &slot, &control, &number};
    OK(cuLaunchKernel(kernel, 5, 1, 1, tidepool::HashContent::kThreads, 1, 1, 0, nullptr, params, nullptr));
    OK(cuCtxSynchronize());
    tidepool::HashSlot got{};
    OK(cuMemcpyDtoH(&got, slot, sizeof got));
    EXPECT(got.hash == tidepool::content_hash(bytes.data(), kSize));
    return 0;
  });
}

TEST_CASE(
    "module: a kernel whose body simgpu brings, with other parameters, is refused and not made a digest") {
  on_device({}, [] {
    const CUmodule module = load_hash_kernel(2);
    const CUfunction kernel = hash_kernel(module);
    CUdeviceptr memory = 0;
    OK(cuMemAlloc(&memory, 64));
    void* params[] = {&memory, &memory};
    EXPECT_RESULT(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, nullptr, params, nullptr),
                  CUDA_ERROR_NOT_SUPPORTED);
    // A body that the program gives goes before.
    EXPECT(simgpuLibrarySetBody(module, "tidepool_content_hash",
                                simgpu::kernel_body<Ignore, void*, void*>()) == CUDA_SUCCESS);
    OK(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, nullptr, params, nullptr));
    OK(cuCtxSynchronize());
    return 0;
  });
}
