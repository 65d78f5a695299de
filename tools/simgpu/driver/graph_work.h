#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <variant>
#include <vector>

#include "tools/simgpu/driver/cuda_api.h"

namespace simgpu {

class Graph;
struct GraphAllocation;

/// What a kernel node launches. Parameters are the node's own copy; the arrays that a read-out points to are
/// built when somebody asks, from the bytes.
struct KernelWork {
  CUfunction function = nullptr;  ///< as given; null where only `kernel_handle` was given
  CUkernel kernel_handle = nullptr;
  CUcontext context = nullptr;
  std::array<std::uint32_t, 3> grid{};
  std::array<std::uint32_t, 3> block{};
  std::uint32_t dynamic_shared = 0;
  std::map<CUlaunchAttributeID, CUlaunchAttributeValue> attributes;  ///< those that were set
  bool packed = false;  ///< the parameters came in one buffer, by `extra`
  std::vector<unsigned char> params;

  std::vector<void*> param_pointers;  ///< what the latest read-out handed out
  std::array<void*, 5> extra{};
  std::size_t packed_bytes = 0;

  /// The handle that the driver's table of kernels knows.
  [[nodiscard]] const void* handle() const {
    return function != nullptr ? static_cast<const void*>(function) : kernel_handle;
  }
  [[nodiscard]] bool cooperative() const {
    const auto it = attributes.find(CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
    return it != attributes.end() && it->second.cooperative != 0;
  }
};

struct MemcpyWork {
  CUDA_MEMCPY3D copy{};
  CUcontext context = nullptr;
};

struct MemsetWork {
  CUDA_MEMSET_NODE_PARAMS_v2 fill{};
};

struct HostWork {
  CUhostFn function = nullptr;
  void* argument = nullptr;
};

struct EmptyWork {};

/// A graph inside a node. Handles of it and its nodes stay valid as long as the node.
struct ChildWork {
  std::unique_ptr<Graph> graph;
  CUgraphChildGraphNodeOwnership ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE;
};

struct EventRecordWork {
  CUevent event = nullptr;
};

struct EventWaitWork {
  CUevent event = nullptr;
};

/// The executable graph's copy shares the allocation.
struct AllocWork {
  CUmemPoolProps properties{};
  std::shared_ptr<GraphAllocation> allocation;
};

struct FreeWork {
  CUdeviceptr address = 0;
  std::shared_ptr<const void> claim;  ///< the nodes that free this allocation, as long as there is one
};

/// What a node does. The order is that of kTypes in graph.cpp.
using NodeWork = std::variant<KernelWork, MemcpyWork, MemsetWork, HostWork, EmptyWork, ChildWork,
                              EventRecordWork, EventWaitWork, AllocWork, FreeWork>;

CUgraphNodeType type_of(const NodeWork& work);

}  // namespace simgpu
