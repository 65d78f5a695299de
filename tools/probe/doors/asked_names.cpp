#include "tools/probe/doors/asked_names.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <string_view>

#include "allocator/support/text_writer.h"
#include "tools/probe/doors/module_name.h"

namespace tidepool::doors {
namespace {

struct Row {
  std::atomic<std::uint64_t> times{0};  // not 0: the rest stands and stays
  char symbol[64] = {};
  char caller[64] = {};
  const char* door = nullptr;
  int version = 0;
  unsigned long long flags = 0;
  bool had = false;
  bool is_version_only = false;
};

// Each copy of the CUDA runtime asks for some 450 names, and a process can hold ten copies.
constexpr std::size_t kRows = std::size_t{1} << 13;
constinit Row g_rows[kRows];
constinit std::mutex g_lock;
constinit std::atomic<std::uint64_t> g_left_out{0};

std::size_t start_of(std::string_view symbol, int version) noexcept {
  std::uint32_t h = 2166136261u ^ static_cast<std::uint32_t>(version);
  for (const char c : symbol) h = (h ^ static_cast<unsigned char>(c)) * 16777619u;
  return h % kRows;
}

bool is_same(const Row& row, const AskedName& asked, std::string_view symbol,
             std::string_view caller) noexcept {
  return symbol == static_cast<const char*>(row.symbol) && row.version == asked.version &&
         row.flags == asked.flags && row.had == asked.had && std::string_view(row.door) == asked.door &&
         caller == static_cast<const char*>(row.caller);
}

}  // namespace

void note_asked(const AskedName& asked, bool is_version_only) noexcept {
  char symbol[sizeof Row::symbol];
  char caller[sizeof Row::caller];
  TextWriter(symbol, sizeof symbol).put(asked.symbol);
  put_module_name(asked.caller, caller, sizeof caller);
  const std::lock_guard guard(g_lock);
  for (std::size_t i = start_of(symbol, asked.version), n = 0; n < kRows; ++i, ++n) {
    Row& row = g_rows[i % kRows];
    if (row.times.load(std::memory_order_relaxed) == 0) {
      TextWriter(row.symbol, sizeof row.symbol).put(symbol);
      TextWriter(row.caller, sizeof row.caller).put(caller);
      row.door = asked.door;
      row.version = asked.version;
      row.flags = asked.flags;
      row.had = asked.had;
      row.is_version_only = is_version_only;
      row.times.store(1, std::memory_order_release);
      return;
    }
    if (is_same(row, asked, symbol, caller)) {
      row.times.fetch_add(1, std::memory_order_relaxed);
      return;
    }
  }
  g_left_out.fetch_add(1, std::memory_order_relaxed);
}

void write_asked(RecordFile& file) noexcept {
  for (const Row& row : g_rows) {
    const std::uint64_t times = row.times.load(std::memory_order_acquire);
    if (times == 0) continue;
    file.begin("doors", "result", "asked").field("entry", row.symbol).field("door", row.door);
    file.field("lacks", row.is_version_only ? "version" : "name").number("version", row.version);
    file.number("flags", static_cast<std::int64_t>(row.flags)).truth("had", row.had);
    file.number("times", static_cast<std::int64_t>(times)).field("caller", row.caller).end();
  }
  if (const std::uint64_t lost = g_left_out.load(std::memory_order_relaxed); lost != 0) {
    file.begin("doors", "result", "asked_left_out").number("times", static_cast<std::int64_t>(lost)).end();
  }
}

void forget_asked() noexcept {
  ::new (&g_lock) std::mutex;  // whoever held it is not in the child
  for (Row& row : g_rows) row.times.store(0, std::memory_order_relaxed);
  g_left_out.store(0, std::memory_order_relaxed);
}

}  // namespace tidepool::doors
