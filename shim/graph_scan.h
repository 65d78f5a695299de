#pragma once

#include <cuda.h>

#include "shim/touch_set.h"

namespace tidepool::shim {

/// Adds every managed block that a node of the graph names, nodes of child graphs included: launches of the
/// graph will use it unseen. False: there is a node whose memory cannot be told (a kind that we do not know,
/// a body behind a condition, a question that failed), so it may use any.
bool scan_graph(CUgraph graph, TouchSet& set) noexcept;

// The same for what one node is given.
bool scan_node(const CUDA_KERNEL_NODE_PARAMS& kernel, TouchSet& set) noexcept;
bool scan_node(const CUDA_KERNEL_NODE_PARAMS_v1& kernel, TouchSet& set) noexcept;
bool scan_node(const CUDA_MEMCPY3D& copy, TouchSet& set) noexcept;
bool scan_node(const CUDA_MEMSET_NODE_PARAMS& memset, TouchSet& set) noexcept;
bool scan_node(const CUDA_BATCH_MEM_OP_NODE_PARAMS& batch, TouchSet& set) noexcept;
bool scan_node(const CUgraphNodeParams& any, TouchSet& set) noexcept;

/// Says that streams await values if one of the operations waits: before the driver is given them.
void note_waits(const CUstreamBatchMemOpParams* operations, unsigned count) noexcept;
/// The address that a stream's memory operation names; 0 for the kinds that name none.
std::uint64_t address_of(const CUstreamBatchMemOpParams& operation) noexcept;
/// The word that it stores, which may be an address; 0: none.
std::uint64_t value_of(const CUstreamBatchMemOpParams& operation) noexcept;

}  // namespace tidepool::shim
