#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cerrno>
#include <string>

#include "tools/simgpu/driver/api.h"

namespace simgpu {
namespace {

struct ErrorRow {
  CUresult code;
  const char* name;
  const char* text;
};

constexpr ErrorRow kErrors[] = {
#define SIMGPU_ERROR(code, text) {code, #code, text},
#include "tools/simgpu/driver/errors.def"
#undef SIMGPU_ERROR
};

const ErrorRow* find_error(CUresult code) {
  for (const ErrorRow& row : kErrors) {
    if (row.code == code) return &row;
  }
  return nullptr;
}

std::string uuid_text(const CUuuid& id) {
  std::string text;
  for (std::size_t i = 0; i < sizeof id.bytes; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(id.bytes[i]);
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[byte / 16];
    text += kDigits[byte % 16];
  }
  return text;
}

}  // namespace

extern "C" SIMGPU_EXPORT CUresult CUDAAPI cuGetErrorName(CUresult error, const char** name) {
  count_call(Entry::cuGetErrorName);
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorRow* row = find_error(error);
  *name = row == nullptr ? nullptr : row->name;
  return row == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

extern "C" SIMGPU_EXPORT CUresult CUDAAPI cuGetErrorString(CUresult error, const char** text) {
  count_call(Entry::cuGetErrorString);
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorRow* row = find_error(error);
  *text = row == nullptr ? nullptr : row->text;
  return row == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/// The table that the vendor's run time asks for first, as static programs of CUDA 12 and 13 were seen to.
constexpr const char* kTableOfRuntime = "6bd5fb6c-5bf4-e74a-8987-d93912fd9df9";

/// Says once that code at this address has the vendor's run time in it.
static void refuse_private_table(const void* caller) {
  static std::atomic<bool> said{false};
  Dl_info asks{};
  link_map* map = nullptr;
  const bool known = ::dladdr1(caller, &asks, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) != 0;
  // The program itself is the object without a name.
  const bool is_program = known && map != nullptr && map->l_name[0] == '\0';
  if (is_program) page().static_runtime.store(1, std::memory_order_relaxed);
  if (said.exchange(true)) return;
  const std::string who = is_program ? program_invocation_name : known ? asks.dli_fname : "the program";
  report_error(who +
               " is linked with the static CUDA run time, which needs the vendor's driver: its CUDA calls "
               "fail here; build it with -cudart shared");
}

/// simgpu has no private tables; programs with static cudart need them and cannot run on it. Which were asked
/// for is in the report.
extern "C" SIMGPU_EXPORT CUresult CUDAAPI cuGetExportTable(const void** table, const CUuuid* id) {
  count_call(Entry::cuGetExportTable);
  if (table == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::string uuid = uuid_text(*id);
  note_export_table(uuid.c_str());
  if (uuid == kTableOfRuntime) refuse_private_table(__builtin_return_address(0));
  return CUDA_ERROR_NOT_FOUND;
}

}  // namespace simgpu
