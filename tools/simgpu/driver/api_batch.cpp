#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tools/simgpu/driver/footprint.h"
#include "tools/simgpu/driver/transfer.h"

/// Batches of copies ("Memory Management" of the CUDA driver API: cuMemcpyBatchAsync, cuMemcpy3DBatchAsync).
///
/// A batch has its place in its stream and its copies have none among each other, so each runs in a lane of
/// its own between two operations of the stream. Where the access order of a source lets it be read before
/// the batch's turn, a second lane does that, which waits for nothing: during the call, or at any time up to
/// the copy. What these orders promise to be unused is then seen as it was too early, and reported as a race.
/// A source that is to be read in stream order is read when the copy runs, pageable or not.
namespace simgpu {
namespace {

/// Copies behind these share lanes.
constexpr std::size_t kMostLanes = 256;

struct Part {
  CopyRequest request;
  CUmemcpySrcAccessOrder order = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
  unsigned flags = 0;
};

struct Batch {
  std::vector<Part> parts;
  std::size_t failed = SIZE_MAX;  ///< the copy that an error is about

  CUresult refuse(std::size_t part, CUresult why = CUDA_ERROR_INVALID_VALUE) {
    failed = part;
    return why;
  }
};

/// "The first entry in attrsIdxs must always be 0. Also, each entry must be greater than the previous entry
/// and the last entry should be less than count."
bool indices_ok(const std::size_t* first, std::size_t attributes, std::size_t count) {
  if (first == nullptr || attributes == 0 || attributes > count || first[0] != 0) return false;
  for (std::size_t i = 1; i < attributes; ++i) {
    if (first[i] <= first[i - 1]) return false;
  }
  return first[attributes - 1] < count;
}

CUresult read_linear(const CUdeviceptr* dsts, const CUdeviceptr* srcs, const std::size_t* sizes,
                     std::size_t count, const CUmemcpyAttributes* attributes, const std::size_t* first,
                     std::size_t attribute_count, Batch* out) {
  if (dsts == nullptr || srcs == nullptr || sizes == nullptr || attributes == nullptr ||
      !indices_ok(first, attribute_count, count)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::size_t which = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (which + 1 < attribute_count && first[which + 1] == i) ++which;
    out->parts.push_back({CopyRequest::linear(dsts[i], Side::kUnified, srcs[i], Side::kUnified, sizes[i]),
                          attributes[which].srcAccessOrder, attributes[which].flags});
  }
  return CUDA_SUCCESS;
}

/// One end of a box. Elements are bytes where no array is involved; 0 stands for no gaps.
CUresult read_operand(const CUmemcpy3DOperand& operand, const CUextent3D& extent, std::uint64_t* base,
                      std::uint64_t* pitch, std::uint64_t* slice) {
  if (operand.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) return CUDA_ERROR_NOT_SUPPORTED;
  if (operand.type != CU_MEMCPY_OPERAND_TYPE_POINTER) return CUDA_ERROR_INVALID_VALUE;
  const auto& at = operand.op.ptr;
  const std::uint64_t rows = at.layerHeight == 0 ? extent.height : at.layerHeight;
  *base = at.ptr;
  *pitch = at.rowLength == 0 ? extent.width : at.rowLength;
  const bool fits =
      *pitch >= extent.width && rows >= extent.height && !__builtin_mul_overflow(*pitch, rows, slice);
  return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult read_boxes(const CUDA_MEMCPY3D_BATCH_OP* ops, std::size_t count, unsigned long long flags,
                    Batch* out) {
  if (ops == nullptr || count == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    const CUDA_MEMCPY3D_BATCH_OP& op = ops[i];
    CopyRequest r;
    r.width = op.extent.width;
    r.height = op.extent.height;
    r.depth = op.extent.depth;
    if (r.width == 0 || r.height == 0 || r.depth == 0) return out->refuse(i);
    CUresult read = read_operand(op.src, op.extent, &r.src, &r.src_pitch, &r.src_slice);
    if (read == CUDA_SUCCESS) read = read_operand(op.dst, op.extent, &r.dst, &r.dst_pitch, &r.dst_slice);
    if (read != CUDA_SUCCESS) return out->refuse(i, read);
    out->parts.push_back({r, op.srcAccessOrder, op.flags});
  }
  return CUDA_SUCCESS;
}

bool part_ok(const Part& part) {
  constexpr unsigned kFlags = CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;
  return part.order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && part.order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY &&
         (part.flags & ~kFlags) == 0;
}

/// The lane of the batch's copy number `i`. No call can name a lane, so nobody asks what the host has seen of
/// it.
std::shared_ptr<Stream> lane_of(Driver& d, std::vector<std::shared_ptr<Stream>>& lanes, const Stream& stream,
                                std::size_t i) {
  const std::size_t lane = i % kMostLanes;
  while (lanes.size() <= lane) {
    lanes.push_back(d.new_stream(stream.context, CU_STREAM_NON_BLOCKING, stream.priority));
    lanes.back()->host_saw = UINT64_MAX;
    lanes.back()->works_for = ordering::Owner{stream.id, stream.legacy, false};
  }
  return lanes[lane];
}

/// One copy on its way into the queues.
struct Queued {
  Copy copy;
  Wait read;  ///< of its source, where that is apart; ticket 0: it is not
};

/// Queues the reads that need not wait for the stream; those of DURING_API_CALL run.
CUresult read_early(Driver& d, Context& context, const std::shared_ptr<Stream>& stream, const Part& part,
                    std::size_t i, Queued* queued) {
  auto read = std::make_unique<EarlyRead>();
  if (!make_early_read(queued->copy, read.get())) return CUDA_ERROR_OUT_OF_MEMORY;
  queued->copy.staged = read->to;
  Operation operation;
  operation.work = std::move(read);
  queued->read.stream = lane_of(d, stream->early_lanes, *stream, i);
  queued->read.ticket = d.scheduler.enqueue(queued->read.stream, std::move(operation));
  if (part.order != CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL) return context.sticky;
  // As where a copy outside of a batch stages a pageable source: as fast as the link.
  if (!queued->copy.src_device) {
    d.ledger.charge(nanoseconds(static_cast<double>(queued->copy.bytes()),
                                context.gpu->config.link_h2d_bytes_per_second));
  }
  return wait_for(d, queued->read.stream, queued->read.ticket);
}

CUresult queue_batch(Driver& d, Context& context, const std::shared_ptr<Stream>& stream, Batch* batch) {
  std::vector<Queued> all(batch->parts.size());
  bool wait = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Part& part = batch->parts[i];
    Copy& copy = all[i].copy;
    if (!part_ok(part)) return batch->refuse(i);
    const CUresult made = make_copy(d, part.request, &copy);
    if (made != CUDA_SUCCESS) return batch->refuse(i, made);
    // As outside of a batch.
    wait = wait || (!copy.dst_device && (!copy.dst_pinned || !copy.src_device));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].copy.bytes() == 0) continue;
    all[i].copy.program = d.program.claims_write(all[i].copy.dst, all[i].copy.src);
    if (batch->parts[i].order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM) continue;
    const CUresult read = read_early(d, context, stream, batch->parts[i], i, &all[i]);
    if (read != CUDA_SUCCESS) return batch->refuse(i, read);
  }
  const Wait begin{stream, d.scheduler.enqueue(stream, Operation{})};
  Operation end;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].copy.bytes() == 0) continue;
    Operation operation;
    operation.waits.push_back(begin);
    if (all[i].read.ticket != 0) operation.waits.push_back(all[i].read);
    operation.work = std::move(all[i].copy);
    const std::shared_ptr<Stream> lane = lane_of(d, stream->batch_lanes, *stream, i);
    end.waits.push_back(Wait{lane, d.scheduler.enqueue(lane, std::move(operation))});
  }
  const std::uint64_t ticket = d.scheduler.enqueue(stream, std::move(end));
  return wait ? wait_for(d, stream, ticket) : context.sticky;
}

/// Reads a batch, checks all of it, and queues it. `*failed`, which may be null, gets the copy that an error
/// is about, or SIZE_MAX.
template <class Read>
CUresult run_batch(Driver& d, Context& context, const std::shared_ptr<Stream>& stream, std::size_t* failed,
                   const Read& read) {
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Batch batch;
  CUresult result = stream->legacy ? CUDA_ERROR_INVALID_VALUE : refuse_in_capture(*stream);
  if (result == CUDA_SUCCESS) result = read(&batch);
  if (result == CUDA_SUCCESS) result = queue_batch(d, context, stream, &batch);
  if (result != CUDA_SUCCESS && failed != nullptr) *failed = batch.failed;
  return result;
}

}  // namespace

SIMGPU_API_TWINS(cuMemcpyBatchAsync, _ptsz,
                 (CUdeviceptr * dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                  CUmemcpyAttributes* attributes, size_t* first, size_t attribute_count, size_t* failed,
                  CUstream stream),
                 dsts, srcs, sizes, count, attributes, first, attribute_count, failed, stream) {
  return run_batch(d, context, d.find_stream(&context, stream, per_thread), failed, [&](Batch* batch) {
    return read_linear(dsts, srcs, sizes, count, attributes, first, attribute_count, batch);
  });
}

SIMGPU_API_TWINS(cuMemcpyBatchAsync_v2, _ptsz,
                 (CUdeviceptr * dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                  CUmemcpyAttributes* attributes, size_t* first, size_t attribute_count, CUstream stream),
                 dsts, srcs, sizes, count, attributes, first, attribute_count, stream) {
  return run_batch(d, context, d.find_stream(&context, stream, per_thread), nullptr, [&](Batch* batch) {
    return read_linear(dsts, srcs, sizes, count, attributes, first, attribute_count, batch);
  });
}

SIMGPU_API_TWINS(cuMemcpy3DBatchAsync, _ptsz,
                 (size_t count, CUDA_MEMCPY3D_BATCH_OP* ops, size_t* failed, unsigned long long flags,
                  CUstream stream),
                 count, ops, failed, flags, stream) {
  return run_batch(d, context, d.find_stream(&context, stream, per_thread), failed,
                   [&](Batch* batch) { return read_boxes(ops, count, flags, batch); });
}

SIMGPU_API_TWINS(cuMemcpy3DBatchAsync_v2, _ptsz,
                 (size_t count, CUDA_MEMCPY3D_BATCH_OP* ops, unsigned long long flags, CUstream stream),
                 count, ops, flags, stream) {
  return run_batch(d, context, d.find_stream(&context, stream, per_thread), nullptr,
                   [&](Batch* batch) { return read_boxes(ops, count, flags, batch); });
}

}  // namespace simgpu
