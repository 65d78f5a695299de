#include "tools/simgpu/runtime/runtime.h"

/// "Driver Entry Point Access" of the CUDA runtime API.

namespace simgpu::runtime {
namespace {

cudaError_t entry_point(const char* symbol, void** function, int version, unsigned long long flags,
                        bool per_thread, cudaDriverEntryPointQueryResult* status) {
  return call_driver([&](const DriverTable&) {
    if (flags == cudaEnableDefault && per_thread) flags = cudaEnablePerThreadDefaultStream;
    CUdriverProcAddressQueryResult found{};
    const CUresult result = driver_lookup()(symbol, function, version, flags, &found);
    if (result == CUDA_SUCCESS && status != nullptr)
      *status = static_cast<cudaDriverEntryPointQueryResult>(found);
    return result;
  });
}

}  // namespace

SIMGPU_RUNTIME_TWINS(cudaGetDriverEntryPointByVersion, _ptsz,
                     (const char* symbol, void** function, unsigned version, unsigned long long flags,
                      cudaDriverEntryPointQueryResult* status),
                     symbol, function, version, flags, status) {
  return entry_point(symbol, function, static_cast<int>(version), flags, per_thread, status);
}

SIMGPU_RUNTIME_TWINS(cudaGetDriverEntryPoint, _ptsz,
                     (const char* symbol, void** function, unsigned long long flags,
                      cudaDriverEntryPointQueryResult* status),
                     symbol, function, flags, status) {
  return entry_point(symbol, function, CUDART_VERSION, flags, per_thread, status);
}

/// The driver counts what is asked for.
SIMGPU_RUNTIME(cudaGetExportTable, (const void** table, const cudaUUID_t* id)) {
  return call_driver([&](const DriverTable& d) { return d.cuGetExportTable(table, id); });
}

}  // namespace simgpu::runtime
