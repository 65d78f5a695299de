#include "tools/simgpu/driver/footprint.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tools/simgpu/driver/digest_launch.h"
#include "tools/simgpu/driver/driver.h"
#include "tools/simgpu/driver/launch_body.h"
#include "tools/simgpu/driver/readable_name.h"
#include "tools/simgpu/ordering/range_list.h"

namespace simgpu {
namespace {

using ordering::RangeList;
using ordering::Touch;
using timing::Engine;

/// Of a copy with more rows than this, everything from the first to the last byte counts as touched, and
/// races with it as possible ones.
constexpr std::uint64_t kMaxRows = 1 << 16;

enum class Moves { kIn, kOut, kLocal, kPeer, kHost };

const std::string* name_of(Moves moves) {
  static const auto* names =
      new std::array<std::string, 5>{"copy from host to device", "copy from device to host",
                                     "copy on the device", "copy between devices", "copy from host to host"};
  return &(*names)[static_cast<std::size_t>(moves)];
}

enum class Other { kMemset, kHostFunction, kAllocation, kFree, kEarlyRead };

const std::string* name_of(Other other) {
  static const auto* names =
      new std::array<std::string, 5>{"memset", "host function", "stream-ordered allocation",
                                     "stream-ordered free", "copy's early read of its source"};
  return &(*names)[static_cast<std::size_t>(other)];
}

/// Kernels' names as their source has them, by symbol. Kept for good: histories and traces point to them.
using Names = std::unordered_map<std::string, std::string>;
Names& kernel_names() {
  static auto* names = new Names;
  return *names;
}

const std::string* kernel_name(const std::string& symbol) {
  const auto it = kernel_names().find(symbol);
  if (it != kernel_names().end()) return &it->second;
  return &kernel_names().emplace(symbol, readable_name(symbol)).first->second;
}

/// One number for each byte of device memory, wherever it is mapped; host memory is its own address.
std::uint64_t device_place(const Physical& physical, std::uint64_t offset) {
  constexpr std::uint64_t kDevice = std::uint64_t{1} << 63;
  return kDevice | (physical.place + offset);
}

/// What a launch declares. One is enough: the device lock is held.
struct Declaration {
  RangeList ranges;
  double operations;
};
Declaration& declaration() {
  static auto* one = new Declaration;
  return *one;
}

bool declares(const SimgpuKernelBody& body) {
  constexpr std::size_t kNeeded = offsetof(SimgpuKernelBody, features) + sizeof body.features;
  return body.struct_bytes >= kNeeded && (body.features & SIMGPU_BODY_DECLARES) != 0;
}

/// Asks the body what it will touch. False if it cannot say.
bool ask(const Launch& launch) {
  Declaration& d = declaration();
  d.ranges.clear();
  d.operations = 0;
  if (!declares(*launch.kernel->body)) return false;
  const BodyCalls calls{[](const void* address, std::size_t bytes, int is_write) {
                          declaration().ranges.add(reinterpret_cast<std::uint64_t>(address), bytes,
                                                   is_write != 0);
                        },
                        [](double operations) { declaration().operations += operations; }};
  Fault fault;
  return run_body(launch, SIMGPU_GRID_DECLARE, calls, &fault);
}

/// What a kernel without body touches is inferred: from its pointers on, as far as the memory reaches.
void digest_footprint(const DeviceConfig& config, const Launch& launch, std::uint64_t call, Footprint* out) {
  std::uint64_t bytes = 0;
  for (const digest::Touched& t : digest_touches(*driver(), launch, call)) {
    const std::uint64_t size = t.span.bytes();
    if (reads(t.access)) add_touches(t.span.begin, size, false, !t.exact, &out->touches);
    if (writes(t.access)) add_touches(t.span.begin, size, true, !t.exact, &out->touches);
    bytes += t.access == digest::Access::kInOut ? 2 * size : size;
  }
  out->work.busy = nanoseconds(static_cast<double>(bytes), config.memory_bytes_per_second);
}

void launch_footprint(const DeviceConfig& config, const Launch& launch, std::uint64_t call, Footprint* out) {
  out->name = kernel_name(launch.kernel->name);
  out->work.engine = Engine::kCompute;
  out->work.fixed = config.cost_launch_ns;
  if (launch.kernel->body == nullptr) return digest_footprint(config, launch, call, out);
  if (!ask(launch)) return;
  std::uint64_t bytes = 0;
  for (const RangeList::Range& range : declaration().ranges.merged()) {
    bytes += range.high - range.low;
    if (!range.write && (launch.kernel->body->features & SIMGPU_BODY_LOOKS) != 0) continue;
    add_touches(range.low, range.high - range.low, range.write, declaration().ranges.coarse(), &out->touches);
  }
  out->work.busy = std::max(nanoseconds(static_cast<double>(bytes), config.memory_bytes_per_second),
                            nanoseconds(declaration().operations, config.compute_fp32_flops));
}

struct Rows {
  std::uint64_t base, width, height, depth, pitch, slice;
};

void add_rows(Rows r, bool write, Footprint* out) {
  if (r.width == 0 || r.height == 0 || r.depth == 0) return;
  if (r.pitch == r.width || r.height == 1) {
    // Rows without gaps are one; slices without gaps too.
    const std::uint64_t whole = r.height == 1 ? r.width : r.width * r.height;
    r = r.slice == whole || r.depth == 1 ? Rows{r.base, whole * r.depth, 1, 1, 0, 0}
                                         : Rows{r.base, whole, 1, r.depth, 0, r.slice};
  }
  if (r.height * r.depth > kMaxRows) {
    const std::uint64_t extent = (r.depth - 1) * r.slice + (r.height - 1) * r.pitch + r.width;
    return add_touches(r.base, extent, write, true, &out->touches);
  }
  for (std::uint64_t z = 0; z < r.depth; ++z) {
    for (std::uint64_t y = 0; y < r.height; ++y) {
      add_touches(r.base + z * r.slice + y * r.pitch, r.width, write, false, &out->touches);
    }
  }
}

int device_of(std::uint64_t address) {
  const Mapping* mapping = driver()->space.mapping_at(address);
  return mapping == nullptr ? -1 : mapping->physical->memory->ordinal();
}

void add_source(const Copy& c, Footprint* out) {
  add_rows({c.src, c.width, c.height, c.depth, c.src_pitch, c.src_slice}, false, out);
}

void copy_footprint(int self, const Copy& c, Footprint* out) {
  const Driver& d = *driver();
  const int dst = c.dst_device ? device_of(c.dst) : -1;
  const int src = c.src_device ? device_of(c.src) : -1;
  const int home = dst >= 0 ? dst : src >= 0 ? src : self;
  const DeviceConfig& config = d.gpus[static_cast<std::size_t>(home)]->config;
  Moves moves = Moves::kHost;
  double rate = config.link_h2d_bytes_per_second;
  if (c.dst_device && c.src_device) {
    moves = dst == src ? Moves::kLocal : Moves::kPeer;
    // Memory is read and written.
    if (moves == Moves::kLocal) rate = config.memory_bytes_per_second / 2;
    out->work.engine = Engine::kCopyLocal;
  } else if (c.dst_device) {
    moves = Moves::kIn;
    out->work.engine = Engine::kCopyIn;
  } else if (c.src_device) {
    moves = Moves::kOut;
    rate = config.link_d2h_bytes_per_second;
    out->work.engine = Engine::kCopyOut;
  }
  if (d.faults.active()) rate *= d.faults.link_factor(c, static_cast<std::uint64_t>(d.ledger.now()));
  out->name = name_of(moves);
  out->work.device = static_cast<std::uint8_t>(home);
  out->work.fixed = config.link_latency_ns;
  out->work.busy = nanoseconds(static_cast<double>(c.bytes()), rate);
  add_rows({c.dst, c.width, c.height, c.depth, c.dst_pitch, c.dst_slice}, true, out);
  // What was taken before is read from nowhere any more.
  if (c.staged == nullptr) add_source(c, out);
}

void fill_footprint(const DeviceConfig& config, const Fill& f, Footprint* out) {
  out->name = name_of(Other::kMemset);
  out->work.engine = Engine::kCompute;
  out->work.fixed = config.cost_launch_ns;
  const std::uint64_t row = f.width * f.element;
  out->work.busy = nanoseconds(static_cast<double>(row * f.height), config.memory_bytes_per_second);
  add_rows({f.dst, row, f.height, 1, f.pitch, 0}, true, out);
}

}  // namespace

std::int64_t nanoseconds(double amount, double per_second) {
  constexpr double kNanosPerSecond = 1e9;
  constexpr double kLongest = 1e15;  // eleven days, thousands of which can be added
  return static_cast<std::int64_t>(std::min(std::ceil(amount / per_second * kNanosPerSecond), kLongest));
}

void add_touches(std::uint64_t address, std::uint64_t bytes, bool write, bool inferred,
                 std::vector<Touch>* out) {
  const Driver& d = *driver();
  while (bytes > 0) {
    const Mapping* mapping = d.space.mapping_at(address);
    if (mapping == nullptr) {
      if (!d.is_device_address(address)) out->push_back(Touch{address, bytes, address, write, inferred});
      return;
    }
    const std::uint64_t offset = address - mapping->base;
    const std::uint64_t here = std::min(bytes, mapping->size - offset);
    out->push_back(Touch{device_place(*mapping->physical, offset), here, address, write, inferred});
    address += here;
    bytes -= here;
  }
}

bool is_kernel_name(const std::string* name) {
  for (const Moves moves : {Moves::kIn, Moves::kOut, Moves::kLocal, Moves::kPeer, Moves::kHost}) {
    if (name == name_of(moves)) return false;
  }
  for (const Other other :
       {Other::kMemset, Other::kHostFunction, Other::kAllocation, Other::kFree, Other::kEarlyRead}) {
    if (name == name_of(other)) return false;
  }
  return true;
}

void footprint(const Stream& stream, const Operation& operation, Footprint* out) {
  const Gpu& gpu = *stream.context->gpu;
  out->work = timing::Work{};
  out->work.device = static_cast<std::uint8_t>(gpu.ordinal);
  out->name = nullptr;
  out->touches.clear();
  if (const auto* launch = std::get_if<Launch>(&operation.work)) {
    launch_footprint(gpu.config, *launch, operation.call, out);
  } else if (const auto* copy = std::get_if<Copy>(&operation.work)) {
    copy_footprint(gpu.ordinal, *copy, out);
  } else if (const auto* read = std::get_if<std::unique_ptr<EarlyRead>>(&operation.work)) {
    // Its time is the copy's.
    out->name = name_of(Other::kEarlyRead);
    add_source((*read)->rows, out);
  } else if (const auto* fill = std::get_if<Fill>(&operation.work)) {
    fill_footprint(gpu.config, *fill, out);
  } else if (std::holds_alternative<HostCall>(operation.work)) {
    out->name = name_of(Other::kHostFunction);
  } else if (const auto* change = std::get_if<PoolChange>(&operation.work)) {
    // What uses the memory must come after the one and before the other.
    out->name = name_of(change->begin ? Other::kAllocation : Other::kFree);
    add_touches(change->base, change->size, true, false, &out->touches);
  } else if (const auto* plain = std::get_if<PlainFree>(&operation.work)) {
    out->name = name_of(Other::kFree);
    const PlainBlock* block = driver()->heap.block_at(plain->base);
    if (block != nullptr) add_touches(block->base, block->size, true, false, &out->touches);
  }
}

}  // namespace simgpu
