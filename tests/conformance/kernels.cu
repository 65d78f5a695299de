#include "simgpu/kernel.h"
#include "tests/conformance/kernels.h"

namespace {

struct Fill {
  template <class C>
  __host__ __device__ static void run(C& c, unsigned* out, unsigned count, unsigned first) {
    c.writes(out, sizeof(unsigned) * count);
    c.phase([&](unsigned tid) {
      const auto i = c.global_x(tid);
      if (i < count) out[i] = first + static_cast<unsigned>(i);
    });
  }
};
SIMGPU_KERNEL(fill_kernel, Fill, (unsigned* out, unsigned count, unsigned first), out, count, first)

/// Waits on hardware, so that work that does not wait for it would come first.
struct SlowFill {
  template <class C>
  __host__ __device__ static void run(C& c, unsigned* out, unsigned count, unsigned first,
                                      [[maybe_unused]] unsigned microseconds) {
    c.writes(out, sizeof(unsigned) * count);
    c.phase([&](unsigned tid) {
#if defined(__CUDA_ARCH__)
      constexpr long long kCyclesPerMicrosecond = 1500;
      const long long start = clock64();
      while (clock64() - start < kCyclesPerMicrosecond * microseconds) {
      }
#endif
      const auto i = c.global_x(tid);
      if (i < count) out[i] = first + static_cast<unsigned>(i);
    });
  }
};
SIMGPU_KERNEL(slow_fill_kernel, SlowFill,
              (unsigned* out, unsigned count, unsigned first, unsigned microseconds), out, count, first,
              microseconds)

struct Affine {
  template <class C>
  __host__ __device__ static void run(C& c, unsigned* data, unsigned count, unsigned a, unsigned b) {
    c.reads(data, sizeof(unsigned) * count);
    c.writes(data, sizeof(unsigned) * count);
    c.phase([&](unsigned tid) {
      const auto i = c.global_x(tid);
      if (i < count) data[i] = data[i] * a + b;
    });
  }
};
SIMGPU_KERNEL(affine_kernel, Affine, (unsigned* data, unsigned count, unsigned a, unsigned b), data, count, a,
              b)

struct Copy {
  template <class C>
  __host__ __device__ static void run(C& c, const unsigned* in, unsigned* out, unsigned count) {
    c.reads(in, sizeof(unsigned) * count);
    c.writes(out, sizeof(unsigned) * count);
    c.phase([&](unsigned tid) {
      const auto i = c.global_x(tid);
      if (i < count) out[i] = in[i];
    });
  }
};
SIMGPU_KERNEL(copy_kernel, Copy, (const unsigned* in, unsigned* out, unsigned count), in, out, count)

struct Count {
  template <class C>
  __host__ __device__ static void run(C& c, unsigned* counter) {
    c.reads(counter, sizeof(unsigned));
    c.writes(counter, sizeof(unsigned));
    c.phase([&](unsigned) { c.atomic_add(counter, 1u); });
  }
};
SIMGPU_KERNEL(count_kernel, Count, (unsigned* counter), counter)

struct Index {
  template <class C>
  __host__ __device__ static void run(C& c, unsigned* out) {
    const simgpu::Index3 grid = c.grid_dim(), size = c.block_dim(), block = c.block();
    const unsigned threads = size.x * size.y * size.z;
    const unsigned linear = (block.z * grid.y + block.y) * grid.x + block.x;
    c.writes(out + linear * threads, sizeof(unsigned) * threads);
    c.phase([&](unsigned tid) {
      const simgpu::Index3 t = c.thread(tid);
      out[linear * threads + tid] = block.x | block.y << 4 | block.z << 8 | t.x << 12 | t.y << 16 | t.z << 20;
    });
  }
};
SIMGPU_KERNEL(index_kernel, Index, (unsigned* out), out)

struct Shared {
  template <class C>
  __host__ __device__ static void run(C& c, unsigned* out) {
    c.writes(out, sizeof(unsigned));
    c.phase([&](unsigned tid) {
      if (tid == 0) *out = c.dynamic_shared_bytes();
    });
  }
};
SIMGPU_KERNEL(shared_kernel, Shared, (unsigned* out), out)

struct SumBig {
  template <class C>
  __host__ __device__ static void run(C& c, conformance::BigParam big, unsigned* out) {
    c.writes(out, sizeof(unsigned));
    c.phase([&](unsigned tid) {
      if (tid != 0) return;
      unsigned sum = 0;
      for (const unsigned word : big.words) sum += word;
      *out = sum;
    });
  }
};
SIMGPU_KERNEL(sum_big_kernel, SumBig, (conformance::BigParam big, unsigned* out), big, out)

struct Mixed {
  template <class C>
  __host__ __device__ static void run(C& c, unsigned* out, unsigned char a, unsigned long long b,
                                      unsigned short s, conformance::Padded p) {
    c.writes(out, 6 * sizeof(unsigned));
    c.phase([&](unsigned tid) {
      if (tid != 0) return;
      out[0] = a;
      out[1] = static_cast<unsigned>(b >> 32);
      out[2] = static_cast<unsigned>(b);
      out[3] = s;
      out[4] = p.small;
      out[5] = static_cast<unsigned>(p.large >> 8);
    });
  }
};
SIMGPU_KERNEL(mixed_kernel, Mixed,
              (unsigned* out, unsigned char a, unsigned long long b, unsigned short s, conformance::Padded p),
              out, a, b, s, p)

struct Nothing {
  template <class C>
  __host__ __device__ static void run(C&) {}
};
__global__ void nothing_kernel() {}
[[maybe_unused]] const bool g_nothing = simgpu::register_kernel<Nothing>(&nothing_kernel);

__managed__ unsigned g_managed_words[conformance::kManagedWords] = {3, 4, 5, 6};

struct AddToManaged {
  template <class C>
  __host__ __device__ static void run(C& c, unsigned by) {
    c.reads(g_managed_words, sizeof g_managed_words);
    c.writes(g_managed_words, sizeof g_managed_words);
    c.phase([&](unsigned tid) {
      if (c.global_x(tid) < conformance::kManagedWords) g_managed_words[tid] += by;
    });
  }
};
SIMGPU_KERNEL(add_to_managed_kernel, AddToManaged, (unsigned by), by)

template <class... A>
const void* stub(void (*kernel)(A...)) {
  return reinterpret_cast<const void*>(kernel);
}

}  // namespace

namespace conformance {

const void* const kFill = stub(&fill_kernel);
const void* const kSlowFill = stub(&slow_fill_kernel);
const void* const kAffine = stub(&affine_kernel);
const void* const kCopy = stub(&copy_kernel);
const void* const kCount = stub(&count_kernel);
const void* const kIndex = stub(&index_kernel);
const void* const kShared = stub(&shared_kernel);
const void* const kSumBig = stub(&sum_big_kernel);
const void* const kMixed = stub(&mixed_kernel);
const void* const kNothing = stub(&nothing_kernel);
const void* const kAddToManaged = stub(&add_to_managed_kernel);

unsigned* managed_words() {
  return g_managed_words;
}

}  // namespace conformance
