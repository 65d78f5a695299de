#include <algorithm>
#include <memory>

#include "tools/simgpu/driver/api.h"
#include "tools/simgpu/driver/foreign.h"

/// "Stream Management" of the CUDA driver API. What the default streams mean: the page "Stream
/// synchronization behavior".
namespace simgpu {
namespace {

/// One cuStreamAddCallback call.
struct Callback {
  CUstreamCallback function;
  CUstream stream;
  void* argument;
  const Context* context;
};

void run_callback(void* argument) {
  const std::unique_ptr<Callback> callback(static_cast<Callback*>(argument));
  callback->function(callback->stream, CUDA_SUCCESS, callback->argument);
}

/// Callbacks run in any case; what ended the context is their status.
void run_discarded_callback(void* argument) {
  const std::unique_ptr<Callback> callback(static_cast<Callback*>(argument));
  callback->function(callback->stream, callback->context->sticky, callback->argument);
}

CUresult create_stream(Driver& d, Context& context, CUstream* out, unsigned flags, int priority) {
  if (out == nullptr || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::shared_ptr<Stream> stream =
      d.new_stream(&context, flags, std::clamp(priority, kGreatestPriority, 0));
  *out = reinterpret_cast<CUstream>(stream.get());
  d.streams.emplace(*out, stream);
  return CUDA_SUCCESS;
}

}  // namespace

SIMGPU_API_CONTEXT(cuStreamCreate, (CUstream * out, unsigned flags), out, flags) {
  return create_stream(d, context, out, flags, 0);
}

SIMGPU_API_CONTEXT(cuStreamCreateWithPriority, (CUstream * out, unsigned flags, int priority), out, flags,
                   priority) {
  return create_stream(d, context, out, flags, priority);
}

/// Returns at once; queued work still runs. Nothing says what becomes of a capture whose stream goes: it is
/// broken, and the stream stays.
SIMGPU_API_CONTEXT(cuStreamDestroy_v2, (CUstream handle), handle) {
  const auto it = d.streams.find(handle);
  if (it != d.streams.end() && it->second->capture != nullptr) return refuse_in_capture(*it->second);
  return d.streams.erase(handle) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIMGPU_API_TWINS(cuStreamSynchronize, _ptsz, (CUstream handle), handle) {
  const std::shared_ptr<Stream> stream = d.find_stream(&context, handle, per_thread);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult allowed = may_wait(*stream);
  if (allowed != CUDA_SUCCESS) return allowed;
  // The legacy stream's work waits for all blocking streams, so waiting for it means waiting for those too.
  if (stream->legacy) {
    std::uint64_t ticket = 0;
    const CUresult queued = enqueue(d, stream, Nothing{}, &ticket);
    return queued == CUDA_SUCCESS ? wait_for(d, stream, ticket) : queued;
  }
  return wait_for(d, stream, stream->enqueued);
}

SIMGPU_API_TWINS(cuStreamQuery, _ptsz, (CUstream handle), handle) {
  const std::shared_ptr<Stream> stream = d.find_stream(&context, handle, per_thread);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult allowed = may_wait(*stream);
  if (allowed != CUDA_SUCCESS) return allowed;
  const bool done = d.scheduler.poll(stream, stream->enqueued);
  if (context.sticky != CUDA_SUCCESS) return context.sticky;
  return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

SIMGPU_API_TWINS(cuStreamWaitEvent, _ptsz, (CUstream handle, CUevent event_handle, unsigned flags), handle,
                 event_handle, flags) {
  const std::shared_ptr<Stream> stream = d.find_stream(&context, handle, per_thread);
  const auto event = d.events.find(event_handle);
  if (stream == nullptr || event == d.events.end()) return CUDA_ERROR_INVALID_HANDLE;
  if ((flags & ~static_cast<unsigned>(CU_EVENT_WAIT_EXTERNAL)) != 0) return CUDA_ERROR_INVALID_VALUE;
  CUresult captured = CUDA_SUCCESS;
  const bool external = (flags & CU_EVENT_WAIT_EXTERNAL) != 0;
  if (capture_wait(stream, event->second.get(), event_handle, external, &captured)) return captured;
  const std::shared_ptr<EventRecord>& record = event->second->record;
  Operation operation;
  if (const auto foreign = foreign_record(d, *event->second)) {
    operation.until = *foreign;
    d.ledger.order_unknown(stream);
  } else if (record != nullptr) {
    operation.waits.push_back(Wait{record->stream, record->ticket});
  } else {
    return CUDA_SUCCESS;
  }
  d.scheduler.enqueue(stream, std::move(operation));
  return CUDA_SUCCESS;
}

SIMGPU_API_TWINS(cuLaunchHostFunc, _ptsz, (CUstream handle, CUhostFn function, void* argument), handle,
                 function, argument) {
  const std::shared_ptr<Stream> stream = d.find_stream(&context, handle, per_thread);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return enqueue(d, stream, HostCall{function, argument});
}

SIMGPU_API_TWINS(cuStreamAddCallback, _ptsz,
                 (CUstream handle, CUstreamCallback function, void* argument, unsigned flags), handle,
                 function, argument, flags) {
  const std::shared_ptr<Stream> stream = d.find_stream(&context, handle, per_thread);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (function == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  // cuLaunchHostFunc is what captures support, "unlike" callbacks.
  const CUresult allowed = refuse_in_capture(*stream);
  if (allowed != CUDA_SUCCESS) return allowed;
  // One of the two functions runs, once, and frees it.
  auto* callback = new Callback{function, handle, argument, &context};
  enqueue(d, stream, HostCall{&run_callback, callback, &run_discarded_callback});
  return CUDA_SUCCESS;  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks)
}

SIMGPU_API_TWINS(cuStreamGetCtx, _ptsz, (CUstream handle, CUcontext* out), handle, out) {
  const std::shared_ptr<Stream> stream = d.find_stream(&context, handle, per_thread);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = handle_of(stream->context);
  return CUDA_SUCCESS;
}

/// Green contexts cannot be made, so a stream never belongs to one.
SIMGPU_API_TWINS(cuStreamGetCtx_v2, _ptsz, (CUstream handle, CUcontext* out, CUgreenCtx* green), handle, out,
                 green) {
  const std::shared_ptr<Stream> stream = d.find_stream(&context, handle, per_thread);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr || green == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = handle_of(stream->context);
  *green = nullptr;
  return CUDA_SUCCESS;
}

SIMGPU_API_TWINS(cuStreamGetFlags, _ptsz, (CUstream handle, unsigned* flags), handle, flags) {
  const std::shared_ptr<Stream> stream = d.find_stream(&context, handle, per_thread);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

SIMGPU_API_TWINS(cuStreamGetPriority, _ptsz, (CUstream handle, int* priority), handle, priority) {
  const std::shared_ptr<Stream> stream = d.find_stream(&context, handle, per_thread);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

SIMGPU_API_TWINS(cuStreamGetId, _ptsz, (CUstream handle, unsigned long long* id), handle, id) {
  const std::shared_ptr<Stream> stream = d.find_stream(&context, handle, per_thread);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = stream->id;
  return CUDA_SUCCESS;
}

SIMGPU_API_TWINS(cuStreamGetDevice, _ptsz, (CUstream handle, CUdevice* dev), handle, dev) {
  const std::shared_ptr<Stream> stream = d.find_stream(&context, handle, per_thread);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (dev == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *dev = stream->context->gpu->ordinal;
  return CUDA_SUCCESS;
}

}  // namespace simgpu
