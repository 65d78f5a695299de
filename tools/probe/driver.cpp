#include "tools/probe/driver.h"

#include <dlfcn.h>

namespace tidepool::probe {
namespace {

Driver g_driver;

}  // namespace

std::string open_driver() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    const char* why = ::dlerror();
    return why != nullptr ? why : "libcuda.so.1 cannot be opened";
  }
  const auto find = [library](const char* symbol) { return ::dlsym(library, symbol); };
  if (const char* missing = g_driver.fill(find)) return std::string("the driver has no ") + missing;
#define TP_PROBE_DRIVER(symbol, type) g_driver.symbol = reinterpret_cast<type>(find(#symbol));
#include "tools/probe/driver.def"
#undef TP_PROBE_DRIVER
  g_driver.event_elapsed = reinterpret_cast<decltype(g_driver.event_elapsed)>(find("cuEventElapsedTime"));
  g_driver.set_kernel_body = reinterpret_cast<SimgpuLibrarySetBodyFn>(find("simgpuLibrarySetBody"));
  return "";
}

const Driver& cu() {
  return g_driver;
}

std::string result_name(CUresult result) {
  const char* name = nullptr;
  if (g_driver.cuGetErrorName != nullptr && g_driver.cuGetErrorName(result, &name) == CUDA_SUCCESS &&
      name != nullptr) {
    return name;
  }
  return "CUresult " + std::to_string(static_cast<int>(result));
}

DriverError::DriverError(const char* call, CUresult result)
    : std::runtime_error(std::string(call) + ": " + result_name(result)), result_(result) {}

}  // namespace tidepool::probe
