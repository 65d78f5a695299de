// The start, and lookups: cuInit loads the library that CUDA_INJECTION64_PATH names, as the driver does, and
// cuGetProcAddress knows every entry.

#include <cuda.h>
#include <dlfcn.h>

#include <cstdlib>
#include <mutex>
#include <string>

#include "tests/fakes/recording_driver/answers.h"
#include "tests/fakes/recording_driver/faults.h"
#include "tests/fakes/recording_driver/recorded_entry.h"

namespace tidepool::fakes {
namespace {

void inject() {
  const char* const path = std::getenv("CUDA_INJECTION64_PATH");
  void* const library = path != nullptr && *path != '\0' ? ::dlopen(path, RTLD_NOW) : nullptr;
  if (library == nullptr) return;
  const auto start = reinterpret_cast<int (*)()>(::dlsym(library, "InitializeInjection"));
  if (start != nullptr) (void)start();
}

CUresult init(unsigned) {
  static std::once_flag g_once;
  std::call_once(g_once, inject);
  return CUDA_SUCCESS;
}

/// The newest version that there is a symbol for; the per-thread twin first where it is asked for.
void* find_symbol(const std::string& name, bool per_thread) {
  for (const char* version : {"_v4", "_v3", "_v2", ""}) {
    const std::string base = name + version;
    for (const char* twin : {"_ptsz", "_ptds", ""}) {
      if (*twin != '\0' && !per_thread) continue;
      if (const EntryRow row = find_entry(base + twin); row.entry != nullptr) return row.symbol;
    }
  }
  return nullptr;
}

void* find_newer(const std::string& name) {
  const EntryRow newer = newer_entry();
  static const std::string versioned = name + "_v9";  // one fault, one name
  newer.entry->name = versioned.c_str();
  const std::string second = name + "_v2";
  newer.entry->function = answer_of(find_entry(second).entry != nullptr ? second : name);
  return newer.symbol;
}

CUresult get_proc_address_v2(const char* symbol, void** out, int, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  if (symbol == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  *out = faults().newer == symbol ? find_newer(symbol) : find_symbol(symbol, per_thread);
  if (status != nullptr) {
    *status = *out != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return CUDA_SUCCESS;
}

CUresult get_proc_address(const char* symbol, void** out, int version, cuuint64_t flags) {
  const CUresult result = get_proc_address_v2(symbol, out, version, flags, nullptr);
  return result == CUDA_SUCCESS && *out == nullptr ? CUDA_ERROR_NOT_FOUND : result;
}

// The driver's private tables: there are none.
CUresult get_export_table(const void** out, const CUuuid*) {
  *out = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}

CUresult get_error_name(CUresult error, const char** out) {
  *out = error == CUDA_SUCCESS                 ? "CUDA_SUCCESS"
         : error == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                               : "CUDA_ERROR_UNKNOWN";
  return CUDA_SUCCESS;
}

}  // namespace

std::span<const NullEntry> lookup_answers() {
  static const NullEntry answers[] = {
      {"cuInit", reinterpret_cast<void*>(&init)},
      {"cuGetProcAddress", reinterpret_cast<void*>(&get_proc_address)},
      {"cuGetProcAddress_v2", reinterpret_cast<void*>(&get_proc_address_v2)},
      {"cuGetExportTable", reinterpret_cast<void*>(&get_export_table)},
      {"cuGetErrorName", reinterpret_cast<void*>(&get_error_name)},
      {"cuGetErrorString", reinterpret_cast<void*>(&get_error_name)},
  };
  return answers;
}

}  // namespace tidepool::fakes
