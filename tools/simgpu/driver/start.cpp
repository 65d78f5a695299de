#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

#include "tools/simgpu/driver/driver.h"
#include "tools/simgpu/driver/guard.h"
#include "tools/simgpu/driver/report.h"

/// How a process comes to its driver: cuInit.
namespace simgpu {
namespace {

std::atomic<Driver*> g_driver{nullptr};
std::atomic<bool> g_forked{false};

/// The machine that the environment names, or one of this process' own with one device.
std::unique_ptr<MachineFile> open_machine() {
  const char* path = std::getenv(MachineFile::kVariable);
  std::unique_ptr<MachineFile> file =
      path == nullptr ? MachineFile::create(MachineConfig{}) : MachineFile::open(path);
  if (file == nullptr) {
    report_error(path == nullptr
                     ? std::string("cannot make a machine (memfd_create)")
                     : "cannot open the machine " + std::string(path) + " (" + MachineFile::kVariable +
                           "): its simgpu command has ended, or is of another version");
  }
  return file;
}

/// Gives up after a second: exit() may have been called where the caller has the lock, in a kernel's body or
/// a signal handler.
void flush_trace_at_exit() {
  Driver* d = driver();
  if (d == nullptr) return;
  for (int tries = 0; tries < 100; ++tries) {
    const std::unique_lock lock(d->mutex, std::try_to_lock);
    if (lock.owns_lock()) return d->trace.flush();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace

Driver* driver() noexcept {
  return g_forked.load(std::memory_order_relaxed) ? nullptr : g_driver.load(std::memory_order_acquire);
}

namespace {

/// This process on its machine, from the first cuInit on. With a fault plan it can be that for a while before
/// it has a driver, which makes it take part in the machine's time.
struct ProcessPlace {
  std::unique_ptr<MachineFile> machine;
  ProcessNumber self;
  ProcessSlot* slot;
  Faults* faults;  ///< outlives the place
};
ProcessPlace* g_place = nullptr;

CUresult take_place() {
  std::unique_ptr<MachineFile> machine = open_machine();
  if (machine == nullptr) return CUDA_ERROR_NO_DEVICE;
  const ProcessNumber self = this_process();
  if (self == 0) {
    report_error(
        "cannot read /proc/self/stat (is a file descriptor free?); other processes would not know this one");
    return CUDA_ERROR_NO_DEVICE;
  }
  ProcessSlot* slot = claim_slot(**machine, self);
  if (slot == nullptr) {
    report_error("too many processes use this machine at once (" + std::to_string(Machine::kMaxProcesses) +
                 ")");
    return CUDA_ERROR_NO_DEVICE;
  }
  use_page(&slot->report);
  auto* faults = new Faults(static_cast<const char*>((*machine)->config.faults));
  g_place = new ProcessPlace{std::move(machine), self, slot, faults};
  return CUDA_SUCCESS;
}

CUresult make_driver(Driver** out) {
  auto* made = new Driver(std::move(g_place->machine), g_place->self, *g_place->slot, *g_place->faults);
  // The slot stays this process' own, for its report; if this fails the next cuInit takes it over.
  delete std::exchange(g_place, nullptr);
  for (const auto& gpu : made->gpus) {
    if (gpu->physical.ok()) continue;
    report_error(
        "the memory of the device cannot be opened: the simgpu command has ended, or no file "
        "descriptor is free");
    made->ledger.leave();
    return CUDA_ERROR_NO_DEVICE;
  }
  *out = made;
  return CUDA_SUCCESS;
}

/// CUDA cannot be used in a child that is forked after cuInit; it must say so instead of sharing the memory.
/// One that is forked before there was a driver has a place of its own.
void after_fork_in_child() {
  if (g_driver.load() != nullptr) g_forked.store(true);
  g_place = nullptr;
}

/// The call itself, as the fault plan has it.
CUresult meet_init(Driver* made, Faults& faults) {
  if (!faults.active()) return CUDA_SUCCESS;
  std::unique_lock<std::mutex> device;
  if (made != nullptr) device = std::unique_lock(made->mutex);
  return faults.meet_call(made, "cuInit", "cuInit", 0);
}

}  // namespace

CUresult start_driver() {
  static auto* mutex = new std::mutex;
  const std::scoped_lock lock(*mutex);
  if (g_forked.load()) return CUDA_ERROR_NOT_INITIALIZED;
  if (Driver* made = g_driver.load(); made != nullptr) return meet_init(made, made->faults);
  [[maybe_unused]] static const int once = ::pthread_atfork(nullptr, nullptr, &after_fork_in_child);
  CUresult result = g_place == nullptr ? take_place() : CUDA_SUCCESS;
  if (result == CUDA_SUCCESS) result = meet_init(nullptr, *g_place->faults);
  Driver* made = nullptr;
  if (result == CUDA_SUCCESS) result = make_driver(&made);
  if (result != CUDA_SUCCESS) return result;
  if (made->trace.on()) std::atexit(&flush_trace_at_exit);
  const std::scoped_lock device(made->mutex);
  g_driver.store(made, std::memory_order_release);
  watch_host_code([](std::uint64_t address) { return g_driver.load()->space.owns(address); });
  return CUDA_SUCCESS;
}

}  // namespace simgpu
