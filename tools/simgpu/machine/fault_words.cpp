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

// These answer without the driver's state, before cuInit too.
constexpr std::string_view kAlwaysAnswer[] = {"cuDriverGetVersion", "cuGetErrorName",
                                              "cuGetErrorString",   "cuGetExportTable",
                                              "cuGetProcAddress",   "cuGetProcAddress_v2"};

constexpr std::string_view kUnsupported[] = {
#define SIMGPU_UNSUPPORTED(base, exported, since, twin) #base, #exported,
#include "tools/simgpu/driver/unsupported.def"
#undef SIMGPU_UNSUPPORTED
};

constexpr std::string_view kEntries[] = {
#define SIMGPU_ENTRY(base, exported, since, twin) #base, #exported,
#include "tools/simgpu/driver/entries.def"
#undef SIMGPU_ENTRY
};

}  // namespace

tidepool::FaultWords fault_words() {
  struct Lists {
    std::vector<std::string_view> functions;
    std::vector<tidepool::FaultWords::Excluded> excluded;
  };
  static const auto* lists = [] {
    auto* made = new Lists;
    for (const std::string_view name : kAlwaysAnswer)
      made->excluded.push_back({name, "answers without the device and never fails by a plan"});
    const auto& always = kAlwaysAnswer;
    for (const std::string_view name : kEntries) {
      if (std::find(std::begin(always), std::end(always), name) == std::end(always) && name.starts_with("cu"))
        made->functions.push_back(name);
    }
    for (const std::string_view name : kUnsupported)
      made->excluded.push_back({name, "is not supported here and always answers CUDA_ERROR_NOT_SUPPORTED"});
    return made;
  }();
  return {kCodes, lists->functions, lists->excluded,
          "want a function of the CUDA driver API, as cuMemAlloc, or copy, link, device or process"};
}

}  // namespace simgpu
