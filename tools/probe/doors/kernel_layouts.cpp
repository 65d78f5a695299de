#include "tools/probe/doors/kernel_layouts.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <string_view>

#include "allocator/support/text_writer.h"
#include "tools/probe/doors/layout_question.h"
#include "tools/probe/doors/module_name.h"

namespace tidepool::doors {
namespace {

struct Kernel {
  std::atomic<const void*> handle{nullptr};  // not null: the rest stands and stays
  std::uint64_t generation = 0;
  std::atomic<std::uint64_t> launches{0};
  std::atomic<std::uint64_t> by_buffer{0};
  LayoutAnswer answer;
  char name[400] = {};
  char owner[64] = {};
};

constexpr std::size_t kRows = std::size_t{1} << 12;
constinit Kernel g_kernels[kRows];
constinit std::atomic<std::uint64_t> g_generation{1};
constinit std::atomic<std::uint64_t> g_left_out{0};
constinit std::atomic<const char*> g_loading{nullptr};  // asked with the first kernel, never in a report
constinit std::mutex g_lock;

std::size_t start_of(const void* handle) noexcept {
  return static_cast<std::size_t>((reinterpret_cast<std::uintptr_t>(handle) * 0x9E3779B97F4A7C15u) >> 52);
}

// The row of the handle, or the free one where it belongs; null: there is no room.
Kernel* find_row(const void* handle, std::uint64_t generation) noexcept {
  for (std::size_t i = start_of(handle), n = 0; n < kRows; ++i, ++n) {
    Kernel& row = g_kernels[i % kRows];
    const void* const has = row.handle.load(std::memory_order_acquire);
    if (has == nullptr || (has == handle && row.generation == generation)) return &row;
  }
  return nullptr;
}

Kernel* row_of(CUfunction handle, const void* caller) noexcept {
  const std::uint64_t generation = g_generation.load(std::memory_order_acquire);
  Kernel* row = find_row(handle, generation);
  if (row == nullptr || row->handle.load(std::memory_order_acquire) != nullptr) return row;
  const std::lock_guard guard(g_lock);
  row = find_row(handle, generation);
  if (row == nullptr || row->handle.load(std::memory_order_acquire) != nullptr) return row;
  row->generation = generation;
  row->answer = ask_layout(handle);
  if (g_loading.load(std::memory_order_relaxed) == nullptr) g_loading.store(loading_mode());
  const char* const name = row->answer.name;
  TextWriter(row->name, sizeof row->name).put(name != nullptr ? name : "");
  row->answer.name = nullptr;  // lives no longer than the kernel's module
  put_module_name(caller, row->owner, sizeof row->owner);
  row->handle.store(handle, std::memory_order_release);
  return row;
}

const char* kind_of(const LayoutAnswer& answer) noexcept {
  if (answer.kernel_function == CUDA_SUCCESS) return "CUkernel";
  return answer.function_name == CUDA_SUCCESS ? "CUfunction" : "unknown";
}

const char* answered_by(const LayoutAnswer& answer) noexcept {
  const auto answered = [](const LayoutAnswer::Parameters& by) {
    // The end of an empty list and a handle that is refused are one error (cuda.h, cuFuncGetParamInfo).
    return by.count > 0;
  };
  if (answered(answer.by_function)) return answered(answer.by_kernel) ? "both" : "cuFuncGetParamInfo";
  return answered(answer.by_kernel) ? "cuKernelGetParamInfo" : "neither";
}

void write_kernel(RecordFile& file, const Kernel& row) noexcept {
  const LayoutAnswer& answer = row.answer;
  const auto& best = answer.by_function.count > 0 ? answer.by_function : answer.by_kernel;
  file.begin("layouts", "result", "kernel").field("kernel", row.name).field("owner", row.owner);
  file.number("launches", static_cast<std::int64_t>(row.launches.load(std::memory_order_relaxed)));
  file.number("by_buffer", static_cast<std::int64_t>(row.by_buffer.load(std::memory_order_relaxed)));
  file.field("handle", kind_of(answer)).field("answered_by", answered_by(answer));
  file.number("parameters", best.count).number("bytes", static_cast<std::int64_t>(best.bytes));
  file.number("function_result", answer.by_function.result).number("function_end", answer.by_function.end);
  file.number("kernel_result", answer.by_kernel.result).number("kernel_end", answer.by_kernel.end);
  file.number("function_name_result", answer.function_name);
  file.number("kernel_name_result", answer.kernel_name);
  file.number("kernel_function_result", answer.kernel_function);
  file.number("loaded_before", answer.loaded_before).number("loaded_after", answer.loaded_after).end();
}

}  // namespace

void note_launch(CUfunction handle, ParameterForm form, const void* caller) noexcept {
  if (handle == nullptr) return;
  Kernel* const row = row_of(handle, caller);
  if (row == nullptr) {
    g_left_out.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  row->launches.fetch_add(1, std::memory_order_relaxed);
  if (form == ParameterForm::kBuffer) row->by_buffer.fetch_add(1, std::memory_order_relaxed);
}

void note_unload() noexcept {
  g_generation.fetch_add(1, std::memory_order_acq_rel);
}

void write_kernels(RecordFile& file) noexcept {
  for (const Kernel& row : g_kernels) {
    if (row.handle.load(std::memory_order_acquire) == nullptr) continue;
    write_kernel(file, row);
  }
  if (const std::uint64_t lost = g_left_out.load(std::memory_order_relaxed); lost != 0) {
    file.begin("layouts", "result", "launches_left_out").number("launches", static_cast<std::int64_t>(lost));
    file.end();
  }
  if (const char* const mode = g_loading.load(std::memory_order_relaxed)) {
    file.begin("layouts", "result", "loading").field("mode", mode).end();
  }
}

void forget_kernels() noexcept {
  ::new (&g_lock) std::mutex;  // whoever held it is not in the child
  for (Kernel& row : g_kernels) {
    row.handle.store(nullptr, std::memory_order_relaxed);
    row.launches.store(0, std::memory_order_relaxed);
    row.by_buffer.store(0, std::memory_order_relaxed);
  }
  g_left_out.store(0, std::memory_order_relaxed);
}

}  // namespace tidepool::doors
