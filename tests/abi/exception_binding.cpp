// Throws and catches, and checks that whoever is preloaded did not take the unwinder over: it must come from
// libgcc_s, as in every C++ program, and dlsym must still answer for names that are nobody's hook.

#include <dlfcn.h>
#include <unwind.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

namespace {

[[noreturn]] void fail(const char* what, const char* detail) {
  std::fprintf(stderr, "%s: %s\n", what, detail);
  std::exit(EXIT_FAILURE);
}

void expect_from_libgcc(const char* what, void* function) {
  Dl_info info{};
  if (function == nullptr || dladdr(function, &info) == 0) fail(what, "is nowhere");
  if (std::strstr(info.dli_fname, "/libgcc_s.so") == nullptr) fail(what, info.dli_fname);
}

}  // namespace

int main() {
  expect_from_libgcc("linked _Unwind_RaiseException", reinterpret_cast<void*>(&_Unwind_RaiseException));
  expect_from_libgcc("found _Unwind_RaiseException", dlsym(RTLD_DEFAULT, "_Unwind_RaiseException"));
  try {
    throw std::runtime_error("thrown under preload");
  } catch (const std::exception& error) {
    std::puts(error.what());
    return EXIT_SUCCESS;
  }
}
