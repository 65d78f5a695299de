#include "tools/simgpu/driver/readable_name.h"

#include <cxxabi.h>

#include <cstdlib>

namespace simgpu {

std::string readable_name(const std::string& symbol) {
  int status = 0;
  char* plain = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  std::string name = status == 0 ? plain : symbol;
  std::free(plain);
  return name;
}

}  // namespace simgpu
