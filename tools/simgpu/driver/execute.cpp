#include "tools/simgpu/driver/execute.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>

#include "tools/simgpu/driver/digest_launch.h"
#include "tools/simgpu/driver/driver.h"
#include "tools/simgpu/driver/guard.h"
#include "tools/simgpu/driver/launch_body.h"
#include "tools/simgpu/driver/readable_name.h"
#include "tools/simgpu/driver/report.h"

namespace simgpu {
namespace {

constexpr std::uint64_t kNearby = std::uint64_t{64} << 30;  ///< how far a parameter may be off to be named

thread_local bool t_in_host_function = false;

/// The parameter whose value is the nearest pointer at or below the address: ", parameter 2 (0x… + 64)"; or
/// the one that is known to hold it.
std::string matching_parameter(const Launch& launch, const Fault& fault) {
  const std::uint64_t address = fault.address;
  if (fault.param >= 0) {
    const std::string place = fault.offset == 0 ? "" : " at byte " + std::to_string(fault.offset);
    return ", parameter " + std::to_string(fault.param) + place + " (" + hex(address) + " + 0)";
  }
  const std::vector<SimgpuParam>& params = launch.kernel->params;
  std::uint64_t best = 0;
  std::size_t index = 0;
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (params[i].size != sizeof(std::uint64_t)) continue;
    std::uint64_t value = 0;
    std::memcpy(&value, launch.params.data() + params[i].offset, sizeof value);
    if (value > best && value <= address && address - value < kNearby) {
      best = value;
      index = i;
    }
  }
  if (best == 0) return "";
  return ", parameter " + std::to_string(index) + " (" + hex(best) + " + " + std::to_string(address - best) +
         ")";
}

/// What came of it at an address: "illegal address: …", or what the system refused.
std::string touch_text(const std::string& who, TouchResult touch, std::uint64_t address) {
  const std::string where = hex(address) + ", " + driver()->describe(address);
  if (!refused(touch)) return "illegal address: " + who + " " + where;
  return refusal(touch, who + " " + where + ", for the first time, and the device is lost to this process");
}

/// A touch that the system refused is none of the program's mistakes: "an OS call failed" (cuda.h).
CUresult code_of(TouchResult touch) {
  return refused(touch) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_ERROR_ILLEGAL_ADDRESS;
}

std::string fault_text(const std::string& who, const Fault& fault) {
  if (fault.why != nullptr) return who + ": " + fault.why;
  if (!fault.address_known) return "illegal address: " + who + " touched an address that is not canonical";
  if (!fault.declared)
    return touch_text(who + (fault.write ? " wrote" : " read"), fault.touch, fault.address);
  const std::string what = std::to_string(fault.bytes) + " bytes at";
  return touch_text(who + " declares that it " + (fault.write ? "writes " : "reads ") + what, fault.touch,
                    fault.address);
}

void fail(const Stream& stream, const std::string& text, CUresult code) {
  driver()->lose(stream.context->gpu, code);
  report_error(text);
}

/// Ranges that the running launch declared and that were found good: blocks declare the same ones again and
/// again, or each the one behind the last, which makes one range with it.
struct Declared {
  struct Range {
    std::uint64_t address, bytes;
    bool write;
    [[nodiscard]] bool holds(const Range& other) const {
      return write == other.write && address <= other.address &&
             other.address - address + other.bytes <= bytes;
    }
    [[nodiscard]] bool ends_where(const Range& other) const {
      return write == other.write && address + bytes == other.address;
    }
  };
  std::array<Range, 32> ranges;
  std::size_t count;
  const Context* context;
};
Declared g_declared{};  // of the launch that runs under the device lock

void check_range(const void* pointer, std::size_t bytes, int is_write) {
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  if (bytes == 0) return;
  const bool write = is_write != 0;
  const Declared::Range range{address, bytes, write};
  for (std::size_t i = 0; i < g_declared.count; ++i) {
    if (g_declared.ranges[i].holds(range)) return;
  }
  const Driver& d = *driver();
  if ((d.accessible(*g_declared.context, address, bytes, write) && d.usable_range(address, bytes)) ||
      d.host.covers(address, bytes)) {
    for (std::size_t i = 0; i < g_declared.count; ++i) {
      if (!g_declared.ranges[i].ends_where(range)) continue;
      g_declared.ranges[i].bytes += bytes;
      return;
    }
    if (g_declared.count < g_declared.ranges.size()) g_declared.ranges[g_declared.count++] = range;
    return;
  }
  Fault fault;
  fault.address = address;
  fault.write = write;
  fault.declared = true;
  fault.bytes = bytes;
  leave_guarded(fault);
}

/// Notes what the body that just ran declared to write.
void note_declared_writes(Driver& d, const Launch& launch, std::uint64_t call) {
  for (std::size_t i = 0; i < g_declared.count; ++i) {
    const Declared::Range& range = g_declared.ranges[i];
    if (range.write) note_write(d, range.address, range.bytes, call);
  }
  if (g_declared.count == g_declared.ranges.size()) note_all_written(d, launch, call);
}

/// Runs the kernel on the CPU, by its body.
bool run_on_cpu(const Stream& stream, const Launch& launch, std::uint64_t call, Fault* fault) {
  g_declared.count = 0;
  g_declared.context = stream.context;
  const bool ok = run_body(launch, 0, BodyCalls{&check_range, nullptr}, fault);
  note_declared_writes(*driver(), launch, call);
  return ok;
}

bool run_launch(const Stream& stream, const Launch& launch, std::uint64_t call) {
  Fault fault;
  const bool ok = launch.kernel->body != nullptr ? run_on_cpu(stream, launch, call, &fault)
                                                 : run_digest(*driver(), launch, call, &fault);
  add(page().kernels_executed);
  if (!ok) {
    std::string text = fault_text("kernel '" + readable_name(launch.kernel->name) + "'", fault);
    const bool illegal = fault.why == nullptr && !refused(fault.touch);
    if (illegal && fault.address_known) text += matching_parameter(launch, fault);
    fail(stream, text, fault.why == nullptr ? code_of(fault.touch) : CUDA_ERROR_LAUNCH_FAILED);
  }
  return ok;
}

void fill_rows(void* argument) {
  const Fill& f = *static_cast<const Fill*>(argument);
  for (std::uint64_t y = 0; y < f.height; ++y) {
    void* row = reinterpret_cast<void*>(f.dst + y * f.pitch);
    if (f.element == 1) {
      std::memset(row, static_cast<int>(f.value), f.width);
    } else if (f.element == 2) {
      auto* to = static_cast<std::uint16_t*>(row);
      for (std::uint64_t i = 0; i < f.width; ++i) to[i] = static_cast<std::uint16_t>(f.value);
    } else {
      auto* to = static_cast<std::uint32_t*>(row);
      for (std::uint64_t i = 0; i < f.width; ++i) to[i] = f.value;
    }
  }
}

std::string copy_name(const Copy& c) {
  return "copy of " + std::to_string(c.bytes()) + " bytes from " + (c.src_device ? "device " : "host ") +
         hex(c.src) + " to " + (c.dst_device ? "device " : "host ") + hex(c.dst);
}

/// Pinned memory that was unregistered while a copy was queued is as bad as unmapped device memory: the
/// hardware would go on using pages that are no longer its own.
bool still_pinned(const Copy& c) {
  const HostMemory& host = driver()->host;
  if (c.staged == nullptr && c.src_pinned && !host.covers(c.src, c.extent(c.src_pitch, c.src_slice)))
    return false;
  return !c.dst_pinned || host.covers(c.dst, c.extent(c.dst_pitch, c.dst_slice));
}

/// Page tables know what any device may do; what this one may is asked here.
bool within_reach(const Stream& stream, const Copy& c, Fault* fault) {
  const Driver& d = *driver();
  const auto look = [&](bool device, const Context* named, std::uint64_t address, std::uint64_t extent,
                        bool write) {
    const Context& context = named != nullptr ? *named : *stream.context;
    if (!device || d.copyable(context, address, extent)) return true;
    fault->address = address;
    fault->write = write;
    return false;
  };
  return look(c.src_device, c.src_context, c.src, c.extent(c.src_pitch, c.src_slice), false) &&
         look(c.dst_device, c.dst_context, c.dst, c.extent(c.dst_pitch, c.dst_slice), true);
}

bool run_copy(const Stream& stream, const Copy& copy, std::uint64_t call) {
  if (copy.bytes() == 0) return true;
  if (!still_pinned(copy)) {
    fail(stream, copy_name(copy) + ": its pinned memory was unregistered before it ran",
         CUDA_ERROR_ILLEGAL_ADDRESS);
    return false;
  }
  Faults& faults = driver()->faults;
  Faults::Kept kept;
  if (faults.active()) kept = faults.before_copy(copy);
  Fault fault;
  if (!within_reach(stream, copy, &fault) || !run_guarded(&copy_rows, const_cast<Copy*>(&copy), &fault)) {
    fail(stream, fault_text(copy_name(copy), fault), code_of(fault.touch));
    return false;
  }
  if (faults.active()) faults.after_copy(copy, kept);
  note_copy(*driver(), copy, call);
  ReportPage& report = page();
  TransferCount& count = copy.src_device ? (copy.dst_device ? report.d2d : report.d2h)
                                         : (copy.dst_device ? report.h2d : report.h2h);
  add(count.count);
  add(count.bytes, copy.bytes());
  return true;
}

bool run_early_read(const Stream& stream, const EarlyRead& read) {
  const Copy& rows = read.rows;
  const auto name = [&] {
    return "early read of " + std::to_string(rows.bytes()) + " bytes at " +
           (rows.src_device ? "device " : "host ") + hex(rows.src);
  };
  if (!still_pinned(rows)) {
    fail(stream, name() + ": its pinned memory was unregistered before it ran", CUDA_ERROR_ILLEGAL_ADDRESS);
    return false;
  }
  Fault fault;
  if (run_guarded(&copy_rows, const_cast<Copy*>(&rows), &fault)) return true;
  fail(stream, fault_text(name(), fault), code_of(fault.touch));
  return false;
}

bool run_fill(const Stream& stream, const Fill& fill, std::uint64_t call) {
  Fault fault;
  const std::uint64_t bytes = fill.width * fill.element * fill.height;
  const Driver& d = *driver();
  const bool out_of_reach =
      d.is_device_address(fill.dst) && !d.accessible(*stream.context, fill.dst, fill.extent(), true);
  if (out_of_reach) {
    fault.address = fill.dst;
    fault.write = true;
  }
  if (bytes != 0 && (out_of_reach || !run_guarded(&fill_rows, const_cast<Fill*>(&fill), &fault))) {
    const std::string who = "memset of " + std::to_string(bytes) + " bytes at " + hex(fill.dst);
    fail(stream, fault_text(who, fault), code_of(fault.touch));
    return false;
  }
  note_fill(*driver(), fill, call);
  add(page().memset.count);
  add(page().memset.bytes, bytes);
  return true;
}

/// A wait for a value goes on when the value is there, or when its place is no longer the program's.
bool check_value(const Stream& stream, const Condition& condition) {
  if (condition.in_machine) return true;
  const TouchResult touch =
      value_usable(*driver(), *stream.context, condition.address, condition.bits, false);
  if (touch == TouchResult::kReady) return true;
  fail(stream, touch_text("a wait for a value at", touch, condition.address), code_of(touch));
  return false;
}

bool run_write(const Stream& stream, const ValueWrite& write, std::uint64_t call) {
  const TouchResult touch = value_usable(*driver(), *stream.context, write.address, write.bits, true);
  if (touch != TouchResult::kReady) {
    fail(stream, touch_text("a write of a value at", touch, write.address), code_of(touch));
    return false;
  }
  if (write.bits == 64) {
    std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(write.address))
        .store(write.value, std::memory_order_release);
  } else {
    std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(write.address))
        .store(static_cast<std::uint32_t>(write.value), std::memory_order_release);
  }
  note_write(*driver(), write.address, write.bits / 8, call);
  return true;
}

void free_plain(const PlainFree& plain) {
  Driver& d = *driver();
  // The next owner's work may run without coming after this: nothing orders the host with it.
  if (const PlainBlock* block = d.heap.block_at(plain.base)) d.ledger.forget(block->base, block->size);
  d.heap.free(plain.base);
}

std::int64_t wall_time() {
  using std::chrono::steady_clock;
  return std::chrono::nanoseconds(steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void copy_rows(void* copy) {
  const Copy& c = *static_cast<const Copy*>(copy);
  if (c.arrived != 0) {
    std::memmove(reinterpret_cast<void*>(c.dst + c.arrived), c.staged.get(), c.width - c.arrived);
    return;
  }
  const bool staged = c.staged != nullptr;
  const std::uint64_t src = staged ? reinterpret_cast<std::uint64_t>(c.staged.get()) : c.src;
  const std::uint64_t pitch = staged ? c.width : c.src_pitch;
  const std::uint64_t slice = staged ? c.width * c.height : c.src_slice;
  for (std::uint64_t z = 0; z < c.depth; ++z) {
    for (std::uint64_t y = 0; y < c.height; ++y) {
      std::memmove(reinterpret_cast<void*>(c.dst + z * c.dst_slice + y * c.dst_pitch),
                   reinterpret_cast<const void*>(src + z * slice + y * pitch), c.width);
    }
  }
}

void prepare(Operation& operation) {
  Faults& faults = driver()->faults;
  auto* copy = faults.active() ? std::get_if<Copy>(&operation.work) : nullptr;
  if (copy != nullptr) faults.meet_copy(copy);
}

bool execute(const Stream& stream, const Operation& operation) {
  const auto* mark = std::get_if<Mark>(&operation.work);
  // Other processes wait for it, whatever has become of this context.
  if (mark != nullptr && mark->record->shared != nullptr)
    mark->record->shared->complete(mark->record->number);
  if (stream.context->sticky != CUDA_SUCCESS) return true;
  if (operation.until && !check_value(stream, *operation.until)) return false;
  if (const auto* launch = std::get_if<Launch>(&operation.work))
    return run_launch(stream, *launch, operation.call);
  if (const auto* copy = std::get_if<Copy>(&operation.work)) return run_copy(stream, *copy, operation.call);
  if (const auto* read = std::get_if<std::unique_ptr<EarlyRead>>(&operation.work))
    return run_early_read(stream, **read);
  if (const auto* fill = std::get_if<Fill>(&operation.work)) return run_fill(stream, *fill, operation.call);
  if (const auto* change = std::get_if<PoolChange>(&operation.work)) {
    Pool& pool = *change->pool;
    change->begin ? pool.begin(change->base, change->size, change->use)
                  : pool.end(change->base, *change->use);
  }
  if (const auto* plain = std::get_if<PlainFree>(&operation.work)) free_plain(*plain);
  if (const auto* write = std::get_if<ValueWrite>(&operation.work))
    return run_write(stream, *write, operation.call);
  if (mark != nullptr && driver()->ledger.wall()) mark->record->when.time = wall_time();
  return true;
}

void run_host_function(const HostCall& call) {
  t_in_host_function = true;
  call.function(call.argument);
  t_in_host_function = false;
}

bool in_host_function() noexcept {
  return t_in_host_function;
}

}  // namespace simgpu
