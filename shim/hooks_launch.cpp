// Kernel launches: scan the parameters, then launch once everything they name is on the device.

#include <cxxabi.h>

#include <cstdlib>
#include <span>
#include <utility>

#include "allocator/support/text_writer.h"
#include "shim/arg_scan.h"
#include "shim/entry.h"
#include "shim/gate_several.h"
#include "shim/kernel_symbol.h"
#include "shim/kernel_timer.h"
#include "shim/observe.h"
#include "shim/record.h"

namespace tidepool::shim {
namespace {

/// The kernel's name as its source has it, where that can be told. `function` may be a CUkernel.
void name_kernel(const void* function, std::span<char> buffer) noexcept {
  const char* const symbol = kernel_symbol(function);
  char* const readable = abi::__cxa_demangle(symbol, nullptr, nullptr, nullptr);
  TextWriter(buffer.data(), buffer.size()).put("kernel ").put(readable != nullptr ? readable : symbol);
  std::free(readable);
}

// Runs `enqueue()` with events around it, in iterations whose kernels are timed.
template <class Enqueue>
[[gnu::always_inline]] inline CUresult run_timed(TimedLaunch& timed, CUstream stream, bool per_thread,
                                                 Enqueue&& enqueue) noexcept {
  if (!timing()) [[likely]]
    return enqueue();
  timed.begin(stream, per_thread);
  const CUresult result = enqueue();
  timed.end(result);
  return result;
}

template <class Enqueue>
CUresult launch_on_several(CUfunction function, CUstream stream, bool per_thread, void** params, void** extra,
                           plan::LaunchRecord&& shape, Enqueue&& enqueue) noexcept {
  if (function == nullptr) return enqueue();
  const auto collect = [&](TouchSet& set) {
    return scan_arguments(active_driver(), function, params, extra, set);
  };
  const TouchedDevices touched(collect);
  TimedLaunch timed;
  const auto run = [&] { return run_timed(timed, stream, per_thread, enqueue); };
  const CUresult result =
      pass(touched, stream, per_thread, Waits::kNo, {&name_kernel, function}, Reach::kProgram, run);
  if (recording() && result == CUDA_SUCCESS && !is_capturing(stream, per_thread)) {
    const std::vector<std::uint32_t> blocks = touched.recorded();
    record_launch(std::move(shape), function, recorded_stream(stream, per_thread),
                  Touched(blocks, touched.is_known()));
    timed.recorded();
    write_durations();
  }
  return result;
}

// One device is managed.
template <class Enqueue>
CUresult launch_on_one(runtime::Runtime& runtime, CUfunction function, CUstream stream, bool per_thread,
                       void** params, void** extra, plan::LaunchRecord&& shape, Enqueue&& enqueue) noexcept {
  TouchSet set(runtime.arena());
  const runtime::WorkName what(&name_kernel, function);
  const bool known = scan_arguments(active_driver(), function, params, extra, set);
  TimedLaunch timed;
  const auto run = [&] { return run_timed(timed, stream, per_thread, enqueue); };
  const CUresult result =
      known ? pass(runtime, set, stream, per_thread, Waits::kNo, what, run)
            : pass(runtime, runtime.live_blocks(), stream, per_thread, Waits::kNo, what, run);
  if (!recording() || result != CUDA_SUCCESS || is_capturing(stream, per_thread)) return result;
  if (known) {
    record_launch(std::move(shape), function, stream_of(stream, per_thread), set);
  } else {
    record_launch_of_any(std::move(shape), function, stream_of(stream, per_thread));
  }
  timed.recorded();
  write_durations();
  return result;
}

// Every launch that is not as nearly all are. By value, so that those can keep their arguments in registers.
template <class C, class... A>
[[gnu::noinline]] CUresult launch_anyhow(C call, CUfunction function, CUstream stream, void** params,
                                         void** extra, plan::LaunchRecord shape, A... args) noexcept {
  const auto enqueue = [&] { return call(args...); };
  if (function == nullptr) return enqueue();
  if (runtime::Runtime* const runtime = only_managed()) {
    return launch_on_one(*runtime, function, stream, C::kPerThread, params, extra, std::move(shape), enqueue);
  }
  if (any_managed())
    return launch_on_several(function, stream, C::kPerThread, params, extra, std::move(shape), enqueue);
  if (!observes() || !recording() || is_capturing(stream, C::kPerThread)) return enqueue();
  ObservedSet set(runtime::ObservedMemory::instance());
  const bool known = scan_arguments(active_driver(), function, params, extra, set);
  TimedLaunch timed;
  const CUresult result = run_timed(timed, stream, C::kPerThread, enqueue);
  if (result != CUDA_SUCCESS) return result;
  const runtime::StreamHandle handle = recorded_stream(stream, C::kPerThread);
  if (known) {
    record_launch(std::move(shape), function, handle, set);
  } else {
    record_launch_of_any(std::move(shape), function, handle);
  }
  timed.recorded();
  write_durations();
  return result;
}

// One device is managed, nothing is recorded, the function is known, and all that the launch names is there.
// False: it is not so, or the driver had no memory; `result` says nothing then.
template <class C, class... A>
[[gnu::always_inline]] inline bool launch_at_once(const C& call, CUfunction function, CUstream stream,
                                                  void** params, CUresult* result, A... args) noexcept {
  runtime::Runtime* const runtime = only_managed();
  if (runtime == nullptr || recording() || function == nullptr) [[unlikely]]
    return false;
  TouchSet set(runtime->arena());
  if (!scan_known(function, params, set)) [[unlikely]]
    return false;
  return pass_at_once(*runtime, set, stream, call.kPerThread, result, [&] { return call(args...); });
}

constexpr auto kLaunchKernel = [](const auto& call, CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                                  unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream,
                                  void** params, void** extra) __attribute__((always_inline)) {
  CUresult result;
  if (launch_at_once(call, f, stream, params, &result, f, gx, gy, gz, bx, by, bz, shared, stream, params,
                     extra)) [[likely]]
    return result;
  return launch_anyhow(call, f, stream, params, extra, launch_shape(gx, gy, gz, bx, by, bz, shared), f, gx,
                       gy, gz, bx, by, bz, shared, stream, params, extra);
};

constexpr auto kLaunchKernelEx = [](const auto& call, const CUlaunchConfig* config, CUfunction f,
                                    void** params, void** extra) noexcept {
  if (config == nullptr) return call(config, f, params, extra);
  if (config->hStream == CU_STREAM_PER_THREAD) note_blocking_stream();
  const auto shape = [&] {
    return launch_shape(config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                        config->blockDimY, config->blockDimZ, config->sharedMemBytes);
  };
  CUresult result;
  if (launch_at_once(call, f, config->hStream, params, &result, config, f, params, extra)) [[likely]]
    return result;
  return launch_anyhow(call, f, config->hStream, params, extra, shape(), config, f, params, extra);
};

constexpr auto kLaunchCooperative = [](const auto& call, CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                                       unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                       CUstream stream, void** params) noexcept {
  CUresult result;
  if (launch_at_once(call, f, stream, params, &result, f, gx, gy, gz, bx, by, bz, shared, stream, params))
      [[likely]]
    return result;
  return launch_anyhow(call, f, stream, params, nullptr, launch_shape(gx, gy, gz, bx, by, bz, shared), f, gx,
                       gy, gz, bx, by, bz, shared, stream, params);
};

CUresult keep_named(std::span<const CUDA_LAUNCH_PARAMS> launches, const char* name) noexcept {
  if (!any_managed()) return CUDA_SUCCESS;
  const auto collect = [&](TouchSet& set) {
    bool known = true;
    for (const CUDA_LAUNCH_PARAMS& one : launches) {
      known = known && one.function != nullptr &&
              scan_arguments(active_driver(), one.function, one.kernelParams, nullptr, set);
    }
    return known;
  };
  for (const CUDA_LAUNCH_PARAMS& one : launches) note_unseen_use(one.hStream);
  return keep_blocks(TouchedDevices(collect), name);
}

// One launch on several devices at once: their streams are of several contexts.
constexpr auto kLaunchMultiDevice = [](const auto& call, CUDA_LAUNCH_PARAMS* launches, unsigned count,
                                       unsigned flags) noexcept {
  if (launches == nullptr || (!any_managed() && !observes())) return call(launches, count, flags);
  const CUresult kept = keep_named({launches, count}, call.kName);
  const auto launch = [&] { return call(launches, count, flags); };
  const CUresult result = kept == CUDA_SUCCESS ? with_room(launch) : kept;
  if (recording() && result == CUDA_SUCCESS) [[unlikely]] {
    for (unsigned i = 0; i < count; ++i) {
      const CUDA_LAUNCH_PARAMS& one = launches[i];
      record_launch_of_any(launch_shape(one.gridDimX, one.gridDimY, one.gridDimZ, one.blockDimX,
                                        one.blockDimY, one.blockDimZ, one.sharedMemBytes),
                           one.function, recorded_stream(one.hStream, call.kPerThread));
    }
  }
  return result;
};

// Launches whose parameters were set one by one before (cuParamSetv): they may name anything.
template <class C, class... A>
CUresult launch_any(const C& call, CUfunction function, CUstream stream, A... rest) noexcept {
  const auto enqueue = [&] { return call(function, rest...); };
  if (function == nullptr || (!any_managed() && !observes())) return enqueue();
  const CUresult result = any_managed() ? pass(TouchedDevices(), stream, call.kPerThread, Waits::kNo,
                                               {&name_kernel, function}, Reach::kProgram, enqueue)
                                        : enqueue();
  if (recording() && result == CUDA_SUCCESS) [[unlikely]]
    record_launch_of_any({}, function, recorded_stream(stream, call.kPerThread));
  return result;
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
  runtime::Recorder::instance().forget_kernels();
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
