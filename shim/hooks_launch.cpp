// Kernel launches: scan the parameters, then launch once everything they name is on the device.

#include "shim/arg_scan.h"
#include "shim/entry.h"
#include "shim/managed.h"
#include "shim/touch_set.h"

namespace tidepool::shim {
namespace {

const char* kernel_name(const void* function) noexcept {
  const char* name = nullptr;
  const RealDriver& driver = active_driver();
  auto* handle = static_cast<CUfunction>(const_cast<void*>(function));
  if (driver.cuFuncGetName == nullptr || driver.cuFuncGetName(&name, handle) != CUDA_SUCCESS)
    return "(unnamed)";
  return name != nullptr ? name : "(unnamed)";
}

template <class Enqueue>
CUresult launch(CUfunction function, CUstream stream, bool per_thread, void** params, void** extra,
                Enqueue&& enqueue) noexcept {
  runtime::Runtime* runtime = managed();
  if (runtime == nullptr || function == nullptr) return enqueue();
  TouchSet set(*runtime);
  const auto run = [&](std::span<const runtime::BlockId> ids) {
    return static_cast<CUresult>(runtime->launch(ids, stream_of(stream, per_thread), {&kernel_name, function},
                                                 [&] { return static_cast<int>(enqueue()); }));
  };
  if (!scan_arguments(active_driver(), function, params, extra, set)) return run(runtime->live_blocks());
  if (set.empty()) return enqueue();
  return run(set.ids());
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

// A handle of a function can come back for another function.
constexpr auto kUnload = [](const auto& call, auto handle) noexcept {
  const CUresult result = call(handle);
  forget_layouts();
  return result;
};

}  // namespace

TP_HANDLE_PTSZ(cuLaunchKernel, kLaunchKernel)
TP_HANDLE_PTSZ(cuLaunchKernelEx, kLaunchKernelEx)
TP_HANDLE_PTSZ(cuLaunchCooperativeKernel, kLaunchCooperative)
TP_HANDLE(cuModuleUnload, kUnload)
TP_HANDLE(cuLibraryUnload, kUnload)

}  // namespace tidepool::shim
