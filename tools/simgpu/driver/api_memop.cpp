#include <vector>

#include "tools/simgpu/driver/api.h"

/// "Stream Memory Operations" of the CUDA driver API: waits for a value in memory, and writes of one, in
/// stream order. Flushes of remote writes are not there.
namespace simgpu {
namespace {

constexpr unsigned kMostInBatch = 255;

/// One operation of a batch, checked.
struct MemOp {
  bool wait = false;
  Condition condition;  ///< a write takes address, value and bits from it
};

CUresult check_place(const Driver& d, std::uint64_t address, std::uint32_t bits) {
  if (address == 0 || address % (bits / 8) != 0) return CUDA_ERROR_INVALID_VALUE;
  const bool known = d.host.covers(address, bits / 8) || d.owns_range(address, bits / 8);
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult make_wait(const Driver& d, std::uint64_t address, std::uint64_t value, unsigned flags,
                   std::uint32_t bits, MemOp* out) {
  if ((flags & CU_STREAM_WAIT_VALUE_FLUSH) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if (flags > CU_STREAM_WAIT_VALUE_NOR) return CUDA_ERROR_INVALID_VALUE;
  *out = MemOp{true, Condition{address, value, bits, flags, false}};
  return check_place(d, address, bits);
}

CUresult make_write(const Driver& d, std::uint64_t address, std::uint64_t value, unsigned flags,
                    std::uint32_t bits, MemOp* out) {
  if (flags > CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) return CUDA_ERROR_INVALID_VALUE;
  *out = MemOp{false, Condition{address, value, bits, 0, false}};
  return check_place(d, address, bits);
}

CUresult make(const Driver& d, const CUstreamBatchMemOpParams& params, MemOp* out) {
  const auto& wait = params.waitValue;
  const auto& write = params.writeValue;
  switch (params.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      return make_wait(d, wait.address, wait.value, wait.flags, 32, out);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return make_wait(d, wait.address, wait.value64, wait.flags, 64, out);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return make_write(d, write.address, write.value, write.flags, 32, out);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return make_write(d, write.address, write.value64, write.flags, 64, out);
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
    case CU_STREAM_MEM_OP_BARRIER:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

void queue(Driver& d, const std::shared_ptr<Stream>& stream, const MemOp& op) {
  Operation operation;
  if (op.wait) {
    operation.until = op.condition;
    d.ledger.order_unknown(stream);
  } else {
    operation.work = ValueWrite{op.condition.address, op.condition.value, op.condition.bits};
  }
  d.scheduler.enqueue(stream, std::move(operation));
}

/// Nothing is queued unless every operation is right.
CUresult queue_all(Driver& d, Context& context, bool per_thread, CUstream handle, unsigned count,
                   const CUstreamBatchMemOpParams* params, unsigned flags) {
  const std::shared_ptr<Stream> stream = d.find_stream(&context, handle, per_thread);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (flags != 0 || count > kMostInBatch || (params == nullptr && count != 0))
    return CUDA_ERROR_INVALID_VALUE;
  std::vector<MemOp> ops(count);
  for (unsigned i = 0; i < count; ++i) {
    const CUresult made = make(d, params[i], &ops[i]);
    if (made != CUDA_SUCCESS) return made;
  }
  const CUresult allowed = refuse_in_capture(*stream);
  if (allowed != CUDA_SUCCESS) return allowed;
  for (const MemOp& op : ops) queue(d, stream, op);
  return CUDA_SUCCESS;
}

/// A wait or a write as an operation of a batch. In a value of 64 bits the lower half is one of 32.
CUstreamBatchMemOpParams as_params(CUstreamBatchMemOpType operation, CUdeviceptr address, std::uint64_t value,
                                   unsigned flags) {
  CUstreamBatchMemOpParams params{};
  const bool wait =
      operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
  if (wait) {
    params.waitValue.address = address;
    params.waitValue.value64 = value;
    params.waitValue.flags = flags;
  } else {
    params.writeValue.address = address;
    params.writeValue.value64 = value;
    params.writeValue.flags = flags;
  }
  params.operation = operation;
  return params;
}

}  // namespace

/// The form for one value is a batch of one.
#define SIMGPU_MEMOP(name, Value, operation)                                                                 \
  SIMGPU_API_TWINS(name, _ptsz, (CUstream stream, CUdeviceptr address, Value value, unsigned flags), stream, \
                   address, value, flags) {                                                                  \
    const CUstreamBatchMemOpParams one = as_params(operation, address, value, flags);                        \
    return queue_all(d, context, per_thread, stream, 1, &one, 0);                                            \
  }
SIMGPU_MEMOP(cuStreamWaitValue32_v2, cuuint32_t, CU_STREAM_MEM_OP_WAIT_VALUE_32)
SIMGPU_MEMOP(cuStreamWaitValue64_v2, cuuint64_t, CU_STREAM_MEM_OP_WAIT_VALUE_64)
SIMGPU_MEMOP(cuStreamWriteValue32_v2, cuuint32_t, CU_STREAM_MEM_OP_WRITE_VALUE_32)
SIMGPU_MEMOP(cuStreamWriteValue64_v2, cuuint64_t, CU_STREAM_MEM_OP_WRITE_VALUE_64)
#undef SIMGPU_MEMOP

SIMGPU_API_TWINS(cuStreamBatchMemOp_v2, _ptsz,
                 (CUstream stream, unsigned count, CUstreamBatchMemOpParams* params, unsigned flags), stream,
                 count, params, flags) {
  return queue_all(d, context, per_thread, stream, count, params, flags);
}

}  // namespace simgpu
