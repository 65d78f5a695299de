#pragma once

namespace simgpu::fatbin {

/// Why an image, or a part of it, cannot be used.
enum class Problem {
  kNone,
  kUnreadable,   ///< the pointer, or a size in a header, leads to memory that cannot be read
  kNotAnImage,   ///< neither fat binary, cubin nor PTX
  kTruncated,    ///< a part lies past the end of what holds it
  kCorrupt,      ///< sizes, numbers or text that contradict each other
  kTooLarge,     ///< larger than kLargestImage or kLargestInflated
  kRelocatable,  ///< a cubin that still has to be linked (nvcc -rdc=true before its link step)
  kNothingFits,  ///< the image is sound; nothing in it runs on this device
};

/// A few words for a message: "a part lies past the end of the image".
const char* describe(Problem problem);

}  // namespace simgpu::fatbin
