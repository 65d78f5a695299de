#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "tools/simgpu/driver/capture.h"
#include "tools/simgpu/driver/cuda_api.h"
#include "tools/simgpu/driver/driver.h"
#include "tools/simgpu/driver/execute.h"
#include "tools/simgpu/driver/host_cost.h"
#include "tools/simgpu/driver/report.h"

#define SIMGPU_EXPORT __attribute__((visibility("default")))
#define SIMGPU_UNPAREN(...) __VA_ARGS__
#define SIMGPU_REST(...) __VA_OPT__(, ) __VA_ARGS__

/// The first argument of type size_t, which in the driver's functions is the size that the call is about; 0
/// without one.
namespace simgpu {
inline std::uint64_t size_argument() {
  return 0;
}
template <class First, class... Rest>
std::uint64_t size_argument(const First& first, const Rest&... rest) {
  if constexpr (std::is_same_v<First, std::size_t>) {
    return first;
  } else {
    return size_argument(rest...);
  }
}
}  // namespace simgpu

/// Defines an exported driver function. The braces that follow are its body, which sees `d`, the device, and
/// runs under the device lock after cuInit. Used as: SIMGPU_API(cuName, (params), argument, names) { … }
#define SIMGPU_API(name, params, ...)                                                                       \
  static CUresult name##_body([[maybe_unused]] ::simgpu::Driver& d SIMGPU_REST params);                     \
  extern "C" SIMGPU_EXPORT CUresult CUDAAPI name params {                                                   \
    return ::simgpu::enter(::simgpu::Entry::name, ::simgpu::size_argument(__VA_ARGS__),                     \
                           [&](::simgpu::Driver& d) { return name##_body(d __VA_OPT__(, ) __VA_ARGS__); }); \
  }                                                                                                         \
  static CUresult name##_body([[maybe_unused]] ::simgpu::Driver& d SIMGPU_REST params)

/// The same for a function that needs a current context, which the body sees as `context`.
#define SIMGPU_API_CONTEXT(name, params, ...)                                                   \
  static CUresult name##_body([[maybe_unused]] ::simgpu::Driver& d,                             \
                              [[maybe_unused]] ::simgpu::Context& context SIMGPU_REST params);  \
  extern "C" SIMGPU_EXPORT CUresult CUDAAPI name params {                                       \
    return ::simgpu::enter_context(::simgpu::Entry::name, ::simgpu::size_argument(__VA_ARGS__), \
                                   [&](::simgpu::Driver& d, ::simgpu::Context& context) {       \
                                     return name##_body(d, context __VA_OPT__(, ) __VA_ARGS__); \
                                   });                                                          \
  }                                                                                             \
  static CUresult name##_body([[maybe_unused]] ::simgpu::Driver& d,                             \
                              [[maybe_unused]] ::simgpu::Context& context SIMGPU_REST params)

/// The same for a function with a per-thread twin, name_ptsz or name_ptds. The body sees `per_thread`: what a
/// null stream means.
#define SIMGPU_API_TWINS(name, suffix, params, ...)                                             \
  static CUresult name##_body(::simgpu::Driver& d, ::simgpu::Context& context,                  \
                              bool per_thread SIMGPU_REST params);                              \
  extern "C" SIMGPU_EXPORT CUresult CUDAAPI name params {                                       \
    return ::simgpu::enter_context(::simgpu::Entry::name, ::simgpu::size_argument(__VA_ARGS__), \
                                   [&](::simgpu::Driver& d, ::simgpu::Context& context) {       \
                                     return name##_body(d, context, false, __VA_ARGS__);        \
                                   });                                                          \
  }                                                                                             \
  extern "C" SIMGPU_EXPORT CUresult CUDAAPI name##suffix params {                               \
    return ::simgpu::enter_context(::simgpu::Entry::name, ::simgpu::size_argument(__VA_ARGS__), \
                                   [&](::simgpu::Driver& d, ::simgpu::Context& context) {       \
                                     return name##_body(d, context, true, __VA_ARGS__);         \
                                   });                                                          \
  }                                                                                             \
  static CUresult name##_body([[maybe_unused]] ::simgpu::Driver& d,                             \
                              [[maybe_unused]] ::simgpu::Context& context,                      \
                              [[maybe_unused]] bool per_thread SIMGPU_REST params)

/// See simgpu/abi.h.
extern "C" SIMGPU_EXPORT int simgpuLibrarySetBody(void* library, const char* name,
                                                  const SimgpuKernelBody* body);
extern "C" SIMGPU_EXPORT void simgpuNote(const char* name);
extern "C" SIMGPU_EXPORT int simgpuProgram(int news, unsigned long long address, unsigned long long source,
                                           std::size_t bytes);

namespace simgpu {

/// Every exported function, by its exported name; per-thread twins count with their twin.
enum class Entry : std::uint16_t {
#define SIMGPU_ENTRY(base, exported, since, twin) exported,
#include "tools/simgpu/driver/entries.def"
#undef SIMGPU_ENTRY
};

/// The calling thread's current context, or null.
inline Context* current_context() {
  return context_stack().empty() ? nullptr : context_stack().back();
}

inline void count_call(Entry entry) {
  add(page().calls[static_cast<std::size_t>(entry)]);
}

/// What the fault plan makes of a call that is about so many bytes; CUDA_SUCCESS: it goes ahead.
CUresult meet_call(Driver& d, Entry entry, std::uint64_t size);

/// What every call passes through: counted, refused before cuInit and in host functions, under the device
/// lock, offered to the fault plan.
template <class Body>
CUresult enter_always(Entry entry, std::uint64_t size, Body&& body) noexcept {
  Driver* d = driver();
  if (d == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  count_call(entry);
  if (in_host_function()) return CUDA_ERROR_NOT_PERMITTED;
  const std::scoped_lock lock(d->mutex);
  if (d->faults.active()) {
    const CUresult fault = meet_call(*d, entry, size);
    if (fault != CUDA_SUCCESS) return fault;
  }
  return body(*d);
}

/// A call that takes the host's time. Queued work gets a chance to run at the end.
template <class Body>
CUresult take_time(Driver& d, Entry entry, Body&& body) noexcept {
  const Context* current = current_context();
  const Gpu& gpu = current == nullptr ? *d.gpus.front() : *current->gpu;
  d.ledger.begin_call(host_cost(gpu.config, static_cast<std::size_t>(entry)));
  const CUresult result = body(d);
  d.scheduler.breathe();
  d.ledger.end_call();
  return result;
}

/// The same for all but the ways out of an error: a current context that is in one answers every call with
/// it. Calls that are unsafe beside a capture are refused.
template <class Body>
CUresult enter(Entry entry, std::uint64_t size, Body&& body) noexcept {
  return enter_always(entry, size, [&](Driver& d) {
    const Context* current = current_context();
    if (current != nullptr && current->sticky != CUDA_SUCCESS) return current->sticky;
    const CUresult refused = anything_captures() ? check_unsafe(entry) : CUDA_SUCCESS;
    return refused != CUDA_SUCCESS ? refused : take_time(d, entry, body);
  });
}

/// For calls that ask nothing of the device, and work whatever has become of the current context.
template <class Body>
CUresult enter_whatever_is_current(Entry entry, Body&& body) noexcept {
  return enter_always(entry, 0, [&](Driver& d) { return take_time(d, entry, body); });
}

template <class Body>
CUresult enter_context(Entry entry, std::uint64_t size, Body&& body) noexcept {
  return enter(entry, size, [&](Driver& d) {
    Context* current = current_context();
    if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (!current->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return body(d, *current);
  });
}

/// Queues work that is not waited for; in a stream that captures, adds a node instead. `*ticket` gets the
/// operation's number, 0 if nothing was queued.
inline CUresult enqueue(Driver& d, const std::shared_ptr<Stream>& stream, decltype(Operation::work)&& work,
                        std::uint64_t* ticket = nullptr) {
  CUresult result = CUDA_SUCCESS;
  std::uint64_t queued = 0;
  if (!capture_takes(d, stream, &work, &result)) {
    Operation operation;
    operation.work = std::move(work);
    queued = d.scheduler.enqueue(stream, std::move(operation));
  }
  if (ticket != nullptr) *ticket = queued;
  return result;
}

/// Waits for an operation and returns the context's state.
inline CUresult wait_for(Driver& d, const std::shared_ptr<Stream>& stream, std::uint64_t ticket) {
  d.scheduler.run_until(stream, ticket);
  d.synchronized();
  return stream->context->sticky;
}

}  // namespace simgpu
