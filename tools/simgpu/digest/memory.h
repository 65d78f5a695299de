#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tools/simgpu/digest/access.h"

namespace simgpu::digest {

/// A piece of device memory that a pointer into it stands for: an allocation, or what of it a kernel may be
/// thought to touch. Two pieces never overlap.
struct Extent {
  std::uint64_t base = 0;  ///< a multiple of 8
  std::uint64_t bytes = 0;

  [[nodiscard]] std::uint64_t end() const { return base + bytes; }
};

/// A word in memory that came there as a pointer.
struct PointerWord {
  std::uint64_t address = 0;  ///< of the word; a multiple of 8
  std::uint64_t value = 0;    ///< when it came; the word may since have been damaged
  bool alive =
      false;  ///< the memory that it pointed to then is still there, not only other memory in its place
};

/// A word of a launch's parameters that should point to memory, or may, and of which find() knows nothing.
struct StrayPointer {
  enum class Sure : std::uint8_t {
    kMaybe,      ///< it is only inferred that this is a pointer, and what the kernel does with it
    kStructure,  ///< the role file says that a structure holds a pointer here; another version of the
                 ///< structure may hold something else
    kPointer,    ///< the parameter is a pointer, and the role file says what the kernel does with it
  };
  std::uint64_t address = 0;  ///< not null, which is what empty memory has
  Access access = Access::kNone;
  std::uint32_t param = 0;
  std::uint32_t offset = 0;
  Sure sure = Sure::kMaybe;
};

/// Device memory as one launch sees it. Addresses are addresses of this process.
class Memory {
 public:
  virtual ~Memory() = default;

  /// The extent that holds the address and is alive for this launch; nullopt if there is none: then the word
  /// is no pointer, or a stale one.
  [[nodiscard]] virtual std::optional<Extent> find(std::uint64_t address) const = 0;

  /// Appends the parts of the span, which lies in one extent, that were written since the extent came to be.
  /// Ascending, apart from each other. What was never written is not the same in two runs.
  virtual void written_parts(const Span& span, std::vector<Span>* parts) const = 0;

  /// Appends the words that are known to hold pointers because of how they came there, and of which a byte or
  /// more lies in the span: a half of a pointer is no number either. Ascending.
  virtual void pointer_words(const Span& span, std::vector<PointerWord>* words) const = 0;

  /// Runs `work`, which touches device memory. It neither allocates, locks nor throws. False if it was ended
  /// by an illegal access.
  virtual bool guarded(void (*work)(void*), void* argument) = 0;

  /// Asked about each stray pointer of a launch that is about to run: true if it ends the launch, as a touch
  /// of that memory would. Otherwise the pointer is left out.
  virtual bool refuses(const StrayPointer& stray) = 0;
};

/// Copies from device memory; false if it cannot be read.
bool copy_out(Memory& memory, std::uint64_t address, void* to, std::uint64_t bytes);

}  // namespace simgpu::digest
