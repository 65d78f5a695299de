#include "tools/simgpu/driver/condition.h"

#include <atomic>

#include "tools/simgpu/driver/driver.h"

namespace simgpu {
namespace {

/// The program's threads and other processes write it at the same time.
template <class T>
T load(std::uint64_t address) {
  return std::atomic_ref<T>(*reinterpret_cast<T*>(address)).load(std::memory_order_acquire);
}

template <class T, class Signed>
bool compare(std::uint64_t address, T value, unsigned how) {
  const T now = load<T>(address);
  switch (how) {
    case CU_STREAM_WAIT_VALUE_EQ:
      return now == value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (now & value) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
      return static_cast<T>(~(now | value)) != 0;
    default:
      return static_cast<Signed>(now - value) >= 0;
  }
}

}  // namespace

TouchResult value_usable(const Driver& driver, const Context& context, std::uint64_t address,
                         std::uint32_t bits, bool write) {
  const std::uint64_t bytes = bits / 8;
  if (driver.host.covers(address, bytes)) return TouchResult::kReady;
  if (!driver.usable_range(address, bytes) || !driver.accessible(context, address, bytes, write))
    return TouchResult::kIllegal;
  return driver.space.touch(address, bytes);
}

bool met(const Driver& driver, const Context& context, const Condition& condition) {
  if (!condition.in_machine &&
      value_usable(driver, context, condition.address, condition.bits, false) != TouchResult::kReady)
    return true;
  return came_about(condition);
}

bool came_about(const Condition& condition) {
  if (condition.bits == 64) {
    return compare<std::uint64_t, std::int64_t>(condition.address, condition.value, condition.compare);
  }
  return compare<std::uint32_t, std::int32_t>(condition.address, static_cast<std::uint32_t>(condition.value),
                                              condition.compare);
}

}  // namespace simgpu
