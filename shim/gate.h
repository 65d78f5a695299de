#pragma once

#include <array>
#include <span>

#include "shim/capture.h"
#include "shim/function_ref.h"
#include "shim/make_way.h"
#include "shim/managed.h"
#include "shim/stream_context.h"
#include "shim/touch_set.h"

namespace tidepool::shim {

/// Whether a call may wait for the device before it returns.
enum class Waits : bool { kNo, kYes };

/// How the device whose stream it is gets to memory of the other devices.
enum class Reach : bool {
  kProgram,  ///< as the program has seen to: it enabled peer access, or the call names contexts
  kCopies,   ///< a copy gets to any memory of cuMemAlloc; Tidepool has to see to that
};

/// Lets the device in whose context the stream is reach memory of all managed devices, where it can. For
/// streams that are not followed.
void let_stream_in(CUstream stream) noexcept;

/// Keeps the blocks on the device until they are freed (one message): work that cannot be followed uses them.
CUresult keep_blocks(runtime::Runtime& runtime, std::span<const runtime::BlockId> ids,
                     runtime::WorkName what) noexcept;

/// After work that was not let through by pass(), or that names nothing: a free that may not wait for the
/// device, since a stream is captured, waits for this (Runtime::note_work). Hook-safe.
void note_work(CUstream stream, bool per_thread) noexcept;

/// The uses that cover such work, device by device.
struct WorkUses {
  bool is_followed =
      false;  ///< false: none do; the stream's device is not managed, or the stream is captured
  std::array<runtime::Use, runtime::kMostDevices> by_slot;
};
void note_work(CUstream stream, bool per_thread, WorkUses& uses) noexcept;

/// With TIDEPOOL_CHECK=unmap all work is waited for, also such as names no memory: it may find some.
[[gnu::cold]] bool is_all_work_awaited() noexcept;
/// What note_work() was told of, there: TP2020 names it if it used memory that nothing names.
void await_work(const WorkUses& uses, runtime::WorkName what) noexcept;
/// `enqueue()` and both.
[[gnu::cold]] CUresult pass_and_await(CUstream stream, bool per_thread, runtime::WorkName what,
                                      FunctionRef<CUresult()> enqueue) noexcept;

/// A call of the program's was answered so: a wrong address is told of, once (report_lost), where memory is
/// managed. Hook-safe.
void note_wrong_address(runtime::WorkName what, CUresult result) noexcept;

// What is seldom, of pass() below: work that goes into a graph, that is in a stream of another context, that
// names nothing.
[[gnu::cold]] CUresult pass_captured(runtime::Runtime& runtime, std::span<const runtime::BlockId> ids,
                                     CUstream stream, bool per_thread, runtime::WorkName what,
                                     FunctionRef<CUresult()> enqueue) noexcept;
[[gnu::cold]] CUresult pass_unfollowed(runtime::Runtime& runtime, std::span<const runtime::BlockId> ids,
                                       CUstream stream, runtime::WorkName what, Reach reach,
                                       FunctionRef<CUresult()> enqueue) noexcept;
CUresult pass_without_blocks(CUstream stream, bool per_thread, runtime::WorkName what,
                             FunctionRef<CUresult()> enqueue) noexcept;

/// Runs `enqueue()`, which puts work that touches the blocks into the stream, once they are on the device;
/// they stay there until the work has ended. Work in streams of other contexts than the managed one cannot be
/// followed: its blocks are kept. Work that goes into a graph uses them when the graph is launched: its
/// instances hold them (hooks_graph.cpp). Returns what `enqueue` returned, or why it was not called.
template <class Enqueue>
[[gnu::always_inline]] inline CUresult pass(runtime::Runtime& runtime, std::span<const runtime::BlockId> ids,
                                            CUstream stream, bool per_thread, Waits waits,
                                            runtime::WorkName what, Enqueue&& enqueue,
                                            Reach reach = Reach::kProgram) noexcept {
  if (is_capturing(stream, per_thread)) [[unlikely]]
    return pass_captured(runtime, ids, stream, per_thread, what, enqueue);
  if (!is_followed(stream)) [[unlikely]]
    return pass_unfollowed(runtime, ids, stream, what, reach, enqueue);
  const runtime::StreamHandle handle = stream_of(stream, per_thread);
  // The driver itself may have no memory: for code that it loads at a kernel's first launch, say.
  const CUresult result = with_room_outside([&](bool& is_refused) __attribute__((always_inline)) {
    const auto run = [&]() __attribute__((always_inline)) {
      const CUresult enqueued = enqueue();
      is_refused = enqueued == CUDA_ERROR_OUT_OF_MEMORY;
      return static_cast<int>(enqueued);
    };
    // Calls that may wait hold pins meanwhile, not an epoch that evictors of other blocks wait for.
    return static_cast<CUresult>(waits == Waits::kYes ? runtime.call_blocking(ids, handle, what, run)
                                                      : runtime.launch(ids, handle, what, run));
  });
  if (result != CUDA_SUCCESS) [[unlikely]]
    note_wrong_address(what, result);
  return result;
}

/// pass() for a call that only enqueues, where everything is as it nearly always is: false if it is not, and
/// then nothing was called. Leaves in `result` what `enqueue()` returned.
template <class Enqueue>
[[gnu::always_inline]] inline bool pass_at_once(runtime::Runtime& runtime, const TouchSet& set,
                                                CUstream stream, bool per_thread, CUresult* result,
                                                const Enqueue& enqueue) noexcept {
  if (set.empty() || !set.complete()) [[unlikely]]
    return false;
  if (is_capturing(stream, per_thread) || !is_followed(stream)) [[unlikely]]
    return false;
  bool is_done = true;
  const auto run = [&]() __attribute__((always_inline)) {
    return static_cast<int>(enqueue());
  };
  const auto otherwise = [&]() __attribute__((always_inline)) {
    is_done = false;
    return static_cast<int>(CUDA_SUCCESS);
  };
  *result = static_cast<CUresult>(
      runtime.launch_or(set.ids(), set.bits(), stream_of(stream, per_thread), run, otherwise));
  // The driver had no memory: pass() can do something about that.
  return is_done && *result != CUDA_ERROR_OUT_OF_MEMORY;
}

/// The same for what the arguments of a call name.
template <class Enqueue>
[[gnu::always_inline]] inline CUresult pass(runtime::Runtime& runtime, const TouchSet& set, CUstream stream,
                                            bool per_thread, Waits waits, runtime::WorkName what,
                                            Enqueue&& enqueue, Reach reach = Reach::kProgram) noexcept {
  if (set.empty()) [[unlikely]]
    return pass_without_blocks(stream, per_thread, what, enqueue);
  if (!set.complete()) [[unlikely]]
    return pass(runtime, runtime.live_blocks(), stream, per_thread, waits, what, enqueue, reach);
  return pass(runtime, set.ids(), stream, per_thread, waits, what, enqueue, reach);
}

}  // namespace tidepool::shim
