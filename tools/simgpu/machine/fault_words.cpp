#include "tools/simgpu/machine/fault_words.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "tools/simgpu/driver/cuda_api.h"

namespace simgpu {
namespace {

constexpr tidepool::FaultWords::Code kCodes[] = {
#define SIMGPU_ERROR(code, text) {#code, code},
#include "tools/simgpu/driver/errors.def"
#undef SIMGPU_ERROR
};

// These answer without the driver's state and never fail.
constexpr std::string_view kNoFaults[] = {
    "cuDriverGetVersion", "cuGetErrorName",      "cuGetErrorString", "cuGetExportTable",
    "cuGetProcAddress",   "cuGetProcAddress_v2", "cuInit",           "simgpuLibrarySetBody"};

constexpr std::string_view kEntries[] = {
#define SIMGPU_ENTRY(base, exported, since, twin) #base, #exported,
#include "tools/simgpu/driver/entries.def"
#undef SIMGPU_ENTRY
};

}  // namespace

tidepool::FaultWords fault_words() {
  static const auto* functions = [] {
    auto* made = new std::vector<std::string_view>;
    for (const std::string_view name : kEntries) {
      if (std::find(std::begin(kNoFaults), std::end(kNoFaults), name) == std::end(kNoFaults))
        made->push_back(name);
    }
    return made;
  }();
  return {kCodes, *functions};
}

}  // namespace simgpu
