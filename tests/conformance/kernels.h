#pragma once

#include <cuda.h>

#include <cstddef>

/// The kernels of the suite, and launches of them by the driver's functions. Each thread works on one 32-bit
/// word.
namespace conformance {

constexpr unsigned kBlock = 128;

/// Parameters of kSumBig: most of the 4 KiB that every device takes.
struct BigParam {
  unsigned words[960];
};

/// A struct with a hole, as the layout of parameters must keep it.
struct Padded {
  unsigned char small;
  unsigned long long large;
};

// Host stubs, by which the runtime knows kernels.
extern const void* const kFill;  ///< (unsigned* out, unsigned count, unsigned first): out[i] = first + i
extern const void* const
    kSlowFill;  ///< (out, count, first, unsigned us): the same after about so long on hardware
extern const void* const
    kAffine;  ///< (unsigned* data, count, unsigned a, unsigned b): data[i] = data[i] * a + b
extern const void* const kCopy;    ///< (const unsigned* in, unsigned* out, count)
extern const void* const kCount;   ///< (unsigned* counter): each thread adds 1
extern const void* const kIndex;   ///< (unsigned* out): each thread of a 3D grid marks its place
extern const void* const kShared;  ///< (unsigned* out): bytes of dynamic shared memory
extern const void* const kSumBig;  ///< (BigParam, unsigned* out): the sum of the words
extern const void* const
    kMixed;  ///< (unsigned* out, unsigned char, unsigned long long, unsigned short, Padded)
extern const void* const kNothing;       ///< ()
extern const void* const kAddToManaged;  ///< (unsigned by): adds to each of the managed words

/// Four __managed__ words, which start as 3, 4, 5, 6; in host code, so that their address is what the
/// compiler makes of their name.
constexpr unsigned kManagedWords = 4;
unsigned* managed_words();

/// The kernel as a function of the current context.
CUfunction function_of(const void* stub);

/// Blocks of kBlock threads for so many words.
inline unsigned blocks_for(std::size_t words) {
  return static_cast<unsigned>((words + kBlock - 1) / kBlock);
}

/// Launches with these parameters; the case fails if the launch does.
void launch(const void* stub, unsigned blocks, CUstream stream, void** params);

void fill(CUdeviceptr out, unsigned count, unsigned first, CUstream stream = nullptr);
/// A fill that is likely still at work when the next calls return, on hardware.
void slow_fill(CUdeviceptr out, unsigned count, unsigned first, CUstream stream = nullptr);
void affine(CUdeviceptr data, unsigned count, unsigned a, unsigned b, CUstream stream = nullptr);
void copy_words(CUdeviceptr in, CUdeviceptr out, unsigned count, CUstream stream = nullptr);

}  // namespace conformance
