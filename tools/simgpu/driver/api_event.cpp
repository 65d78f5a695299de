#include "tools/simgpu/driver/api.h"
#include "tools/simgpu/driver/foreign.h"

/// "Event Management" of the CUDA driver API.
namespace simgpu {
namespace {

constexpr unsigned kEventFlags = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

Event* find_event(Driver& d, CUevent handle) {
  const auto it = d.events.find(handle);
  return it == d.events.end() ? nullptr : it->second.get();
}

CUresult record(Driver& d, Context& context, bool per_thread, CUevent event_handle, CUstream handle,
                unsigned flags) {
  const std::shared_ptr<Stream> stream = d.find_stream(&context, handle, per_thread);
  Event* target = find_event(d, event_handle);
  if (target == nullptr || stream == nullptr || target->context != stream->context) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  CUresult captured = CUDA_SUCCESS;
  const bool external = (flags & CU_EVENT_RECORD_EXTERNAL) != 0;
  if (capture_record(*stream, target, event_handle, external, &captured)) return captured;
  target->captured.reset();
  auto made = std::make_shared<EventRecord>();
  number_record(d, *target, made.get());
  made->stream = stream;
  const CUresult queued = enqueue(d, stream, Mark{made}, &made->ticket);
  if (queued != CUDA_SUCCESS) return queued;
  // Queueing can run a host function, without the device lock: the event may be gone by now.
  if (Event* event = find_event(d, event_handle)) event->record = std::move(made);
  return CUDA_SUCCESS;
}

CUresult elapsed(Driver& d, Context& context, float* ms, CUevent start_handle, CUevent end_handle) {
  if (ms == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Event* start = find_event(d, start_handle);
  const Event* end = find_event(d, end_handle);
  if (start == nullptr || end == nullptr || ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  for (const Event* event : {start, end}) {
    const CUresult allowed = may_wait(*event);
    if (allowed != CUDA_SUCCESS) return allowed;
  }
  if (start->record == nullptr || end->record == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::shared_ptr<EventRecord> records[] = {start->record, end->record};
  for (const std::shared_ptr<EventRecord>& record : records) {
    const bool done = d.scheduler.poll(record->stream, record->ticket);
    if (context.sticky != CUDA_SUCCESS) return context.sticky;
    if (!done) return CUDA_ERROR_NOT_READY;
  }
  constexpr double kNanosPerMilli = 1e6;
  *ms =
      static_cast<float>(static_cast<double>(records[1]->when.time - records[0]->when.time) / kNanosPerMilli);
  return CUDA_SUCCESS;
}

}  // namespace

SIMGPU_API_CONTEXT(cuEventCreate, (CUevent * out, unsigned flags), out, flags) {
  if (out == nullptr || (flags & ~kEventFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & CU_EVENT_INTERPROCESS) != 0) {
    if ((flags & CU_EVENT_DISABLE_TIMING) == 0) return CUDA_ERROR_INVALID_VALUE;
  }
  auto event = std::make_unique<Event>();
  if ((flags & CU_EVENT_INTERPROCESS) != 0) {
    event->shared = new_shared_event(d, &event->shared_index);
    if (event->shared == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    event->shared_generation = event->shared->generation.load();
  }
  event->flags = flags;
  event->context = &context;
  *out = reinterpret_cast<CUevent>(event.get());
  d.events.emplace(*out, std::move(event));
  return CUDA_SUCCESS;
}

SIMGPU_API(cuEventDestroy_v2, (CUevent handle), handle) {
  const Event* event = find_event(d, handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  end_shared_event(*event);
  d.events.erase(handle);
  return CUDA_SUCCESS;
}

SIMGPU_API_TWINS(cuEventRecord, _ptsz, (CUevent event, CUstream stream), event, stream) {
  return record(d, context, per_thread, event, stream, CU_EVENT_RECORD_DEFAULT);
}

SIMGPU_API_TWINS(cuEventRecordWithFlags, _ptsz, (CUevent event, CUstream stream, unsigned flags), event,
                 stream, flags) {
  if ((flags & ~static_cast<unsigned>(CU_EVENT_RECORD_EXTERNAL)) != 0) return CUDA_ERROR_INVALID_VALUE;
  return record(d, context, per_thread, event, stream, flags);
}

SIMGPU_API(cuEventQuery, (CUevent handle), handle) {
  const Event* event = find_event(d, handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult allowed = may_wait(*event);
  if (allowed != CUDA_SUCCESS) return allowed;
  if (const auto foreign = foreign_record(d, *event)) {
    wait_for_others(d);
    return came_about(*foreign) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  }
  if (event->record == nullptr) return CUDA_SUCCESS;
  const std::shared_ptr<EventRecord> record = event->record;
  const bool done = d.scheduler.poll(record->stream, record->ticket);
  if (record->stream->context->sticky != CUDA_SUCCESS) return record->stream->context->sticky;
  return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

SIMGPU_API(cuEventSynchronize, (CUevent handle), handle) {
  const Event* event = find_event(d, handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult allowed = may_wait(*event);
  if (allowed != CUDA_SUCCESS) return allowed;
  if (const auto foreign = foreign_record(d, *event)) {
    while (!came_about(*foreign)) {
      d.scheduler.run_everything_ready();
      wait_for_others(d);
    }
    return CUDA_SUCCESS;
  }
  if (event->record == nullptr) return CUDA_SUCCESS;
  const std::shared_ptr<EventRecord> record = event->record;
  return wait_for(d, record->stream, record->ticket);
}

SIMGPU_API_CONTEXT(cuEventElapsedTime, (float* ms, CUevent start, CUevent end), ms, start, end) {
  return elapsed(d, context, ms, start, end);
}
SIMGPU_API_CONTEXT(cuEventElapsedTime_v2, (float* ms, CUevent start, CUevent end), ms, start, end) {
  return elapsed(d, context, ms, start, end);
}

}  // namespace simgpu
