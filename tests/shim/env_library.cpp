// Reads the settings of PyTorch's allocator in a static initialiser, as libc10_cuda.so does.

#include <cstdlib>
#include <string>

namespace {

std::string read_both() {
  std::string text;
  for (const char* name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    const char* const value = std::getenv(name);
    const char* const safe = secure_getenv(name);
    text += value != nullptr ? value : "(null)";
    text += ';';
    if ((value == nullptr) != (safe == nullptr) || (value != nullptr && std::string(value) != safe))
      text += "differs;";
  }
  return text;
}

const std::string g_read = read_both();

}  // namespace

extern "C" __attribute__((visibility("default"))) const char* tp_test_env_read() {
  return g_read.c_str();
}
