#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <functional>

/// A system that refuses. The driver's library calls the mmap() and mprotect() of a program that has this.
namespace simgpu_test {

constexpr std::uint64_t kPage = 4096;

/// What mmap() over mapped addresses does in this process.
enum class Mmap : std::uint8_t {
  kWorks,
  kLoses,       ///< unmaps them and fails
  kLosesAlways  ///< the same, and nothing else is mapped at addresses that are asked for
};
void set_mmap(Mmap does);
/// Bit i is whether the i-th mprotect() from now on fails.
void refuse_protections(std::uint64_t calls);

/// Who has no more mappings for this process.
enum class Shortage : std::uint8_t {
  kPlayed,  ///< mmap() and mprotect() refuse what would divide a mapping
  kReal     ///< the kernel, since the process has as many as it may
};
/// Runs a case with each shortage. Where a process may have so many mappings that taking them all takes long,
/// there is only the played one, and a warning.
void each_shortage(const std::function<void(Shortage)>& run);
/// True, and a warning, where a process may have that many.
bool too_many_to_take();

/// There are no more mappings while it lives, or only `left` more or one less.
class NoMappings {
 public:
  explicit NoMappings(Shortage shortage, std::uint64_t left = 0);
  ~NoMappings();
  NoMappings(const NoMappings&) = delete;
  NoMappings& operator=(const NoMappings&) = delete;

 private:
  std::uint64_t bytes_ = 0;  ///< 0 where it is played
  char* base_ = nullptr;
};

/// How many mappings the system lets a process have.
std::uint64_t most_mappings();

}  // namespace simgpu_test
