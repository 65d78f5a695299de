// Puts in front of the simulated device what it does not have yet: handles that are exported as descriptors.
// An export is a file with the handle's contents and an import is new memory with the file's, so bytes
// outlive their maker as they do on hardware; what one side writes later is not seen by the other.
// With TP_TEST_KEEP_IMPORTS set, what was imported is never given back.

#include <cuda.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

namespace {

using Lookup = void* (*)(void*, const char*);

Lookup real_dlsym() {
  static const auto found = [] {
    void* const newer = ::dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    return reinterpret_cast<Lookup>(newer != nullptr ? newer : ::dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"));
  }();
  return found;
}

void* g_driver = nullptr;
std::map<CUmemGenericAllocationHandle, std::size_t>& sizes() {
  static auto* made = new std::map<CUmemGenericAllocationHandle, std::size_t>;
  return *made;
}

std::set<CUmemGenericAllocationHandle>& imports() {
  static auto* made = new std::set<CUmemGenericAllocationHandle>;
  return *made;
}

template <class Function>
Function driver(const char* name) {
  return reinterpret_cast<Function>(real_dlsym()(g_driver, name));
}
#define TP_TEST_DRIVER(name) driver<decltype(&::name)>(#name)

CUresult create(CUmemGenericAllocationHandle* out, std::size_t size, const CUmemAllocationProp* wanted,
                unsigned long long flags) {
  const CUresult result = TP_TEST_DRIVER(cuMemCreate)(out, size, wanted, flags);
  if (result == CUDA_SUCCESS) sizes()[*out] = size;
  return result;
}

/// Copies a handle's contents to or from host memory.
void move_contents(CUmemGenericAllocationHandle handle, void* host, bool to_host) {
  const std::size_t size = sizes()[handle];
  CUdeviceptr base = 0;
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  TP_TEST_DRIVER(cuMemAddressReserve)(&base, size, 0, 0, 0);
  TP_TEST_DRIVER(cuMemMap)(base, size, 0, handle, 0);
  TP_TEST_DRIVER(cuMemSetAccess)(base, size, &access, 1);
  if (to_host) {
    TP_TEST_DRIVER(cuMemcpyDtoH_v2)(host, base, size);
  } else {
    TP_TEST_DRIVER(cuMemcpyHtoD_v2)(base, host, size);
  }
  TP_TEST_DRIVER(cuCtxSynchronize)();  // a copy from pageable memory returns before it has arrived
  TP_TEST_DRIVER(cuMemUnmap)(base, size);
  TP_TEST_DRIVER(cuMemAddressFree)(base, size);
}

CUresult export_handle(void* out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType,
                       unsigned long long) {
  const std::size_t size = sizes()[handle];
  const int file = ::memfd_create("exported", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(size)) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  void* bytes = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (bytes == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  move_contents(handle, bytes, true);
  ::munmap(bytes, size);
  std::memcpy(out, &file, sizeof file);
  return CUDA_SUCCESS;
}

CUresult import_handle(CUmemGenericAllocationHandle* out, void* descriptor, CUmemAllocationHandleType) {
  const int file = static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor));
  struct stat about {};
  if (::fstat(file, &about) != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto size = static_cast<std::size_t>(about.st_size);
  void* bytes = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  if (bytes == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  const CUresult result = create(out, size, &wanted, 0);
  if (result == CUDA_SUCCESS) {
    move_contents(*out, bytes, false);
    imports().insert(*out);
  }
  ::munmap(bytes, size);
  return result;
}

CUresult release(CUmemGenericAllocationHandle handle) {
  if (imports().erase(handle) != 0 && std::getenv("TP_TEST_KEEP_IMPORTS") != nullptr) return CUDA_SUCCESS;
  return TP_TEST_DRIVER(cuMemRelease)(handle);
}

struct Replaced {
  const char* name;
  void* function;
};
const Replaced kReplaced[] = {
    {"cuMemCreate", reinterpret_cast<void*>(&create)},
    {"cuMemExportToShareableHandle", reinterpret_cast<void*>(&export_handle)},
    {"cuMemImportFromShareableHandle", reinterpret_cast<void*>(&import_handle)},
    {"cuMemRelease", reinterpret_cast<void*>(&release)},
};

}  // namespace

extern "C" __attribute__((visibility("default"))) void* dlsym(void* handle, const char* name) noexcept {
  for (const Replaced& replaced : kReplaced) {
    if (std::strcmp(replaced.name, name) != 0) continue;
    g_driver = handle;
    return replaced.function;
  }
  return real_dlsym()(handle, name);
}
