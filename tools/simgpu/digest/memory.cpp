#include "tools/simgpu/digest/memory.h"

#include <cstring>

namespace simgpu::digest {

bool copy_out(Memory& memory, std::uint64_t address, void* to, std::uint64_t bytes) {
  struct Job {
    std::uint64_t from;
    void* to;
    std::uint64_t bytes;
  } job{address, to, bytes};
  return memory.guarded(
      [](void* argument) {
        const Job& j = *static_cast<const Job*>(argument);
        std::memcpy(j.to, reinterpret_cast<const void*>(j.from), j.bytes);
      },
      &job);
}

}  // namespace simgpu::digest
