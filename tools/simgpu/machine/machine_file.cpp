#include "tools/simgpu/machine/machine_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mutex>
#include <new>

namespace simgpu {
namespace {

int sparse_file(const char* name, std::uint64_t bytes) {
  const int fd = ::memfd_create(name, MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) == 0) return fd;
  ::close(fd);
  return -1;
}

Machine* map(int fd) {
  void* mapped = ::mmap(nullptr, sizeof(Machine), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return mapped == MAP_FAILED ? nullptr : static_cast<Machine*>(mapped);
}

ProcessNumber process_of(const ProcessSlot& slot) {
  const std::int32_t pid = slot.pid.load(std::memory_order_acquire);
  return pid == 0 ? 0 : process_number(pid, slot.start_time.load(std::memory_order_relaxed));
}

/// The slot that this process had before exec(), or an unused one, or one whose process has ended.
ProcessSlot* find_slot(Machine& machine, ProcessNumber self) {
  ProcessSlot* unused = nullptr;
  for (ProcessSlot& slot : machine.processes) {
    const ProcessNumber process = process_of(slot);
    if (process == self) return &slot;
    if (process == 0 && unused == nullptr) unused = &slot;
  }
  if (unused != nullptr) return unused;
  for (ProcessSlot& slot : machine.processes) {
    if (!alive(slot)) return &slot;
  }
  return nullptr;
}

/// Ends what the program that had the slot before has left in it.
void take_over(Machine& machine, ProcessSlot& slot) {
  // Marked first: a process that is killed here does not count it twice.
  if (slot.departed.exchange(1) == 0) add_report(&machine.departed, slot.report);
  new (&slot.report) ReportPage{};
  slot.departed.store(0);
  const auto number = static_cast<std::uint32_t>(&slot - machine.processes.data());
  for (SharedEvent& event : machine.shared_events.events) {
    const std::uint64_t generation = event.generation.load();
    if ((generation & 1) == 0) continue;
    if (event.recorder.load() == number) event.complete(event.recorded.load());
    if (event.maker.load() == number) event.generation.store(generation + 1, std::memory_order_release);
  }
}

}  // namespace

void SharedMutex::init() {
  pthread_mutexattr_t attributes;
  ::pthread_mutexattr_init(&attributes);
  ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  ::pthread_mutex_init(&mutex_, &attributes);
  ::pthread_mutexattr_destroy(&attributes);
}

void SharedMutex::lock() {
  if (::pthread_mutex_lock(&mutex_) != EOWNERDEAD) return;
  deaths_.fetch_add(1, std::memory_order_relaxed);
  ::pthread_mutex_consistent(&mutex_);
}

void SharedMutex::unlock() {
  ::pthread_mutex_unlock(&mutex_);
}

std::unique_ptr<MachineFile> MachineFile::create(const MachineConfig& config) {
  const int fd = sparse_file("simgpu-machine", sizeof(Machine));
  if (fd < 0) return nullptr;
  Machine* machine = map(fd);
  if (machine == nullptr) {
    ::close(fd);
    return nullptr;
  }
  auto made = std::unique_ptr<MachineFile>(new MachineFile(fd, machine));
  // The file is zero, which is the initial state of all but these.
  machine->config = config;
  machine->time.expected.store(config.processes_together);
  machine->mutex.init();
  machine->maker_pid = ::getpid();
  for (std::uint32_t i = 0; i < config.device_count; ++i) {
    const int memory = sparse_file("simgpu-device-memory", kDeviceFileBytes);
    if (memory < 0) return nullptr;
    made->memory_fds_.push_back(memory);
    machine->memory_fds[i] = memory;
    machine->memory[i].capacity = config.devices[i].memory_bytes;
  }
  machine->version.store(Machine::kVersion, std::memory_order_release);
  return made;
}

std::unique_ptr<MachineFile> MachineFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return nullptr;
  struct stat status {};
  const bool whole = ::fstat(fd, &status) == 0 && status.st_size == static_cast<off_t>(sizeof(Machine));
  Machine* machine = whole ? map(fd) : nullptr;
  if (machine != nullptr && machine->version.load(std::memory_order_acquire) == Machine::kVersion) {
    return std::unique_ptr<MachineFile>(new MachineFile(fd, machine));
  }
  if (machine != nullptr) ::munmap(machine, sizeof(Machine));
  ::close(fd);
  return nullptr;
}

int MachineFile::open_memory(std::uint32_t device) const {
  const std::string path =
      "/proc/" + std::to_string(machine_->maker_pid) + "/fd/" + std::to_string(machine_->memory_fds[device]);
  return ::open(path.c_str(), O_RDWR | O_CLOEXEC);
}

MachineFile::~MachineFile() {
  for (const int memory : memory_fds_) ::close(memory);
  ::munmap(machine_, sizeof(Machine));
  ::close(fd_);
}

std::string MachineFile::path() const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd_);
}

bool alive(const ProcessSlot& slot) {
  return !has_ended(process_of(slot));
}

ProcessSlot* claim_slot(Machine& machine, ProcessNumber self) {
  const std::scoped_lock lock(machine.mutex);
  ProcessSlot* slot = find_slot(machine, self);
  if (slot == nullptr) return nullptr;
  const ProcessNumber before = process_of(*slot);
  if (before != 0) take_over(machine, *slot);
  if (before == self) timing::forget_process(machine.time, self);
  slot->start_time.store(start_time_of(self), std::memory_order_relaxed);
  slot->swept.store(0, std::memory_order_relaxed);
  slot->pid.store(pid_of(self), std::memory_order_release);
  machine.process_count.fetch_add(1, std::memory_order_relaxed);
  return slot;
}

}  // namespace simgpu
