#include "shim/kernel_symbol.h"

#include "shim/real_driver.h"

namespace tidepool::shim {

const char* kernel_symbol(const void* function) noexcept {
  const RealDriver& driver = active_driver();
  auto* const handle = const_cast<void*>(function);
  const char* symbol = nullptr;
  if (driver.cuFuncGetName != nullptr &&
      driver.cuFuncGetName(&symbol, static_cast<CUfunction>(handle)) == CUDA_SUCCESS && symbol != nullptr) {
    return symbol;
  }
  symbol = nullptr;
  const auto ask = driver.cuKernelGetName;
  if (ask == nullptr || ask(&symbol, static_cast<CUkernel>(handle)) != CUDA_SUCCESS) symbol = nullptr;
  return symbol != nullptr ? symbol : "(unnamed)";
}

}  // namespace tidepool::shim
