// A program with libraries of several names that allocate: whose memory is what? Run by owner_test.cpp, one
// case per process: `owner_probe CASE FOLDER`, where the folder holds the libraries.

#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/shim/own_page.h"
#include "tests/shim/probe.h"

namespace tidepool::test {
namespace {

using Alloc = CUresult(CUdeviceptr* out, std::size_t size);
using AllocPitch = CUresult(CUdeviceptr* out, std::size_t* pitch, std::size_t width, std::size_t height);

std::string g_folder;

class Library {
 public:
  explicit Library(const std::string& name) : handle_(dlopen((g_folder + "/" + name).c_str(), RTLD_NOW)) {
    if (handle_ == nullptr) std::fprintf(stderr, "%s\n", dlerror());
    EXPECT(handle_ != nullptr);
  }
  template <class F>
  F* find(const char* name) {
    return reinterpret_cast<F*>(dlsym(handle_, name));
  }
  CUdeviceptr alloc(std::size_t size) {
    CUdeviceptr at = 0;
    EXPECT(find<Alloc>("tp_test_driver_alloc")(&at, size) == CUDA_SUCCESS);
    return at;
  }
  void close() { EXPECT(dlclose(handle_) == 0); }

 private:
  void* handle_;
};

// Only the driver's own memory can be shared by cuIpc.
bool is_drivers_memory(CUdeviceptr at) {
  int capable = 7;
  EXPECT(DRIVER(cuPointerGetAttribute)(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, at) ==
         CUDA_SUCCESS);
  return capable == 1;
}

CUdeviceptr own_alloc(std::size_t size) {
  CUdeviceptr at = 0;
  EXPECT(DRIVER(cuMemAlloc_v2)(&at, size) == CUDA_SUCCESS);
  return at;
}

void by_name() {
  start();
  for (const char* name : {"libcublas_stand_in.so", "libcudnn_ops_stand_in.so.9", "libnccl.so.2"}) {
    Library library(name);
    const std::uint64_t before = own_page_value("library_bytes");
    const CUdeviceptr at = library.alloc(4 * kMiB);
    EXPECT(is_drivers_memory(at));
    CUdeviceptr pitched = 0;
    std::size_t pitch = 0;
    EXPECT(library.find<AllocPitch>("tp_test_driver_alloc_pitch")(&pitched, &pitch, 1000, 100) ==
           CUDA_SUCCESS);
    EXPECT(is_drivers_memory(pitched));
    EXPECT(own_page_value("library_bytes") == before + 4 * kMiB + pitch * 100);
    // Whoever frees it.
    EXPECT(DRIVER(cuMemFree_v2)(pitched) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuMemFreeAsync)(at, nullptr) == CUDA_SUCCESS || DRIVER(cuMemFree_v2)(at) == CUDA_SUCCESS);
    EXPECT(own_page_value("library_bytes") == before);
    EXPECT(DRIVER(cuMemFree_v2)(at) != CUDA_SUCCESS);
    EXPECT(own_page_value("library_bytes") == before);
  }
  for (const char* name : {"libprogram_stand_in.so", "libcublaster.so"}) {
    Library library(name);
    EXPECT(!is_drivers_memory(library.alloc(4 * kMiB)));
  }
  EXPECT(!is_drivers_memory(own_alloc(4 * kMiB)));
  EXPECT(own_page_value("library_bytes") == 0);
}

// Modules go, and others come to where they were.
void unloaded() {
  start();
  for (int round = 0; round < 8; ++round) {
    const bool is_library = round % 2 == 0;
    Library library(is_library ? "libcublas_stand_in.so" : "libprogram_stand_in.so");
    const CUdeviceptr at = library.alloc(4 * kMiB);
    EXPECT(is_drivers_memory(at) == is_library);
    EXPECT(DRIVER(cuMemFree_v2)(at) == CUDA_SUCCESS);
    library.close();
  }
}

// TIDEPOOL_MODE=observe: all memory is the driver's own; counted as needed is the program's, in its primary
// context.
void observed() {
  const auto needed = [] { return own_page_value("allocated_bytes"); };
  const CUcontext primary = start();
  Library library("libcublas_stand_in.so");
  (void)library.alloc(4 * kMiB);
  EXPECT(needed() == 0 && own_page_value("library_bytes") == 4 * kMiB);
  const CUdeviceptr at = own_alloc(3 * kMiB);
  EXPECT(is_drivers_memory(at) && needed() == 3 * kMiB);
  CUdeviceptr pitched = 0;
  std::size_t pitch = 0;
  EXPECT(DRIVER(cuMemAllocPitch_v2)(&pitched, &pitch, 1000, 100, 4) == CUDA_SUCCESS);
  EXPECT(needed() == 3 * kMiB + pitch * 100);
  EXPECT(DRIVER(cuMemFree_v2)(pitched) == CUDA_SUCCESS && needed() == 3 * kMiB);
  // What the driver refuses changes nothing.
  CUdeviceptr none = 0;
  EXPECT(DRIVER(cuMemAlloc_v2)(&none, std::size_t{1} << 50) != CUDA_SUCCESS && needed() == 3 * kMiB);
  EXPECT(DRIVER(cuMemFree_v2)(at + 512) != CUDA_SUCCESS && needed() == 3 * kMiB);
  // A mapping of the program's own.
  const CUmemAllocationProp properties = {
      CU_MEM_ALLOCATION_TYPE_PINNED, {}, {CU_MEM_LOCATION_TYPE_DEVICE, 0}, {}, {}};
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr range = 0;
  EXPECT(DRIVER(cuMemCreate)(&handle, 2 * kMiB, &properties, 0) == CUDA_SUCCESS && needed() == 3 * kMiB);
  EXPECT(DRIVER(cuMemAddressReserve)(&range, 2 * kMiB, 0, 0, 0) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuMemMap)(range, 2 * kMiB, 0, handle, 0) == CUDA_SUCCESS && needed() == 5 * kMiB);
  EXPECT(DRIVER(cuMemUnmap)(range, 2 * kMiB) == CUDA_SUCCESS && needed() == 3 * kMiB);
  EXPECT(DRIVER(cuMemRelease)(handle) == CUDA_SUCCESS);
  // Another context's memory could not be managed: it is not needed of the device that could.
  CUcontext context = nullptr;
  EXPECT(DRIVER(cuCtxCreate_v4)(&context, nullptr, 0, 0) == CUDA_SUCCESS);
  (void)own_alloc(2 * kMiB);
  EXPECT(needed() == 3 * kMiB);
  EXPECT(DRIVER(cuCtxDestroy_v2)(context) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuCtxSetCurrent)(primary) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuDevicePrimaryCtxReset_v2)(0) == CUDA_SUCCESS);
  EXPECT(needed() == 0 && own_page_value("library_bytes") == 0);
  (void)own_alloc(2 * kMiB);
  EXPECT(needed() == 2 * kMiB && own_page_value("allocated_bytes_peak") == 5 * kMiB);
}

// The memory of a context ends with it.
void contexts() {
  const CUcontext primary = start();
  Library library("libcublas_stand_in.so");
  (void)library.alloc(4 * kMiB);
  CUcontext context = nullptr;
  EXPECT(DRIVER(cuCtxCreate_v4)(&context, nullptr, 0, 0) == CUDA_SUCCESS);
  (void)library.alloc(8 * kMiB);
  (void)own_alloc(2 * kMiB);  // the program's own: not managed, and no library's
  EXPECT(own_page_value("library_bytes") == 12 * kMiB);
  EXPECT(DRIVER(cuCtxDestroy_v2)(context) == CUDA_SUCCESS);
  EXPECT(own_page_value("library_bytes") == 4 * kMiB);
  EXPECT(DRIVER(cuCtxSetCurrent)(primary) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuDevicePrimaryCtxReset_v2)(0) == CUDA_SUCCESS);
  EXPECT(own_page_value("library_bytes") == 0);
}

// NCCL's way: memory by handles, mapped, and held by whatever is left of handles and mappings.
void handles() {
  using Create = CUresult(CUmemGenericAllocationHandle*, std::size_t, const CUmemAllocationProp*);
  start();
  Library library("libnccl.so.2");
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  const auto held = [] { return own_page_value("library_bytes"); };
  CUmemGenericAllocationHandle handle = 0;
  const auto create = [&] {
    EXPECT(library.find<Create>("tp_test_driver_create")(&handle, 2 * kMiB, &properties) == CUDA_SUCCESS);
  };
  CUdeviceptr at = 0;
  EXPECT(DRIVER(cuMemAddressReserve)(&at, 8 * kMiB, 0, 0, 0) == CUDA_SUCCESS);
  const auto release = DRIVER(cuMemRelease);
  const auto map = DRIVER(cuMemMap);
  const auto unmap = DRIVER(cuMemUnmap);

  create();
  EXPECT(held() == 2 * kMiB);
  EXPECT(release(handle) == CUDA_SUCCESS && held() == 0);
  EXPECT(release(handle) != CUDA_SUCCESS && held() == 0);

  // Released while it is mapped, at two places.
  create();
  EXPECT(map(at, 2 * kMiB, 0, handle, 0) == CUDA_SUCCESS &&
         map(at + 4 * kMiB, 2 * kMiB, 0, handle, 0) == CUDA_SUCCESS);
  EXPECT(release(handle) == CUDA_SUCCESS && held() == 2 * kMiB);
  // Where nothing is mapped an unmap succeeds and takes nothing (docs/reference/hardware).
  EXPECT(unmap(at + 2 * kMiB, 2 * kMiB) == CUDA_SUCCESS && held() == 2 * kMiB);
  EXPECT(unmap(at, 2 * kMiB) == CUDA_SUCCESS && held() == 2 * kMiB);
  // A handle that is taken back from the mapping holds it as well.
  CUmemGenericAllocationHandle again = 0;
  EXPECT(DRIVER(cuMemRetainAllocationHandle)(&again, reinterpret_cast<void*>(at + 4 * kMiB + 100)) ==
         CUDA_SUCCESS);
  EXPECT(unmap(at + 4 * kMiB, 2 * kMiB) == CUDA_SUCCESS && held() == 2 * kMiB);
  EXPECT(release(again) == CUDA_SUCCESS && held() == 0);

  // The program's own is not the library's, and memory of the host is not the device's.
  EXPECT(DRIVER(cuMemCreate)(&handle, 2 * kMiB, &properties, 0) == CUDA_SUCCESS && held() == 0);
  EXPECT(release(handle) == CUDA_SUCCESS && held() == 0);
  EXPECT(DRIVER(cuMemCreate)(nullptr, 2 * kMiB, &properties, 0) == CUDA_ERROR_INVALID_VALUE);
  EXPECT(DRIVER(cuMemCreate)(&handle, 2 * kMiB, nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {99}};
  EXPECT(library.find<Create>("tp_test_driver_create")(&handle, 2 * kMiB, &properties) != CUDA_SUCCESS &&
         held() == 0);
  EXPECT(DRIVER(cuMemAddressFree)(at, 8 * kMiB) == CUDA_SUCCESS);
}

// A child has none of its parent's, and a parent keeps its own.
void forked() {
  start();
  Library library("libcublas_stand_in.so");
  const CUdeviceptr at = library.alloc(4 * kMiB);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    (void)DRIVER(cuMemFree_v2)(at);
    _exit(own_page_value("library_bytes") == 0 ? 7 : 8);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
  EXPECT(own_page_value("library_bytes") == 4 * kMiB);
  EXPECT(DRIVER(cuMemFree_v2)(at) == CUDA_SUCCESS);
  EXPECT(own_page_value("library_bytes") == 0);
}

}  // namespace
}  // namespace tidepool::test

int main(int argc, char** argv) {
  using namespace tidepool::test;  // this file is the program
  const std::string_view which = argc == 3 ? argv[1] : "";
  if (argc == 3) g_folder = argv[2];
  if (which == "by_name")
    by_name();
  else if (which == "unloaded")
    unloaded();
  else if (which == "observed")
    observed();
  else if (which == "contexts")
    contexts();
  else if (which == "handles")
    handles();
  else if (which == "forked")
    forked();
  else
    return 2;
  std::puts("as expected");
  return 0;
}
