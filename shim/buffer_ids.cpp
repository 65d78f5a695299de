#include "shim/buffer_ids.h"

#include <cstddef>
#include <map>
#include <mutex>
#include <new>

namespace tidepool::shim {

constinit std::atomic<bool> detail::g_any_buffer_ids{false};

namespace {

using detail::g_any_buffer_ids;

constexpr std::uint64_t kFirst = std::uint64_t{1} << 62;

struct Ids {
  std::mutex lock;
  std::map<CUdeviceptr, std::uint64_t> known;
  std::uint64_t next = kFirst;
};

/// Never destroyed: hooks run until the process has ended.
Ids& ids() noexcept {
  alignas(Ids) static std::byte storage[sizeof(Ids)];
  static Ids* const only = ::new (storage) Ids;
  return *only;
}

}  // namespace

std::uint64_t buffer_id(CUdeviceptr base) noexcept {
  g_any_buffer_ids.store(true, std::memory_order_release);
  const std::lock_guard guard(ids().lock);
  const auto [at, is_new] = ids().known.try_emplace(base, ids().next);
  if (is_new) ++ids().next;
  return at->second;
}

std::uint64_t detail::take_known_buffer_id(CUdeviceptr base) noexcept {
  const std::lock_guard guard(ids().lock);
  const auto at = ids().known.find(base);
  if (at == ids().known.end()) return 0;
  const std::uint64_t id = at->second;
  ids().known.erase(at);
  return id;
}

void put_back_buffer_id(CUdeviceptr base, std::uint64_t id) noexcept {
  if (id == 0) return;
  const std::lock_guard guard(ids().lock);
  ids().known.insert_or_assign(base, id);
}

void forget_buffer_ids(CUdeviceptr from, Bytes size) noexcept {
  if (!g_any_buffer_ids.load(std::memory_order_acquire)) return;
  const std::lock_guard guard(ids().lock);
  auto& known = ids().known;
  known.erase(known.lower_bound(from), known.lower_bound(from + size.count()));
}

}  // namespace tidepool::shim
