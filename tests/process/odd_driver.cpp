// A libcuda.so.1 for tests of `tidepool doctor`: as good, old, empty or broken as TIDEPOOL_TEST_DRIVER says.

#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace {

bool is(const char* what) {
  const char* const told = std::getenv("TIDEPOOL_TEST_DRIVER");
  return told != nullptr && std::strcmp(told, what) == 0;
}

}  // namespace

#define ODD extern "C" __attribute__((visibility("default"))) int

ODD cuDriverGetVersion(int* version) {
  *version = is("old") ? 11'080 : 12'090;
  return 0;
}
ODD cuInit(unsigned) {
  if (is("hang")) pause();
  if (is("crash")) std::raise(SIGSEGV);
  return is("refuses") ? 999 : 0;
}
ODD cuDeviceGetCount(int* count) {
  *count = is("empty") ? 0 : 1;
  return 0;
}
ODD cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}
ODD cuDeviceGetName(char* name, int room, int) {
  std::strncpy(name, "Odd", static_cast<std::size_t>(room));
  return 0;
}
ODD cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = std::size_t{8} << 30;
  return 0;
}
ODD cuDeviceGetAttribute(int* value, int, int) {
  *value = is("plain") ? 0 : 1;
  return 0;
}
ODD cuFuncGetParamInfo() {
  return 0;
}
ODD cuMemCreate() {
  return 0;
}
