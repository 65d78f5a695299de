#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/sim/faults/call.h"

/// What the parts of a round work with.
namespace tidepool::faults {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr unsigned kWords = 64;  ///< that a kernel writes

/// PTX with mark(unsigned* out, unsigned value), in which thread i writes value + i; kWords threads.
extern const char* const kImage;

/// Page-locked memory of kWords words.
struct Pinned {
  Pinned();
  ~Pinned();
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  [[nodiscard]] CUdeviceptr at() const { return reinterpret_cast<CUdeviceptr>(words); }
  unsigned* words = nullptr;
};

/// One context, one stream of its own, and blocks that do not all fit.
class Device {
 public:
  Device();
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUfunction mark = nullptr;

  /// Launches mark on kWords words there.
  void write(CUdeviceptr at, unsigned value) const;
  /// Expects value, value + 1, … there, once the stream is done.
  void expect(CUdeviceptr at, unsigned value) const;
  void wait() const;

  /// Writes a block that has not been used for long, and looks at one that was.
  void turn(unsigned round);

 private:
  static constexpr unsigned kBlocks = 8;
  static constexpr unsigned kWritten =
      5;  ///< of them; the others are only read, so they need not be copied again
  static constexpr std::size_t kSize = 4 * kMiB;

  CUmodule module_ = nullptr;
  CUdeviceptr small_ = 0;
  CUdeviceptr blocks_[kBlocks] = {};
  unsigned values_[kBlocks] = {};
};

/// Memory of cuMemAlloc, for a block of code.
class Memory {
 public:
  explicit Memory(std::size_t bytes) { CALL(cuMemAlloc_v2)(&at, bytes); }
  ~Memory() { CALL(cuMemFree_v2)(at); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  CUdeviceptr at = 0;
};

/// On a simulated device the kernel of kImage is given a body.
void give_body(void* loaded);

// The parts of a round; each checks what it wrote and leaves nothing.
void plain_memory(const Device& device, unsigned round);
void memory_of_pools(const Device& device, unsigned round);
/// A pool whose memory another process may be given stays with the driver.
void memory_that_is_shared(const Device& device, unsigned round);
void own_mappings(const Device& device, unsigned round);
void copies(const Device& device, unsigned round);
void questions(const Device& device, unsigned round);
void memsets(const Device& device, unsigned round);
void operations_on_words(const Device& device, unsigned round);
void graphs(const Device& device, unsigned round);
void captures(const Device& device, unsigned round);
void launches(const Device& device, unsigned round);
void modules(const Device& device, unsigned round);
/// A context that begins and ends, with memory in it; on two devices also what they give each other. Not
/// between the others: it ends their context.
void contexts(unsigned round);

}  // namespace tidepool::faults
