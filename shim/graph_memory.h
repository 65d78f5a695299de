#pragma once

#include <cuda.h>

#include "allocator/support/units.h"
#include "shim/gate_several.h"

/// Memory that graphs allocate (allocation nodes; cuMemAllocAsync while it is captured). It is the driver's,
/// which takes it when a node is made, or when a graph is instantiated, uploaded or first launched, and keeps
/// it for other graphs until cuDeviceGraphMemTrim. What it holds is part of outside_bytes().
///
/// Where the driver may take some, blocks make way first, and what graphs hold is counted again afterwards. A
/// call is not made, and fails with CUDA_ERROR_OUT_OF_MEMORY and a message (TP2103 names `what`), if not even
/// the least that it may take fits into the budget beside what cannot move.
///
/// Thread-safe. May allocate.
namespace tidepool::shim {

using DriverCall = FunctionRef<CUresult()>;

/// Makes an allocation node by `call`.
CUresult make_allocation_node(const char* what, CUdevice device, Bytes size, DriverCall call) noexcept;
/// Makes `*out` of the graph by `call`.
CUresult make_instance(const char* what, CUgraph graph, const CUgraphExec* out, DriverCall call) noexcept;
/// Launches or uploads the instance by `call`. One load where no graph of the process allocates.
CUresult run_instance(const char* what, CUgraphExec instance, DriverCall call) noexcept;
/// Destroys the instance by `call`.
CUresult end_instance(CUgraphExec instance, DriverCall call) noexcept;

/// Counts what graphs hold on the device.
void count_graph_memory(CUdevice device) noexcept;
/// The device's context has ended, and its graphs with it.
void forget_graph_memory(CUdevice device) noexcept;

}  // namespace tidepool::shim
