#include "tests/simgpu/refusing_system.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "tests/simgpu/device_process.h"

namespace {

using simgpu_test::Mmap;

Mmap g_mmap = Mmap::kWorks;
std::uint64_t g_refused_protections = 0;
bool g_divides = true;

void* system_mmap(void* at, std::size_t bytes, int access, int flags, int file, long offset) {
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, bytes, access, flags, file, offset));
}

int system_mprotect(void* at, std::size_t bytes, int access) {
  return static_cast<int>(syscall(SYS_mprotect, at, bytes, access));
}

/// True if a range begins or ends inside a mapping that has other access.
bool divides_mapping(const void* at, std::size_t bytes, int access) {
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  std::FILE* file = std::fopen("/proc/self/maps", "re");
  if (file == nullptr) return true;
  char line[512];
  bool divides = false;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    unsigned long low = 0;
    unsigned long high = 0;
    char allowed[5] = "";
    if (std::sscanf(line, "%lx-%lx %4s", &low, &high, allowed) != 3) continue;
    const int has = (allowed[0] == 'r' ? PROT_READ : 0) | (allowed[1] == 'w' ? PROT_WRITE : 0);
    const auto inside = [&](std::uintptr_t edge) { return low < edge && edge < high; };
    divides = divides || (has != access && (inside(begin) || inside(begin + bytes)));
  }
  std::fclose(file);
  return divides;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void* mmap(void* at, std::size_t bytes, int access,
                                                             int flags, int file, long offset) noexcept {
  constexpr int kAny = -1;
  const bool over = (flags & MAP_FIXED) != 0;
  const bool kept = over && !g_divides && divides_mapping(at, bytes, kAny);
  const bool lost = over && !kept && g_mmap != Mmap::kWorks;
  const bool refused = kept || lost || ((flags & MAP_FIXED_NOREPLACE) != 0 && g_mmap == Mmap::kLosesAlways);
  if (!refused) return system_mmap(at, bytes, access, flags, file, offset);
  if (lost) munmap(at, bytes);
  errno = ENOMEM;
  return MAP_FAILED;
}

extern "C" __attribute__((visibility("default"))) int mprotect(void* at, std::size_t bytes,
                                                               int access) noexcept {
  const bool refused = (g_refused_protections & 1) != 0 || (!g_divides && divides_mapping(at, bytes, access));
  g_refused_protections >>= 1;
  if (!refused) return system_mprotect(at, bytes, access);
  errno = ENOMEM;
  return -1;
}

namespace simgpu_test {

void set_mmap(Mmap does) {
  g_mmap = does;
}

void refuse_protections(std::uint64_t calls) {
  g_refused_protections = calls;
}

std::uint64_t most_mappings() {
  std::uint64_t most = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> most;
  return most;
}

bool too_many_to_take() {
  const bool many = most_mappings() > 300'000;
  if (many) WARN("vm.max_map_count is " << most_mappings() << ": the kernel's own refusal is not tested");
  return many;
}

void each_shortage(const std::function<void(Shortage)>& run) {
  run(Shortage::kPlayed);
  if (!too_many_to_take()) run(Shortage::kReal);
}

NoMappings::NoMappings(Shortage shortage, std::uint64_t left) {
  if (shortage == Shortage::kPlayed) {
    g_divides = false;
    return;
  }
  bytes_ = 2 * most_mappings() * kPage;
  base_ = static_cast<char*>(system_mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  EXPECT(base_ != MAP_FAILED);
  std::uint64_t at = kPage;
  while (system_mprotect(base_ + at, kPage, PROT_READ) == 0) at += 2 * kPage;
  // The last one may have needed two more where one was left.
  static_cast<void>(system_mprotect(base_, kPage, PROT_READ | PROT_WRITE));
  for (; left > 1; left -= 2) EXPECT(system_mprotect(base_ + (at -= 2 * kPage), kPage, PROT_NONE) == 0);
}

NoMappings::~NoMappings() {
  g_divides = true;
  if (bytes_ != 0) munmap(base_, bytes_);
}

}  // namespace simgpu_test
