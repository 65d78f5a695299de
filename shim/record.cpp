#include "shim/record.h"

#include "allocator/support/host_memory.h"
#include "allocator/support/text_writer.h"
#include "shim/kernel_symbol.h"
#include "shim/managed.h"
#include "shim/observe.h"
#include "shim/process.h"
#include "shim/real_driver.h"
#include "shim/stream_context.h"

namespace tidepool::shim {
namespace {

using runtime::Recorder;

void symbol_of(const void* function, std::span<char> buffer) noexcept {
  TextWriter(buffer.data(), buffer.size()).put(kernel_symbol(function));
}

std::uint64_t number_of(runtime::StreamHandle stream) noexcept {
  return static_cast<std::uint64_t>(stream);
}

}  // namespace

void start_recording(const runtime::Runtime& runtime, CUdevice device) noexcept {
  Recorder& recorder = Recorder::instance();
  recorder.start(options());
  if (!recording()) return;
  std::size_t total = 0;
  (void)active_driver().runtime.cuDeviceTotalMem_v2(&total, device);
  recorder.device({static_cast<std::uint32_t>(device), total, runtime.capacity().count(),
                   host_budget_of(options(), host_memory()).count()});
}

void record_allocation(runtime::Runtime& runtime, CUdeviceptr at, std::size_t size, plan::MemoryApi api,
                       runtime::StreamHandle stream) noexcept {
  plan::AllocationRecord record;
  const runtime::BlockId id = runtime.find(at);
  record.block = runtime.arena().recorded(id);
  record.bytes = size;
  record.address = at;
  record.stream = number_of(stream);
  record.api = api;
  const ManagedDevice* const device = owner_device(at);
  record.device = device != nullptr ? static_cast<std::uint32_t>(device->ordinal) : 0;
  const runtime::Block& block = runtime.arena().block(id);
  if (block.slab != nullptr) record.flags |= plan::AllocationRecord::kShared;
  if (block.kept.load(std::memory_order_relaxed)) record.flags |= plan::AllocationRecord::kStays;
  Recorder::instance().allocation(record);
}

void record_free(runtime::Runtime& runtime, CUdeviceptr at, plan::MemoryApi api,
                 runtime::StreamHandle stream) noexcept {
  const auto range = runtime.describe(runtime::DevicePtr(at));
  if (range.size == Bytes() || range.base.address() != at) return;
  Recorder::instance().release(
      {runtime.arena().recorded(runtime.find(at)), range.size.count(), at, number_of(stream), api});
}

void record_launch(plan::LaunchRecord&& shape, CUfunction function, runtime::StreamHandle stream,
                   Touched set) noexcept {
  if (!set.complete) return record_launch_of_any(static_cast<plan::LaunchRecord&&>(shape), function, stream);
  shape.stream = number_of(stream);
  shape.blocks = set.ids;
  Recorder::instance().launch(shape, function, &symbol_of);
}

void record_launch_of_any(plan::LaunchRecord&& shape, CUfunction function,
                          runtime::StreamHandle stream) noexcept {
  shape.stream = number_of(stream);
  shape.any_block = true;
  Recorder::instance().launch(shape, function, &symbol_of);
}

void record_graph(runtime::StreamHandle stream) noexcept {
  static constexpr char kGraph[] = "(graph)";
  plan::LaunchRecord record;
  record.stream = number_of(stream);
  Recorder::instance().launch(record, kGraph, [](const void* name, std::span<char> buffer) {
    TextWriter(buffer.data(), buffer.size()).put(static_cast<const char*>(name));
  });
}

void record_copy(plan::CopyKind kind, std::size_t size, runtime::StreamHandle stream, Touched set) noexcept {
  plan::CopyRecord record{kind, size, number_of(stream), false, set.ids};
  if (!set.complete) {
    record.any_block = true;
    record.blocks = {};
  }
  Recorder::instance().copy(record);
}

runtime::StreamHandle recorded_stream(CUstream stream, bool per_thread) noexcept {
  const runtime::StreamHandle handle = stream_of(stream, per_thread);
  if (!any_managed()) return observed_stream(handle);
  const ManagedDevice* const home = home_of(stream);
  return home == nullptr || home->slot == 0 ? handle : runtime::stream_of_peer(handle, home->slot);
}

}  // namespace tidepool::shim
