#include "shim/pools.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <optional>

#include "allocator/support/message.h"
#include "shim/ask.h"
#include "shim/observe.h"
#include "shim/real_driver.h"

namespace tidepool::shim {
namespace {

// Pools that were destroyed keep their place as long as something of theirs is allocated, so that a tag never
// means two pools.
struct Pool {
  std::atomic<CUmemoryPool> handle{nullptr};  // null: destroyed, or never in use
  std::atomic<CUdevice> device{-1};           // -1: its allocations are the driver's
  std::atomic<std::uint64_t> most{0};         // what it may hold at a time; 0: no limit
  std::atomic<std::uint64_t> used{0};
  std::atomic<std::uint64_t> used_high{0};
  std::atomic<std::uint64_t> reserved{0};
  std::atomic<std::uint64_t> reserved_high{0};
  std::atomic<std::uint64_t> threshold{0};  // what it may hold after a wait
};

constexpr std::size_t kMostPools = 128;  // tags have seven bits; 0 is no pool
constexpr std::size_t kMostDevices = 64;
constinit std::array<Pool, kMostPools> g_pools{};
constinit std::atomic<std::size_t> g_end{1};
constinit std::mutex g_lock;  // g_end, and who has which place
// Tag of each device's current pool; kUnknown: to be asked.
constexpr int kUnknown = -1;
struct CurrentPool {
  std::atomic<int> tag{kUnknown};
};
constinit std::array<CurrentPool, kMostDevices> g_current{};

void raise(std::atomic<std::uint64_t>& value, std::uint64_t to) noexcept {
  std::uint64_t seen = value.load(std::memory_order_relaxed);
  while (seen < to && !value.compare_exchange_weak(seen, to, std::memory_order_relaxed)) {
  }
}

Pool* find(CUmemoryPool handle) noexcept {
  const std::size_t end = g_end.load(std::memory_order_acquire);
  for (std::size_t i = 1; i < end; ++i) {
    if (g_pools[i].handle.load(std::memory_order_acquire) == handle) return &g_pools[i];
  }
  return nullptr;
}

// Down to `least`, or to what is used.
void trim(Pool& pool, std::uint64_t least) noexcept {
  const std::uint64_t kept = std::max(pool.used.load(std::memory_order_relaxed), least);
  if (kept < pool.reserved.load(std::memory_order_relaxed)) pool.reserved.store(kept);
}

PoolTag tag_of(const Pool& pool) noexcept {
  return static_cast<PoolTag>(&pool - g_pools.data());
}

// With g_lock. Null when all places are taken.
Pool* add(CUmemoryPool handle, CUdevice device) noexcept {
  const std::size_t end = g_end.load(std::memory_order_relaxed);
  std::size_t i = 1;
  while (i < end && (g_pools[i].handle.load(std::memory_order_relaxed) != nullptr ||
                     g_pools[i].used.load(std::memory_order_relaxed) != 0)) {
    ++i;
  }
  if (i == kMostPools) return nullptr;
  Pool& pool = g_pools[i];
  for (auto* number : {&pool.used, &pool.used_high, &pool.reserved, &pool.reserved_high, &pool.threshold}) {
    number->store(0, std::memory_order_relaxed);
  }
  pool.device.store(device, std::memory_order_relaxed);
  pool.most.store(0, std::memory_order_relaxed);
  pool.handle.store(handle, std::memory_order_release);
  if (i == end) g_end.store(end + 1, std::memory_order_release);
  return &pool;
}

// Without g_lock. Says once that a pool which could be managed has no place.
void say_if_left_out(const Pool* pool, CUdevice device) noexcept {
  static std::atomic<bool> said{false};
  if (pool == nullptr && device >= 0 && !observes() && !said.exchange(true))
    report<Msg::TP1019>(kMostPools - 1);
}

// Whose default pool it is; -1: nobody's. None: it cannot be told now.
std::optional<CUdevice> device_of_default(CUmemoryPool handle) noexcept {
  const RealDriver& driver = active_driver();
  int count = 0;
  if (driver.cuDeviceGetDefaultMemPool == nullptr || driver.cuDeviceGetCount == nullptr) return -1;
  if (ask_again([&] { return driver.cuDeviceGetCount(&count); }) != CUDA_SUCCESS) return std::nullopt;
  bool are_all_told = true;
  for (CUdevice device = 0; device < count; ++device) {
    CUmemoryPool usual = nullptr;
    const CUresult asked = ask_again([&] { return driver.cuDeviceGetDefaultMemPool(&usual, device); });
    if (asked == CUDA_SUCCESS && usual == handle) return device;
    are_all_told = are_all_told && (asked == CUDA_SUCCESS || asked == CUDA_ERROR_NOT_SUPPORTED);
  }
  return are_all_told ? std::optional<CUdevice>(-1) : std::nullopt;
}

// Null when all places are taken, or while it cannot be told what the pool is.
const Pool* known(CUmemoryPool handle) noexcept {
  if (handle == nullptr) return nullptr;
  if (const Pool* pool = find(handle)) return pool;
  // Either a device's default pool, which nobody makes, or one that we know nothing of.
  const std::optional<CUdevice> device = device_of_default(handle);
  if (!device) return nullptr;
  const Pool* pool = nullptr;
  {
    const std::lock_guard guard(g_lock);
    pool = find(handle);
    if (pool == nullptr) pool = add(handle, *device);
  }
  say_if_left_out(pool, *device);
  return pool;
}

}  // namespace

CUdevice device_of_pool(CUmemoryPool handle) noexcept {
  const Pool* const pool = known(handle);
  return pool != nullptr ? pool->device.load(std::memory_order_relaxed) : -1;
}

PoolTag managed_pool(CUmemoryPool handle, CUdevice device) noexcept {
  const Pool* const pool = known(handle);
  return pool != nullptr && pool->device.load(std::memory_order_relaxed) == device ? tag_of(*pool) : kNoPool;
}

PoolTag current_pool(CUdevice device) noexcept {
  if (device < 0 || static_cast<std::size_t>(device) >= kMostDevices) return kNoPool;
  std::atomic<int>& current = g_current[static_cast<std::size_t>(device)].tag;
  if (const int known = current.load(std::memory_order_acquire); known != kUnknown)
    return static_cast<PoolTag>(known);
  CUmemoryPool handle = nullptr;
  const auto ask = active_driver().cuDeviceGetMemPool;
  if (ask == nullptr || ask_again([&] { return ask(&handle, device); }) != CUDA_SUCCESS) return kNoPool;
  const PoolTag tag = managed_pool(handle, device);
  if (find(handle) == nullptr) return tag;  // asked again next time
  current.store(tag, std::memory_order_release);
  return tag;
}

void forget_current_pool(CUdevice device) noexcept {
  if (device < 0 || static_cast<std::size_t>(device) >= kMostDevices) return;
  g_current[static_cast<std::size_t>(device)].tag.store(kUnknown, std::memory_order_release);
}

void note_pool(CUmemoryPool handle, const CUmemPoolProps& properties) noexcept {
  const bool is_plain = properties.allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
                        properties.handleTypes == CU_MEM_HANDLE_TYPE_NONE &&
                        properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  const CUdevice device = is_plain ? properties.location.id : -1;
  Pool* pool = nullptr;
  {
    const std::lock_guard guard(g_lock);
    // A handle that comes back is another pool.
    if (Pool* old = find(handle)) old->handle.store(nullptr, std::memory_order_release);
    pool = add(handle, device);
    // Nobody else knows the handle yet.
    if (pool != nullptr) pool->most.store(Bytes(properties.maxSize).round_up(MiB(2)).count());
  }
  say_if_left_out(pool, device);
}

PoolTag forget_pool(CUmemoryPool handle) noexcept {
  const std::lock_guard guard(g_lock);
  Pool* const pool = find(handle);
  if (pool != nullptr) pool->handle.store(nullptr, std::memory_order_release);
  // A device whose current pool is destroyed has its default pool again.
  for (CurrentPool& current : g_current) current.tag.store(kUnknown, std::memory_order_release);
  return pool != nullptr ? tag_of(*pool) : kNoPool;
}

// If the place has gone to another pool meanwhile, the pool is one that we know nothing of from here on.
void put_back_pool(PoolTag tag, CUmemoryPool handle) noexcept {
  const std::lock_guard guard(g_lock);
  Pool& pool = g_pools[tag];
  if (tag != kNoPool && pool.handle.load(std::memory_order_relaxed) == nullptr)
    pool.handle.store(handle, std::memory_order_release);
}

bool take_place_in_pool(PoolTag tag, Bytes size) noexcept {
  Pool& pool = g_pools[tag];
  const std::uint64_t most = pool.most.load(std::memory_order_relaxed);
  std::uint64_t used = pool.used.load(std::memory_order_relaxed);
  do {
    if (most != 0 && (used > most || size.count() > most - used)) return false;
  } while (!pool.used.compare_exchange_weak(used, used + size.count(), std::memory_order_relaxed));
  return true;
}

void note_allocated_in_pool(PoolTag tag) noexcept {
  Pool& pool = g_pools[tag];
  const std::uint64_t used = pool.used.load(std::memory_order_relaxed);
  raise(pool.used_high, used);
  raise(pool.reserved, used);
  raise(pool.reserved_high, used);
}

void take_from_pool(PoolTag tag, Bytes size) noexcept {
  g_pools[tag].used.fetch_sub(size.count(), std::memory_order_relaxed);
}

CUmemoryPool pool_of(PoolTag tag) noexcept {
  return tag != kNoPool ? g_pools[tag].handle.load(std::memory_order_acquire) : nullptr;
}

PoolBytes pool_bytes(CUmemoryPool handle) noexcept {
  const Pool* pool = find(handle);
  if (pool == nullptr) return {};
  const auto read = [](const auto& number) { return Bytes(number.load(std::memory_order_relaxed)); };
  return {read(pool->used), read(pool->used_high), read(pool->reserved), read(pool->reserved_high)};
}

void reset_used_high(CUmemoryPool handle) noexcept {
  if (Pool* pool = find(handle)) pool->used_high.store(pool->used.load());
}

void reset_reserved_high(CUmemoryPool handle) noexcept {
  if (Pool* pool = find(handle)) pool->reserved_high.store(pool->reserved.load());
}

void trim_pool(CUmemoryPool handle, Bytes least) noexcept {
  if (Pool* pool = find(handle)) trim(*pool, least.count());
}

void note_release_threshold(CUmemoryPool handle, Bytes threshold) noexcept {
  if (Pool* pool = find(handle)) pool->threshold.store(threshold.count(), std::memory_order_relaxed);
}

void release_unused() noexcept {
  const std::size_t end = g_end.load(std::memory_order_acquire);
  for (std::size_t i = 1; i < end; ++i)
    trim(g_pools[i], g_pools[i].threshold.load(std::memory_order_relaxed));
}

}  // namespace tidepool::shim
