// Kernel launches: scan the parameters, then launch once everything they name is on the device.

#include <cxxabi.h>

#include <cstdlib>
#include <span>

#include "allocator/support/text_writer.h"
#include "shim/arg_scan.h"
#include "shim/entry.h"
#include "shim/gate.h"

namespace tidepool::shim {
namespace {

/// The kernel's name as its source has it, where that can be told. `function` may be a CUkernel.
void name_kernel(const void* function, std::span<char> buffer) noexcept {
  const char* symbol = nullptr;
  const RealDriver& driver = active_driver();
  auto* handle = const_cast<void*>(function);
  if (driver.cuFuncGetName == nullptr ||
      driver.cuFuncGetName(&symbol, static_cast<CUfunction>(handle)) != CUDA_SUCCESS) {
    symbol = nullptr;
    if (driver.cuKernelGetName != nullptr)
      (void)driver.cuKernelGetName(&symbol, static_cast<CUkernel>(handle));
  }
  if (symbol == nullptr) symbol = "(unnamed)";
  char* const readable = abi::__cxa_demangle(symbol, nullptr, nullptr, nullptr);
  TextWriter(buffer.data(), buffer.size()).put("kernel ").put(readable != nullptr ? readable : symbol);
  std::free(readable);
}

template <class Enqueue>
CUresult launch(CUfunction function, CUstream stream, bool per_thread, void** params, void** extra,
                Enqueue&& enqueue) noexcept {
  runtime::Runtime* runtime = managed();
  if (runtime == nullptr || function == nullptr) return enqueue();
  TouchSet set(runtime->arena());
  const runtime::WorkName what(&name_kernel, function);
  if (!scan_arguments(active_driver(), function, params, extra, set)) [[unlikely]]
    return pass(*runtime, runtime->live_blocks(), stream, per_thread, Waits::kNo, what, enqueue);
  return pass(*runtime, set, stream, per_thread, Waits::kNo, what, enqueue);
}

constexpr auto kLaunchKernel = [](const auto& call, CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                                  unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream,
                                  void** params, void** extra) noexcept {
  return launch(f, stream, call.kPerThread, params, extra,
                [&] { return call(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra); });
};

constexpr auto kLaunchKernelEx = [](const auto& call, const CUlaunchConfig* config, CUfunction f,
                                    void** params, void** extra) noexcept {
  if (config == nullptr) return call(config, f, params, extra);
  return launch(f, config->hStream, call.kPerThread, params, extra,
                [&] { return call(config, f, params, extra); });
};

constexpr auto kLaunchCooperative = [](const auto& call, CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                                       unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                       CUstream stream, void** params) noexcept {
  return launch(f, stream, call.kPerThread, params, nullptr,
                [&] { return call(f, gx, gy, gz, bx, by, bz, shared, stream, params); });
};

// One launch on several devices at once: their streams are of several contexts.
constexpr auto kLaunchMultiDevice = [](const auto& call, CUDA_LAUNCH_PARAMS* launches, unsigned count,
                                       unsigned flags) noexcept {
  runtime::Runtime* runtime = managed();
  if (runtime == nullptr || launches == nullptr) return call(launches, count, flags);
  TouchSet set(runtime->arena());
  bool known = true;
  for (unsigned i = 0; i < count; ++i) {
    CUfunction function = launches[i].function;
    known = known && function != nullptr &&
            scan_arguments(active_driver(), function, launches[i].kernelParams, nullptr, set);
  }
  const CUresult kept = known && set.complete() ? keep_blocks(*runtime, set.ids(), call.kName)
                                                : keep_blocks(*runtime, runtime->live_blocks(), call.kName);
  return kept == CUDA_SUCCESS ? call(launches, count, flags) : kept;
};

// Launches whose parameters were set one by one before (cuParamSetv): they may name anything.
template <class C, class... A>
CUresult launch_any(const C& call, CUfunction function, CUstream stream, A... rest) noexcept {
  runtime::Runtime* runtime = managed();
  if (runtime == nullptr || function == nullptr) return call(function, rest...);
  return pass(*runtime, runtime->live_blocks(), stream, call.kPerThread, Waits::kNo, {&name_kernel, function},
              [&] { return call(function, rest...); });
}
constexpr auto kLaunchOld = [](const auto& call, CUfunction f, auto... grid) noexcept {
  return launch_any(call, f, nullptr, grid...);
};
constexpr auto kLaunchOldAsync = [](const auto& call, CUfunction f, int width, int height,
                                    CUstream stream) noexcept {
  return launch_any(call, f, stream, width, height, stream);
};

// Before the call: once it has begun, another thread may be given a handle of the old functions.
constexpr auto kUnload = [](const auto& call, auto handle) noexcept {
  forget_layouts();
  return call(handle);
};

}  // namespace

TP_HANDLE_PTSZ(cuLaunchKernel, kLaunchKernel)
TP_HANDLE_PTSZ(cuLaunchKernelEx, kLaunchKernelEx)
TP_HANDLE_PTSZ(cuLaunchCooperativeKernel, kLaunchCooperative)
TP_HANDLE(cuLaunchCooperativeKernelMultiDevice, kLaunchMultiDevice)
TP_HANDLE(cuLaunch, kLaunchOld)
TP_HANDLE(cuLaunchGrid, kLaunchOld)
TP_HANDLE(cuLaunchGridAsync, kLaunchOldAsync)
TP_HANDLE(cuModuleUnload, kUnload)
TP_HANDLE(cuLibraryUnload, kUnload)

}  // namespace tidepool::shim
