#include "tools/simgpu/driver/api.h"
#include "tools/simgpu/driver/capture.h"
#include "tools/simgpu/driver/graph_memory.h"
#include "tools/simgpu/driver/pool.h"

/// From an operation that a stream was given to the node that stands for it.
namespace simgpu {
namespace {

KernelWork work_of(const Stream& stream, Launch&& launch) {
  KernelWork work;
  work.function = const_cast<Kernel*>(launch.kernel.get())->function();
  work.context = handle_of(stream.context);
  work.grid = launch.grid;
  work.block = launch.block;
  work.dynamic_shared = launch.dynamic_shared;
  work.params = std::move(launch.params);
  if (launch.cooperative) work.attributes[CU_LAUNCH_ATTRIBUTE_COOPERATIVE].cooperative = 1;
  if (stream.priority != 0) work.attributes[CU_LAUNCH_ATTRIBUTE_PRIORITY].priority = stream.priority;
  return work;
}

/// The structure of a 3D copy with this copy's geometry. Offsets are already part of the addresses.
MemcpyWork work_of(const Stream& stream, const Copy& copy) {
  MemcpyWork work;
  CUDA_MEMCPY3D& c = work.copy;
  c.dstMemoryType = copy.dst_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  c.srcMemoryType = copy.src_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  if (copy.dst_device) {
    c.dstDevice = copy.dst;
  } else {
    c.dstHost = reinterpret_cast<void*>(copy.dst);
  }
  if (copy.src_device) {
    c.srcDevice = copy.src;
  } else {
    c.srcHost = reinterpret_cast<const void*>(copy.src);
  }
  c.dstPitch = copy.dst_pitch;
  c.srcPitch = copy.src_pitch;
  c.dstHeight = copy.dst_pitch == 0 ? 0 : copy.dst_slice / copy.dst_pitch;
  c.srcHeight = copy.src_pitch == 0 ? 0 : copy.src_slice / copy.src_pitch;
  c.WidthInBytes = copy.width;
  c.Height = copy.height;
  c.Depth = copy.depth;
  work.context = handle_of(stream.context);
  return work;
}

MemsetWork work_of(const Stream& stream, const Fill& fill) {
  MemsetWork work;
  work.fill.dst = fill.dst;
  work.fill.pitch = fill.pitch;
  work.fill.value = fill.value;
  work.fill.elementSize = fill.element;
  work.fill.width = fill.width;
  work.fill.height = fill.height;
  work.fill.ctx = handle_of(stream.context);
  return work;
}

}  // namespace

bool capture_takes(Driver&, const std::shared_ptr<Stream>& stream, decltype(Operation::work)* work,
                   CUresult* result) {
  *result = CUDA_SUCCESS;
  if (!anything_captures()) return false;
  if (stream->capture == nullptr) {
    *result = refuse_in_capture(*stream);
    return *result != CUDA_SUCCESS;
  }
  if (auto* launch = std::get_if<Launch>(work)) {
    *result = capture_node(*stream, work_of(*stream, std::move(*launch)));
  } else if (const auto* copy = std::get_if<Copy>(work)) {
    *result = capture_node(*stream, work_of(*stream, *copy));
  } else if (const auto* fill = std::get_if<Fill>(work)) {
    *result = capture_node(*stream, work_of(*stream, *fill));
  } else if (const auto* host = std::get_if<HostCall>(work)) {
    *result = capture_node(*stream, HostWork{host->function, host->argument});
  } else {
    *result = refuse_in_capture(*stream);
  }
  return true;
}

CUresult capture_alloc(Driver& d, Stream& stream, Pool& pool, std::size_t bytes, CUdeviceptr* out) {
  const Capture& sequence = *stream.capture->sequence;
  if (sequence.invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  AllocWork work;
  work.properties = pool.props();
  const CUresult made = new_graph_allocation(d, pool.gpu(), *sequence.graph, bytes, &work.allocation);
  if (made != CUDA_SUCCESS) return made;
  *out = work.allocation->base;
  return capture_node(stream, std::move(work));
}

/// Only memory of graphs can be freed by a node; anything else would be freed while the graph still uses it.
CUresult capture_free(Stream& stream, CUdeviceptr base) {
  Capture& sequence = *stream.capture->sequence;
  if (sequence.invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  FreeWork work;
  const CUresult claimed = claim_graph_free(*sequence.graph, base, &work);
  if (claimed == CUDA_SUCCESS) return capture_node(stream, std::move(work));
  invalidate(&sequence);
  return claimed;
}

}  // namespace simgpu
