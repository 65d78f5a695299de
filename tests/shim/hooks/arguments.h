#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "shim/hook_table.h"

/// Arguments for any hook, from its type alone: one address that is managed, at one of the places where the
/// call can take an address, by itself or inside a structure.
namespace tidepool::test {

using shim::HookType;

/// Arguments that are no address, though their type would allow one, by function and position.
inline bool is_no_address(std::string_view name, std::size_t index) {
  constexpr std::pair<std::string_view, std::size_t> kOthers[] = {
      {"cuPointerSetAttribute", 0},          // a value, in host memory
      {"cuMemGetHandleForAddressRange", 0},  // where a handle goes
      {"cuMemRetainAllocationHandle", 0},   {"cuTexObjectCreate", 0},
      {"cuMemGetHandleForAddressRange", 4},  // flags, as all below
      {"cuMulticastBindAddr", 0},            // a handle
      {"cuMulticastBindAddr", 4},           {"cuMemcpy3DBatchAsync", 3},
      {"cuMemcpy3DBatchAsync_v2", 2},       {"cuGraphInstantiateWithFlags", 2},
  };
  for (const auto& [other, at] : kOthers) {
    if (at == index && (name == other || (name.starts_with(other) && name.substr(other.size()) == "_ptsz")))
      return true;
  }
  return false;
}

/// Objects that calls need besides addresses.
struct Objects {
  CUcontext context;
  CUstream stream;
  CUfunction function;  ///< takes two addresses and an int
  CUkernel kernel;      ///< the same
};

class Arguments {
 public:
  /// `wanted`: the place that gets the address, from 0; all other places get null.
  Arguments(std::string_view hook, const Objects& objects, CUdeviceptr address, int wanted)
      : hook_(hook), objects_(objects), address_(address), wanted_(wanted) {}

  /// How many places there were.
  [[nodiscard]] int places() const { return places_; }

  template <class... A>
  CUresult call(CUresult (*function)(A...)) {
    return apply(function, std::index_sequence_for<A...>());
  }

 private:
  template <class... A, std::size_t... I>
  CUresult apply(CUresult (*function)(A...), std::index_sequence<I...>) {
    const std::tuple<A...> made{make<A>(I)...};  // braces: from the first to the last
    return std::apply(function, made);
  }

  CUdeviceptr place() { return places_++ == wanted_ ? address_ : 0; }
  void* place_pointer() { return reinterpret_cast<void*>(place()); }

  template <class T>
  T* blank() {
    return reinterpret_cast<T*>(memory_.emplace_back().bytes.data());
  }

  template <class A>
  A make(std::size_t index) {
    if constexpr (std::is_same_v<A, CUdeviceptr>) {
      return is_no_address(hook_, index) ? 0 : place();
    } else if constexpr (std::is_same_v<A, CUcontext>) {
      return objects_.context;
    } else if constexpr (std::is_same_v<A, CUstream>) {
      return objects_.stream;
    } else if constexpr (std::is_same_v<A, CUfunction>) {
      return objects_.function;
    } else if constexpr (std::is_same_v<A, CUkernel>) {
      return objects_.kernel;
    } else if constexpr (std::is_same_v<A, CUgraph>) {
      return graph();
    } else if constexpr (std::is_same_v<A, void**>) {
      return std::exchange(has_parameters_, true) ? nullptr : parameters();
    } else if constexpr (std::is_same_v<A, void*> || std::is_same_v<A, const void*>) {
      return is_no_address(hook_, index) ? blank<void>() : place_pointer();
    } else if constexpr (std::is_pointer_v<A>) {
      using Target = std::remove_const_t<std::remove_pointer_t<A>>;
      auto* const made = blank<Target>();
      if constexpr (requires(Arguments & self, Target & target) { self.fill(target); }) {
        if (!is_no_address(hook_, index)) fill(*made);
      }
      return made;
    } else if constexpr (std::is_same_v<A, int>) {
      return 0;  // a device, mostly
    } else {
      return static_cast<A>(1);
    }
  }

  // A graph of one memset (witness.h answers for it), where the call looks at a graph's nodes.
  CUgraph graph() {
    auto* const node = blank<CUDA_MEMSET_NODE_PARAMS>();
    for (std::string_view part : {"Instantiate", "ExecUpdate", "ExecChildGraph"}) {
      if (hook_.find(part) != hook_.npos) node->dst = place();
    }
    return reinterpret_cast<CUgraph>(node);
  }

  // What a kernel with two addresses and an int is given.
  void** parameters(CUdeviceptr first, CUdeviceptr second) {
    auto* const values = blank<CUdeviceptr>();
    values[0] = first;
    values[1] = second;
    auto** const made = blank<void*>();
    for (int i = 0; i < 3; ++i) made[i] = &values[i];
    return made;
  }
  void** parameters() {
    const CUdeviceptr first = place();
    return parameters(first, place());
  }

  void fill(CUdeviceptr& address) { address = place(); }
  void fill(std::size_t& size) { size = 64; }
  void fill(CUDA_MEMCPY2D& copy) { fill_rows(copy); }
  void fill(CUDA_MEMCPY3D& copy) { fill_rows(copy), copy.Depth = 1; }
  void fill(CUDA_MEMCPY3D_PEER& copy) { fill_rows(copy), copy.Depth = 1; }
  template <class Copy>
  void fill_rows(Copy& copy) {
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = place();
    copy.dstDevice = place();
    copy.WidthInBytes = 64;
    copy.Height = 1;
  }
  void fill(CUDA_MEMCPY3D_BATCH_OP& copy) {
    copy.extent = {64, 1, 1};
    for (CUmemcpy3DOperand* operand : {&copy.src, &copy.dst}) {
      operand->type = CU_MEMCPY_OPERAND_TYPE_POINTER;
      operand->op.ptr.ptr = place();
    }
  }
  void fill(CUmemDecompressParams& one) {
    one.src = place_pointer();
    one.dst = place_pointer();
    one.dstActBytes = static_cast<cuuint32_t*>(place_pointer());
  }
  // Each kind of operation, and an address that is stored as a word.
  void fill(CUstreamBatchMemOpParams& operation) {
    const CUdeviceptr waits = place();
    const CUdeviceptr word = place();
    operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    operation.writeValue.address = place();
    operation.writeValue.value64 = word;
    if (waits == 0) return;
    operation.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    operation.waitValue.address = waits;
  }
  void fill(CUDA_RESOURCE_DESC& resource) {
    resource.resType = CU_RESOURCE_TYPE_LINEAR;
    resource.res.linear.devPtr = place();
    const CUdeviceptr pitched = place();
    if (pitched == 0) return;
    resource.resType = CU_RESOURCE_TYPE_PITCH2D;
    resource.res.pitch2D.devPtr = pitched;
  }
  void fill(CUlaunchConfig& config) {
    config.gridDimX = config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    config.hStream = objects_.stream;
  }
  void fill(CUDA_LAUNCH_PARAMS& launch) {
    launch.function = objects_.function;
    launch.gridDimX = launch.gridDimY = launch.gridDimZ = 1;
    launch.blockDimX = launch.blockDimY = launch.blockDimZ = 1;
    launch.hStream = objects_.stream;
    launch.kernelParams = parameters();
  }
  void fill(CUDA_KERNEL_NODE_PARAMS_v1& kernel) {
    kernel.func = objects_.function;
    kernel.kernelParams = parameters();
  }
  void fill(CUDA_KERNEL_NODE_PARAMS& kernel) {
    kernel.func = objects_.function;
    kernel.kernelParams = parameters();
  }
  void fill(CUDA_MEMSET_NODE_PARAMS& memset) { memset.dst = place(); }
  void fill(CUDA_BATCH_MEM_OP_NODE_PARAMS& batch) {
    batch.count = 1;
    batch.paramArray = blank<CUstreamBatchMemOpParams>();
    fill(*batch.paramArray);
  }
  // Each kind of node that names memory.
  void fill(CUgraphNodeParams& node) {
    node.type = CU_GRAPH_NODE_TYPE_MEMSET;
    node.memset.dst = place();
    if (const CUdeviceptr at = place(); at != 0) {
      node.type = CU_GRAPH_NODE_TYPE_KERNEL;
      node.kernel = {};
      node.kernel.func = objects_.function;
      node.kernel.kernelParams = parameters(0, at);
    }
    if (const CUdeviceptr at = place(); at != 0) {
      node.type = CU_GRAPH_NODE_TYPE_MEMCPY;
      node.memcpy.copyParams = {};
      node.memcpy.copyParams.dstDevice = at;
    }
    if (const CUdeviceptr at = place(); at != 0) {
      node.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
      node.memOp = {};
      node.memOp.count = 1;
      node.memOp.paramArray = blank<CUstreamBatchMemOpParams>();
      node.memOp.paramArray->writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
      node.memOp.paramArray->writeValue.address = at;
    }
    if (const CUdeviceptr at = place(); at != 0) {
      auto* const child = blank<CUDA_MEMSET_NODE_PARAMS>();
      child->dst = at;
      node.type = CU_GRAPH_NODE_TYPE_GRAPH;
      node.graph = {};
      node.graph.graph = reinterpret_cast<CUgraph>(child);
    }
  }

  struct Blank {
    alignas(64) std::array<std::byte, 4096> bytes{};
  };

  const std::string_view hook_;
  const Objects objects_;
  const CUdeviceptr address_;
  const int wanted_;
  int places_ = 0;
  bool has_parameters_ = false;
  std::deque<Blank> memory_;
};

}  // namespace tidepool::test
