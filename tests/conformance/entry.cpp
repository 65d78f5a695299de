#include "tests/conformance/entry.h"

#include <dlfcn.h>

#include <string>

#include "tests/conformance/case.h"

namespace conformance {
namespace {

void* driver_library() {
  static void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) skip(std::string("there is no driver: ") + ::dlerror());
  return library;
}

}  // namespace

bool driver_has(const char* name) {
  return ::dlsym(driver_library(), name) != nullptr;
}

void* driver_symbol(const char* name) {
  void* const found = ::dlsym(driver_library(), name);
  if (found == nullptr) fail(__FILE__, __LINE__, std::string("the driver has no ") + name);
  return found;
}

void* runtime_symbol(const char* name) {
  void* const found = ::dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) fail(__FILE__, __LINE__, std::string("the runtime has no ") + name);
  return found;
}

}  // namespace conformance
