#include "tools/probe/doors/call_counts.h"

#include <atomic>
#include <cstdint>
#include <string_view>

#include "allocator/support/text_writer.h"

namespace tidepool::doors {
namespace {

struct Calls {
  std::atomic<std::uint64_t> made{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<int> last_error{0};
};
constinit Calls g_calls[shim::kHookCount];

/// Entries of unknown versions: few, so a list that is walked is enough. A row's name is set before `taken`.
struct GuardedCalls {
  std::atomic<bool> taken{false};
  char symbol[64] = {};
  std::atomic<std::uint64_t> made{0};
};
constinit GuardedCalls g_guarded[256];
constinit std::atomic_flag g_adding = ATOMIC_FLAG_INIT;

GuardedCalls* find_guarded(std::string_view symbol) noexcept {
  for (GuardedCalls& row : g_guarded) {
    if (!row.taken.load(std::memory_order_acquire)) return nullptr;
    if (symbol == static_cast<const char*>(row.symbol)) return &row;
  }
  return nullptr;
}

void add_guarded(std::string_view symbol) noexcept {
  while (g_adding.test_and_set(std::memory_order_acquire)) {
  }
  if (find_guarded(symbol) == nullptr) {
    for (GuardedCalls& row : g_guarded) {
      if (row.taken.load(std::memory_order_relaxed)) continue;
      TextWriter(row.symbol, sizeof row.symbol).put(symbol);
      row.taken.store(true, std::memory_order_release);
      break;
    }
  }
  g_adding.clear(std::memory_order_release);
}

}  // namespace

void count_call(shim::Hook hook, CUresult result) noexcept {
  Calls& calls = g_calls[static_cast<std::size_t>(hook)];
  calls.made.fetch_add(1, std::memory_order_relaxed);
  if (result == CUDA_SUCCESS) return;
  calls.failed.fetch_add(1, std::memory_order_relaxed);
  calls.last_error.store(static_cast<int>(result), std::memory_order_relaxed);
}

void count_guarded_call(const char* symbol) noexcept {
  GuardedCalls* row = find_guarded(symbol);
  if (row == nullptr) {
    add_guarded(symbol);
    row = find_guarded(symbol);
  }
  if (row != nullptr) row->made.fetch_add(1, std::memory_order_relaxed);
}

void write_calls(RecordFile& file) noexcept {
  for (std::size_t i = 0; i < shim::kHookCount; ++i) {
    const std::uint64_t made = g_calls[i].made.load(std::memory_order_relaxed);
    if (made == 0) continue;
    file.begin("doors", "result", "calls").field("entry", shim::hook_row(static_cast<shim::Hook>(i)).name);
    file.number("calls", static_cast<std::int64_t>(made));
    file.number("failed", static_cast<std::int64_t>(g_calls[i].failed.load(std::memory_order_relaxed)));
    file.number("last_error", g_calls[i].last_error.load(std::memory_order_relaxed)).end();
  }
  for (const GuardedCalls& row : g_guarded) {
    if (!row.taken.load(std::memory_order_acquire)) break;
    file.begin("doors", "result", "guarded").field("entry", row.symbol);
    file.number("calls", static_cast<std::int64_t>(row.made.load(std::memory_order_relaxed))).end();
  }
}

void forget_calls() noexcept {
  g_adding.clear();
  for (Calls& calls : g_calls) {
    calls.made.store(0, std::memory_order_relaxed);
    calls.failed.store(0, std::memory_order_relaxed);
  }
  for (GuardedCalls& row : g_guarded) row.made.store(0, std::memory_order_relaxed);
}

}  // namespace tidepool::doors
