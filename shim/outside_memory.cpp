#include "shim/outside_memory.h"

#include <array>
#include <cstddef>
#include <mutex>
#include <new>
#include <unordered_map>

#include "allocator/support/stats_page.h"

namespace tidepool::shim {
namespace {

constexpr std::size_t kDevices = 64;  // amounts of devices beyond are kept together with the last one

class Outside {
 public:
  std::mutex lock;

  void add(const OutsideMemory& memory) noexcept {
    (void)remove(memory.at);
    known_.insert_or_assign(memory.at, memory);
    change(memory, true);
  }

  OutsideMemory remove(CUdeviceptr at) noexcept {
    const auto found = known_.find(at);
    if (found == known_.end()) return {};
    const OutsideMemory memory = found->second;
    known_.erase(found);
    change(memory, false);
    return memory;
  }

  void forget(CUcontext context) noexcept {
    for (auto at = known_.begin(); at != known_.end();) {
      const OutsideMemory memory = at->second;
      if (memory.context != context) {
        ++at;
        continue;
      }
      at = known_.erase(at);
      change(memory, false);
    }
  }

  void count(CUdevice device, Bytes size, const char* library, bool more) noexcept {
    const bool is_librarys = library[0] != '\0';
    OutsideBytes& amounts = amounts_[place_of(device)];
    Bytes& amount = is_librarys ? amounts.libraries : amounts.program;
    amount = more ? amount + size : amount - size;
    if (!is_librarys) return;
    StatsPage& page = StatsPage::instance();
    more ? page.add(Metric::library_bytes, size.count()) : page.sub(Metric::library_bytes, size.count());
  }

  void set_graphs(CUdevice device, Bytes held) noexcept { amounts_[place_of(device)].graphs = held; }

  /// In a forked child: what was held is the parent's.
  void start_again() noexcept {
    ::new (&known_) std::unordered_map<CUdeviceptr, OutsideMemory>;  // the old one is left as it is
    amounts_ = {};
  }

  [[nodiscard]] OutsideBytes amounts(CUdevice device) const noexcept { return amounts_[place_of(device)]; }

 private:
  static std::size_t place_of(CUdevice device) noexcept {
    return device >= 0 && static_cast<std::size_t>(device) < kDevices ? static_cast<std::size_t>(device)
                                                                      : kDevices - 1;
  }

  void change(const OutsideMemory& memory, bool more) noexcept {
    count(memory.device, memory.size, memory.library, more);
  }

  std::unordered_map<CUdeviceptr, OutsideMemory> known_;
  std::array<OutsideBytes, kDevices> amounts_{};
};

/// Never destroyed: hooks run until the process has ended.
Outside& outside() noexcept {
  alignas(Outside) static std::byte storage[sizeof(Outside)];
  static Outside* const only = ::new (storage) Outside;
  return *only;
}

}  // namespace

void add_outside(const OutsideMemory& memory) noexcept {
  const std::lock_guard guard(outside().lock);
  outside().add(memory);
}

OutsideMemory remove_outside(CUdeviceptr at) noexcept {
  const std::lock_guard guard(outside().lock);
  return outside().remove(at);
}

void forget_outside_of(CUcontext context) noexcept {
  const std::lock_guard guard(outside().lock);
  outside().forget(context);
}

void count_outside(CUdevice device, Bytes size, const char* library, bool more) noexcept {
  const std::lock_guard guard(outside().lock);
  outside().count(device, size, library, more);
}

void set_graph_bytes(CUdevice device, Bytes held) noexcept {
  const std::lock_guard guard(outside().lock);
  outside().set_graphs(device, held);
}

OutsideBytes outside_bytes(CUdevice device) noexcept {
  const std::lock_guard guard(outside().lock);
  return outside().amounts(device);
}

void lock_outside_for_fork() noexcept {
  outside().lock.lock();
}
void unlock_outside_after_fork(bool is_child) noexcept {
  if (is_child) outside().start_again();
  outside().lock.unlock();
}

}  // namespace tidepool::shim
