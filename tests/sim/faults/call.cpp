#include "tests/sim/faults/call.h"

#include <cstdio>
#include <cstdlib>

namespace tidepool::faults {

bool g_twins = false;

void* symbol(const char* name) {
  static void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  for (const char* suffix : {"_ptsz", "_ptds", ""}) {
    if (!g_twins && *suffix != '\0') continue;
    if (void* const found =
            library == nullptr ? nullptr : ::dlsym(library, (name + std::string(suffix)).c_str()))
      return found;
  }
  std::fprintf(stderr, "the driver has no %s\n", name);
  std::exit(kOtherError);
}

void tell(const char* name, CUresult result, bool again) {
  std::fprintf(stderr, "told %s %d\n", name, static_cast<int>(result));
  if (again) std::exit(result == CUDA_ERROR_OUT_OF_MEMORY ? kNoMemory : kOtherError);
}

void wrong(const char* file, int line, const char* what) {
  std::fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
  std::exit(kWrongBytes);
}

}  // namespace tidepool::faults
