#include "tools/simgpu/machine/machine_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>

namespace simgpu {
namespace {

/// When the process started, in clock ticks since boot; 0 if there is none or it has ended.
std::uint64_t start_time_of(std::int32_t pid) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return 0;
  char text[1024];
  const std::size_t n = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[n] = '\0';
  // The name is in brackets and may hold anything; the state follows, and the start time is 19 fields later.
  const char* after_name = std::strrchr(text, ')');
  if (after_name == nullptr) return 0;
  char state = '\0';
  unsigned long long start = 0;
  unsigned long long address_space = 0;
  const int fields = std::sscanf(after_name + 1,
                                 " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
                                 "%*d %llu %llu",
                                 &state, &start, &address_space);
  // A process that is about to end gives up its memory first, then its files, and becomes a zombie last.
  return fields == 3 && state != 'Z' && state != 'X' && address_space != 0 ? start : 0;
}

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
  const std::int32_t pid = slot.pid.load(std::memory_order_acquire);
  return pid != 0 && start_time_of(pid) == slot.start_time.load(std::memory_order_relaxed);
}

ProcessSlot* claim_slot(Machine& machine) {
  const std::scoped_lock lock(machine.mutex);
  ProcessSlot* free = nullptr;
  for (ProcessSlot& slot : machine.processes) {
    if (slot.pid.load(std::memory_order_relaxed) == 0) {
      free = &slot;
      break;
    }
  }
  for (std::size_t i = 0; free == nullptr && i < machine.processes.size(); ++i) {
    ProcessSlot& slot = machine.processes[i];
    if (alive(slot)) continue;
    add_report(&machine.departed, slot.report);
    new (&slot.report) ReportPage{};
    free = &slot;
  }
  if (free == nullptr) return nullptr;
  const std::int32_t self = ::getpid();
  free->start_time.store(start_time_of(self), std::memory_order_relaxed);
  free->swept.store(0, std::memory_order_relaxed);
  free->pid.store(self, std::memory_order_release);
  machine.process_count.fetch_add(1, std::memory_order_relaxed);
  return free;
}

}  // namespace simgpu
