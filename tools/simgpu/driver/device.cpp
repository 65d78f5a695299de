#include "tools/simgpu/driver/device.h"

#include <pthread.h>

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <vector>

#include "tools/simgpu/driver/report.h"

namespace simgpu {
namespace {

std::atomic<Device*> g_device{nullptr};
std::atomic<bool> g_forked{false};

template <class... A>
std::string format(const char* pattern, A... args) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, args...);
  return text;
}

}  // namespace

Device::Device(const Config& from)
    : config(from),
      physical(config.memory_bytes, config.seed),
      space(physical),
      heap(physical, space),
      scheduler(mutex, config) {
  primary.primary = true;
  primary.alive = false;
  contexts.emplace(handle_of(&primary), &primary);
}

Device* device() noexcept {
  return g_forked.load(std::memory_order_relaxed) ? nullptr : g_device.load(std::memory_order_acquire);
}

CUresult start_device() {
  static auto* mutex = new std::mutex;
  const std::scoped_lock lock(*mutex);
  if (g_forked.load()) return CUDA_ERROR_NOT_INITIALIZED;
  if (g_device.load() != nullptr) return CUDA_SUCCESS;
  Config config;
  if (!Config::from_environment(&config)) return CUDA_ERROR_NO_DEVICE;
  open_page(config.page_path);
  auto* made = new Device(config);
  if (!made->physical.ok()) {
    delete made;
    report_error("the memory file of the device could not be made (memfd_create)");
    return CUDA_ERROR_NO_DEVICE;
  }
  // CUDA cannot be used in a child that is forked after cuInit; it must say so instead of sharing the memory.
  ::pthread_atfork(nullptr, nullptr, [] { g_forked.store(true); });
  g_device.store(made, std::memory_order_release);
  return CUDA_SUCCESS;
}

std::shared_ptr<Stream> Device::new_stream(Context* context, unsigned flags, int priority) {
  auto stream = std::make_shared<Stream>();
  stream->context = context;
  stream->id = next_id++;
  stream->flags = flags;
  stream->priority = priority;
  stream->blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
  stream->clock_ns = scheduler.seen_by_host();
  return stream;
}

void Device::start_context(Context* context) {
  context->alive = true;
  context->sticky = CUDA_SUCCESS;
  context->id = next_id++;
  context->legacy = new_stream(context, CU_STREAM_DEFAULT, 0);
  context->legacy->legacy = true;
}

void Device::end_context(Context* context) {
  scheduler.drain(context);
  heap.free_all_of(context);
  host.free_all_of(context);
  std::erase_if(streams, [&](const auto& entry) { return entry.second->context == context; });
  context->per_thread.clear();
  context->legacy.reset();
  context->alive = false;
}

std::shared_ptr<Stream> Device::find_stream(Context* context, CUstream handle, bool null_is_per_thread) {
  if (handle == nullptr) handle = null_is_per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  if (handle == CU_STREAM_LEGACY) return context->legacy;
  if (handle == CU_STREAM_PER_THREAD) {
    std::shared_ptr<Stream>& mine = context->per_thread[thread_token()];
    if (mine == nullptr) mine = new_stream(context, CU_STREAM_DEFAULT, 0);
    return mine;
  }
  const auto it = streams.find(handle);
  return it == streams.end() ? nullptr : it->second;
}

bool Device::owns_range(std::uint64_t address, std::uint64_t bytes) const {
  const Mapping* mapping = space.mapping_at(address);
  if (mapping == nullptr) return false;
  if (!mapping->physical->plain) return space.mapped(address, bytes);
  const PlainBlock* block = heap.block_at(address);
  return block != nullptr && bytes <= block->base + block->size - address;
}

bool Device::is_device_address(std::uint64_t address) const {
  return space.reservation_at(address) != nullptr || heap.freed_at(address) != nullptr;
}

std::string Device::describe(std::uint64_t address) const {
  if (const PlainBlock* block = heap.block_at(address)) {
    return format("inside the allocation 0x%" PRIx64 " of %" PRIu64 " bytes", block->base, block->size);
  }
  if (const Mapping* mapping = space.mapping_at(address); mapping != nullptr && !mapping->physical->plain) {
    const char* access = mapping->access == CU_MEM_ACCESS_FLAGS_PROT_READ ? "read-only access" : "no access";
    return format("in the mapping 0x%" PRIx64 " of %" PRIu64 " bytes, which has %s", mapping->base,
                  mapping->size, mapping->access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? "access" : access);
  }
  if (const PlainBlock* block = heap.freed_at(address)) {
    return format("in the allocation 0x%" PRIx64 " of %" PRIu64 " bytes, which was freed", block->base,
                  block->size);
  }
  if (const Reservation* r = space.reservation_at(address)) {
    return format("in the reservation 0x%" PRIx64 " of %" PRIu64 " bytes, where nothing is mapped now",
                  r->base, r->size);
  }
  for (std::uint64_t back = 1; back <= kFrameBytes; back *= 2) {
    if (const PlainBlock* block = heap.block_at(address - back)) {
      return format("%" PRIu64 " bytes past the end of the allocation 0x%" PRIx64 " of %" PRIu64 " bytes",
                    address - block->base - block->size, block->base, block->size);
    }
  }
  return host.range_at(address) != nullptr ? "in pinned host memory" : "not memory of the device";
}

ContextStack& context_stack() {
  thread_local constinit ContextStack stack;
  return stack;
}

std::uint64_t thread_token() {
  static std::atomic<std::uint64_t> next{1};
  thread_local const std::uint64_t mine = next.fetch_add(1);
  return mine;
}

}  // namespace simgpu
