// Drivers that share less than the simulated one, for the probe that is behind this library. With
// TP_TEST_NO_EXPORT set the driver has no cuMemExportToShareableHandle; with TP_TEST_KEEP_IMPORTS set, memory
// that was imported never comes back.

#include <cuda.h>
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
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

template <class Function>
Function driver(const char* name) {
  return reinterpret_cast<Function>(real_dlsym()(g_driver, name));
}
#define TP_TEST_DRIVER(name) driver<decltype(&::name)>(#name)

std::set<CUmemGenericAllocationHandle>& imports() {
  static auto* made = new std::set<CUmemGenericAllocationHandle>;
  return *made;
}

CUresult import_handle(CUmemGenericAllocationHandle* out, void* descriptor, CUmemAllocationHandleType type) {
  const CUresult result = TP_TEST_DRIVER(cuMemImportFromShareableHandle)(out, descriptor, type);
  if (result == CUDA_SUCCESS) imports().insert(*out);
  return result;
}

CUresult release(CUmemGenericAllocationHandle handle) {
  if (imports().erase(handle) != 0) return CUDA_SUCCESS;
  return TP_TEST_DRIVER(cuMemRelease)(handle);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void* dlsym(void* handle, const char* name) noexcept {
  const auto asked_for = [name](const char* wanted, const char* variable) {
    return std::strcmp(name, wanted) == 0 && std::getenv(variable) != nullptr;
  };
  if (asked_for("cuMemExportToShareableHandle", "TP_TEST_NO_EXPORT")) return nullptr;
  if (asked_for("cuMemImportFromShareableHandle", "TP_TEST_KEEP_IMPORTS")) {
    g_driver = handle;
    return reinterpret_cast<void*>(&import_handle);
  }
  if (asked_for("cuMemRelease", "TP_TEST_KEEP_IMPORTS")) return reinterpret_cast<void*>(&release);
  return real_dlsym()(handle, name);
}
