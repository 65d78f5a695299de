#include "tools/simgpu/driver/process_maps.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>

namespace simgpu {

std::uint64_t count_process_maps() {
  std::FILE* file = std::fopen("/proc/self/maps", "re");
  if (file == nullptr) return 0;
  std::uint64_t lines = 0;
  std::array<char, 4096> buffer{};
  for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), file)) > 0;) {
    for (std::size_t i = 0; i < n; ++i) lines += buffer[i] == '\n' ? 1 : 0;
  }
  std::fclose(file);
  return lines;
}

std::uint64_t most_process_maps() {
  std::uint64_t limit = 65'530;  // Linux' own
  std::ifstream("/proc/sys/vm/max_map_count") >> limit;
  return limit - limit / 12;
}

std::uint64_t process_address_bytes() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

bool is_mapped(std::uint64_t base, std::uint64_t bytes) {
  // ENOMEM: "the indicated memory (or part of it) was not mapped", msync(2).
  return ::msync(reinterpret_cast<void*>(base), bytes, MS_ASYNC) == 0;
}

}  // namespace simgpu
