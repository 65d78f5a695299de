#include "shim/observe.h"

#include <array>
#include <mutex>

#include "allocator/support/stats_page.h"
#include "shim/capture.h"
#include "shim/managed.h"
#include "shim/ownership.h"
#include "shim/pools.h"
#include "shim/process.h"
#include "shim/real_driver.h"
#include "shim/record.h"

namespace tidepool::shim {

using runtime::ObservedMemory;

constinit std::atomic<bool> g_observes{false};
constinit std::atomic<bool> g_manages_nothing{false};

namespace {

// One bit for each device. A forked child leaves alone what a thread of its parent had begun.
constinit std::atomic<std::uint64_t> g_begun{0};
constinit std::atomic<std::uint64_t> g_started{0};
constinit std::mutex g_starting;
constinit std::array<std::atomic<unsigned>, 64> g_numbers{};  // in the order in which they began
unsigned g_started_count = 0;                                 // g_starting

/// Before the first memory of a device is watched.
void start_with(CUdevice device) noexcept {
  const std::uint64_t bit = std::uint64_t{1} << (static_cast<unsigned>(device) % 64);
  if ((g_started.load(std::memory_order_acquire) & bit) != 0) return;
  const std::lock_guard guard(g_starting);
  if ((g_begun.fetch_or(bit, std::memory_order_acq_rel) & bit) != 0) return;
  std::size_t total = 0;
  (void)active_driver().runtime.cuDeviceTotalMem_v2(&total, device);
  g_numbers[static_cast<unsigned>(device) % 64].store(g_started_count++, std::memory_order_relaxed);
  if (!any_managed()) StatsPage::instance().add(Metric::device_capacity_bytes, total);
  runtime::Recorder::instance().start(options());
  if (recording())
    runtime::Recorder::instance().device({static_cast<std::uint32_t>(device), total, total, 0, true});
  g_started.fetch_or(bit, std::memory_order_release);
}

// Where another device is managed the numbers are of that one.
void publish() noexcept {
  if (any_managed()) return;
  const std::uint64_t held = ObservedMemory::instance().held().count();
  StatsPage& page = StatsPage::instance();
  page.set(Metric::allocated_bytes, held);
  page.raise(Metric::allocated_bytes_peak, held);
  page.set(Metric::device_resident_bytes, held);
  page.raise(Metric::device_resident_bytes_peak, held);
}

struct Allocated {
  CUdeviceptr at;
  std::size_t size;
  plan::MemoryApi api;
  runtime::StreamHandle stream{};
};

/// The device whose primary context it is: only there memory could be managed; -1 for others.
CUdevice device_in(CUresult asked, CUcontext context) noexcept {
  if (asked != CUDA_SUCCESS || context == nullptr) return -1;
  const CUdevice device = device_of(context);
  return device >= 0 && primary_context(device) == context ? device : -1;
}
CUdevice device_here() noexcept {
  CUcontext context = nullptr;
  const CUresult asked = active_driver().runtime.cuCtxGetCurrent(&context);
  return device_in(asked, context);
}

bool is_special(CUstream stream) noexcept {
  return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

/// The device of the stream, which need not be the current one.
CUdevice device_for(CUstream stream) noexcept {
  if (is_special(stream)) return device_here();
  CUcontext context = nullptr;
  const CUresult asked = active_driver().runtime.cuStreamGetCtx(stream, &context);
  return device_in(asked, context);
}

bool add(const Allocated& allocated, CUdevice device) noexcept {
  start_with(device);
  const runtime::BlockId id = ObservedMemory::instance().add(allocated.at, Bytes(allocated.size), device);
  if (id == runtime::kNoBlock) return false;
  publish();
  if (!recording()) return true;
  plan::AllocationRecord record;
  record.block = id;
  record.bytes = allocated.size;
  record.address = allocated.at;
  record.stream = static_cast<std::uint64_t>(observed_stream(allocated.stream));
  record.api = allocated.api;
  record.device = static_cast<std::uint32_t>(device);
  record.flags = plan::AllocationRecord::kStays;
  runtime::Recorder::instance().allocation(record);
  return true;
}

bool add_here(const Allocated& allocated) noexcept {
  const CUdevice device = device_here();
  return device >= 0 && add(allocated, device);
}

ObservedMemory::Entry remove(CUdeviceptr at, plan::MemoryApi api, runtime::StreamHandle stream) noexcept {
  const ObservedMemory::Entry entry = ObservedMemory::instance().remove(at);
  if (entry.id != runtime::kNoBlock) publish();
  if (entry.id != runtime::kNoBlock && recording()) {
    runtime::Recorder::instance().release(
        {entry.id, entry.size.count(), at, static_cast<std::uint64_t>(observed_stream(stream)), api});
  }
  return entry;
}

}  // namespace

bool has_observed() noexcept {
  return g_begun.load(std::memory_order_acquire) != 0;
}

void observe_memory(bool manages_nothing) noexcept {
  (void)ObservedMemory::instance();
  if (manages_nothing) g_manages_nothing.store(true, std::memory_order_release);
  g_observes.store(true, std::memory_order_release);
}

runtime::StreamHandle observed_stream(runtime::StreamHandle stream) noexcept {
  if (stream != runtime::kLegacyStream && stream != runtime::kPerThreadStream) return stream;
  const CUdevice device = current_device();
  const unsigned number = device < 0 ? 0 : g_numbers[static_cast<unsigned>(device) % 64].load();
  return number == 0 ? stream : runtime::stream_of_peer(stream, number);
}

bool observe(bool, CUdeviceptr at, std::size_t size) noexcept {
  return add_here({at, size, plan::MemoryApi::kPlain});
}

bool observe(bool, CUdeviceptr at, std::size_t* pitch, std::size_t, std::size_t height, unsigned) noexcept {
  return add_here({at, *pitch * height, plan::MemoryApi::kPitch});
}

bool observe(bool per_thread, CUdeviceptr at, std::size_t size, CUstream stream) noexcept {
  const CUdevice device = device_for(stream);
  if (device < 0 || is_capturing(stream, per_thread) || current_pool(device) == kNoPool) return false;
  return add({at, size, plan::MemoryApi::kAsync, stream_of(stream, per_thread)}, device);
}

bool observe(bool per_thread, CUdeviceptr at, std::size_t size, CUmemoryPool pool, CUstream stream) noexcept {
  const CUdevice device = device_of_pool(pool);
  if (device < 0 || device_for(stream) < 0 || is_capturing(stream, per_thread)) return false;
  if (managed_pool(pool, device) == kNoPool) return false;
  return add({at, size, plan::MemoryApi::kPool, stream_of(stream, per_thread)}, device);
}

void observe_mapping(CUdeviceptr at, std::size_t size) noexcept {
  (void)add_here({at, size, plan::MemoryApi::kMapping});
}

ObservedMemory::Entry observe_free(bool, CUdeviceptr at) noexcept {
  return remove(at, plan::MemoryApi::kPlain, {});
}

// What is freed into a graph is the graph's to free.
ObservedMemory::Entry observe_free(bool per_thread, CUdeviceptr at, CUstream stream) noexcept {
  if (is_capturing(stream, per_thread)) return {};
  return remove(at, plan::MemoryApi::kAsync, stream_of(stream, per_thread));
}

ObservedMemory::Entry observe_unmapping(CUdeviceptr at) noexcept {
  return remove(at, plan::MemoryApi::kMapping, {});
}

void observe_again(const ObservedMemory::Entry& entry) noexcept {
  if (entry.id == runtime::kNoBlock) return;
  (void)add({entry.base, entry.size.count(), plan::MemoryApi::kPlain}, entry.device);
}

void forget_observed(CUdevice device) noexcept {
  if (!observes()) return;
  ObservedMemory::instance().remove_all(device);
  publish();
}

}  // namespace tidepool::shim
