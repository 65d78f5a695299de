#include "shim/module_owner.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <string_view>

namespace tidepool::shim {

TEST_CASE("owner: libraries are known by the names of their files") {
  const auto owner = [](const char* path) { return module_of_file(path).owner; };
  for (const char* path :
       {"libcublas.so.13", "/a/nvidia/cublas/lib/libcublasLt.so.12", "/b/libcudnn_ops.so.9", "/b/libcudnn.so",
        "libnccl.so.2", "libcusolverMg.so.12", "/w/torch.libs/libcublas-1f3a.so.12", "libnvshmem_host.so.3",
        "libcutensor.so", "libcurand10.so", "/x.so/libcufft.so.12"}) {
    INFO(path);
    CHECK(owner(path) == Owner::kLibrary);
  }
  for (const char* path : {"", "/usr/bin/python3", "libc10_cuda.so", "/a/libcublas/libmine.so",
                           "libcublaster.so", "libcudnnx.so", "cublas.so", "libtorch_cuda.so", "libcuda",
                           "libncclx.so", "a/", "libcudadebugger.so.1", "/a/libcudart.so.12/plugin.so"}) {
    INFO(path);
    CHECK(owner(path) == Owner::kProgram);
  }
  CHECK(owner(nullptr) == Owner::kProgram);
  CHECK(owner("/usr/local/cuda/lib64/libcudart.so.13") == Owner::kCudart);
  CHECK(owner("/w/torch.libs/libcudart-d0da41ae.so.11.0") == Owner::kCudart);
  CHECK(owner("/usr/lib/libcuda.so.1") == Owner::kDriver);
  CHECK(owner("libcuda.so.580.95.05") == Owner::kDriver);
  CHECK(std::string_view(module_of_file("/a/libcublasLt.so.12").name) == "libcublasLt");
  CHECK(std::string_view(module_of_file("/a/b.so").name).empty());
}

TEST_CASE("owner: code is known by its module; code of none is the program's") {
  CHECK(module_of(reinterpret_cast<void*>(&module_of_file)).owner == Owner::kProgram);
  CHECK(module_of(reinterpret_cast<void*>(&std::fputs)).owner == Owner::kProgram);
  CHECK(module_of(nullptr).owner == Owner::kProgram);
  int on_stack = 0;
  CHECK(module_of(&on_stack).owner == Owner::kProgram);
}

}  // namespace tidepool::shim
