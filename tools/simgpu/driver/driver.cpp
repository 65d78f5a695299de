#include "tools/simgpu/driver/driver.h"

#include <pthread.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "tools/simgpu/driver/foreign.h"
#include "tools/simgpu/driver/guard.h"
#include "tools/simgpu/driver/library.h"
#include "tools/simgpu/driver/report.h"

namespace simgpu {
namespace {

template <class... A>
std::string format(const char* pattern, A... args) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, args...);
  return text;
}

/// Threads that have ended and whose streams are not forgotten yet. Has a lock of its own, because threads
/// end anywhere. Leaked.
struct EndedThreads {
  std::mutex mutex;
  std::vector<std::uint64_t> tokens;
};
EndedThreads& ended_threads() {
  static auto* all = new EndedThreads;
  return *all;
}

void note_ended_threads(const std::vector<std::uint64_t>& tokens) {
  EndedThreads& ended = ended_threads();
  const std::scoped_lock lock(ended.mutex);
  ended.tokens.insert(ended.tokens.end(), tokens.begin(), tokens.end());
}

/// A key whose destructor notes the end of the thread, later than destructors of the program's thread_local
/// objects, which may use the thread's stream. An invalid key if there are too many: then streams stay.
pthread_key_t thread_end_key() {
  pthread_key_t key = ~pthread_key_t{0};
  ::pthread_key_create(&key,
                       [](void* token) { note_ended_threads({reinterpret_cast<std::uint64_t>(token)}); });
  return key;
}

}  // namespace

Driver::Driver(std::unique_ptr<MachineFile> file, ProcessNumber self, ProcessSlot& claimed, Faults& plan)
    : machine(std::move(file)),
      config((*machine)->config),
      slot(claimed),
      heap(space, program),
      ledger(**machine, self),
      trace(static_cast<const char*>(config.trace)),
      scheduler(*this, config, ledger),
      faults(plan),
      program(scheduler) {
  set_mend([](std::uint64_t address, bool write) { return driver()->space.mend(address, write); });
  ledger.on_slice([this](const timing::Slice& slice) {
    if (slice.engine == timing::Engine::kNone) return;
    const std::int64_t nanos = slice.span.end - slice.span.start;
    add(page().busy_ns[slice.device][static_cast<std::size_t>(slice.engine)],
        static_cast<std::uint64_t>(nanos));
    if (trace.on()) trace.add(slice);
  });
  for (std::uint32_t i = 0; i < config.device_count; ++i) {
    gpus.push_back(std::make_unique<Gpu>(static_cast<int>(i), *machine, slot));
    Context* primary = &gpus.back()->primary;
    contexts.emplace(handle_of(primary), primary);
    CUmemPoolProps props{};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = {CU_MEM_LOCATION_TYPE_DEVICE, {static_cast<int>(i)}};
    auto pool = std::make_shared<Pool>(*this, *gpus.back(), props);
    gpus.back()->default_pool = gpus.back()->current_pool = pool.get();
    pools.emplace(pool->handle(), std::move(pool));
  }
}

std::shared_ptr<Stream> Driver::new_stream(Context* context, unsigned flags, int priority) {
  auto stream = std::make_shared<Stream>();
  stream->context = context;
  stream->id = next_id++;
  stream->flags = flags;
  stream->priority = priority;
  stream->blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
  return stream;
}

void Driver::start_context(Context* context) {
  context->alive = true;
  context->sticky = context->gpu->lost;
  context->id = next_id++;
  context->legacy = new_stream(context, CU_STREAM_DEFAULT, 0);
  context->legacy->legacy = true;
}

void Driver::lose(Gpu* gpu, CUresult code) {
  if (gpu->lost != CUDA_SUCCESS) return;
  gpu->lost = code;
  for (const auto& [handle, context] : contexts) {
    if (context->gpu == gpu) context->sticky = code;
  }
}

void Driver::end_context(Context* context) {
  drop_captures(context);
  const bool has_modules = std::any_of(libraries.begin(), libraries.end(),
                                       [&](const auto& entry) { return entry.second->owner == context; });
  // Work of other contexts may use kernels of its modules.
  scheduler.drain(has_modules ? nullptr : context);
  end_modules_and_events(context);
  for (const PlainBlock& block : heap.blocks_of(context)) {
    block.pool != nullptr ? block.pool->free_now(block.base) : static_cast<void>(heap.free(block.base));
  }
  std::erase_if(ipc_opened, [&](const auto& entry) { return entry.second.context == context; });
  host.free_all_of(context);
  std::erase_if(streams, [&](const auto& entry) { return entry.second->context == context; });
  context->per_thread.clear();
  context->legacy.reset();
  context->alive = false;
}

void Driver::end_modules_and_events(const Context* context) {
  std::vector<Library*> modules;
  for (const auto& [handle, library] : libraries) {
    if (library->owner == context) modules.push_back(library.get());
  }
  for (Library* module : modules) unload_library(*this, *module);
  std::erase_if(events, [&](const auto& entry) {
    if (entry.second->context != context) return false;
    end_shared_event(*entry.second);
    return true;
  });
}

std::shared_ptr<Stream> Driver::find_stream(Context* context, CUstream handle, bool null_is_per_thread) {
  if (handle == nullptr) handle = null_is_per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  if (handle == CU_STREAM_LEGACY) return context->legacy;
  if (handle == CU_STREAM_PER_THREAD) {
    std::shared_ptr<Stream>& mine = context->per_thread[thread_token()];
    if (mine != nullptr) return mine;
    mine = new_stream(context, CU_STREAM_DEFAULT, 0);
    forget_ended_threads();
    return mine;
  }
  const auto it = streams.find(handle);
  return it == streams.end() ? nullptr : it->second;
}

void Driver::forget_ended_threads() {
  std::vector<std::uint64_t> tokens;
  {
    EndedThreads& ended = ended_threads();
    const std::scoped_lock lock(ended.mutex);
    tokens.swap(ended.tokens);
  }
  std::vector<std::uint64_t> later;
  for (const std::uint64_t token : tokens) {
    bool captures = false;
    for (const auto& [handle, context] : contexts) {
      const auto it = context->per_thread.find(token);
      if (it == context->per_thread.end()) continue;
      // Other threads can still end the capture.
      captures = it->second->capture != nullptr;
      if (captures) break;
      context->per_thread.erase(it);
    }
    if (captures) later.push_back(token);
  }
  if (!later.empty()) note_ended_threads(later);
}

bool Driver::owns_range(std::uint64_t address, std::uint64_t bytes) const {
  const Mapping* mapping = space.mapping_at(address);
  if (mapping == nullptr) return false;
  if (!mapping->physical->plain) return space.mapped(address, bytes);
  const PlainBlock* block = heap.block_at(address);
  return block != nullptr && bytes <= block->base + block->size - address;
}

bool Driver::usable_range(std::uint64_t address, std::uint64_t bytes) const {
  for (const auto& [handle, pool] : pools) {
    if (pool->holds(address)) return pool->usable(address, bytes);
  }
  return owns_range(address, bytes);
}

bool Driver::follows(const Stream& stream, const Wait& operation) const {
  return operation.stream.get() == &stream || host_knows(operation);
}

bool Driver::host_knows(const Wait& operation) const {
  return operation.stream->host_saw >= operation.ticket;
}

unsigned Driver::slot_number() const {
  return static_cast<unsigned>(&slot - (*machine)->processes.data());
}

void Driver::synchronized() {
  std::erase_if(pools, [](const auto& entry) {
    entry.second->synchronized();
    if (!entry.second->finished()) return false;
    entry.second->trim(0);
    return entry.second->empty();
  });
}

bool Driver::accessible(const Context& context, std::uint64_t address, std::uint64_t bytes,
                        bool write) const {
  const std::uint64_t end = address + bytes;
  if (end < address) return false;
  const auto self = static_cast<std::size_t>(context.gpu->ordinal);
  for (const Mapping* m = space.mapping_at(address); m != nullptr; m = space.mapping_at(m->base + m->size)) {
    unsigned access = m->access[self];
    const int home = m->physical->memory->ordinal();
    if (m->physical->plain && context.has_peer(home)) access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if (access == CU_MEM_ACCESS_FLAGS_PROT_NONE) return false;
    if (write && access != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return false;
    if (end <= m->base + m->size) return true;
  }
  return false;
}

bool Driver::copyable(const Context& context, std::uint64_t address, std::uint64_t bytes) const {
  const Mapping* mapping = space.mapping_at(address);
  return (mapping != nullptr && mapping->physical->plain) || accessible(context, address, bytes, false);
}

bool Driver::is_device_address(std::uint64_t address) const {
  return space.reservation_at(address) != nullptr || heap.freed().at(address) != nullptr;
}

std::string Driver::describe(std::uint64_t address) const {
  if (const PlainBlock* block = heap.block_at(address); block != nullptr && !block->freeing) {
    return format("inside the allocation 0x%" PRIx64 " of %" PRIu64 " bytes", block->base, block->size);
  }
  if (const Mapping* mapping = space.mapping_at(address); mapping != nullptr && !mapping->physical->plain) {
    const char* access =
        mapping->strongest() == CU_MEM_ACCESS_FLAGS_PROT_READ ? "read-only access" : "no access";
    return format("in the mapping 0x%" PRIx64 " of %" PRIu64 " bytes, which has %s", mapping->base,
                  mapping->size,
                  mapping->strongest() == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? "access" : access);
  }
  const PlainBlock* leaving = heap.block_at(address);
  const FreedBlocks::Block* freed = heap.freed().at(address);
  if (leaving != nullptr || freed != nullptr) {
    return format("in the allocation 0x%" PRIx64 " of %" PRIu64 " bytes, which was freed",
                  leaving != nullptr ? leaving->base : freed->base,
                  leaving != nullptr ? leaving->size : freed->size);
  }
  const Reservation* r = space.reservation_at(address);
  if (r != nullptr && !r->plain) {
    return format("in the reservation 0x%" PRIx64 " of %" PRIu64 " bytes, where nothing is mapped now",
                  r->base, r->size);
  }
  for (std::uint64_t back = 1; back <= kFrameBytes; back *= 2) {
    if (const PlainBlock* block = heap.block_at(address - back)) {
      return format("%" PRIu64 " bytes past the end of the allocation 0x%" PRIx64 " of %" PRIu64 " bytes",
                    address - block->base - block->size, block->base, block->size);
    }
  }
  if (r != nullptr) return "in memory of the device that no allocation has";
  return host.range_at(address) != nullptr ? "in pinned host memory" : "not memory of the device";
}

ContextStack& context_stack() {
  thread_local constinit ContextStack stack;
  return stack;
}

std::uint64_t thread_token() {
  static std::atomic<std::uint64_t> next{1};
  static const pthread_key_t end_key = thread_end_key();
  thread_local std::uint64_t mine = 0;
  if (mine == 0) {
    mine = next.fetch_add(1);
    ::pthread_setspecific(end_key, reinterpret_cast<void*>(mine));
  }
  return mine;
}

}  // namespace simgpu
