// Kernels and variables whose layouts images_test.cpp knows. C names, so that the test needs no mangling; one
// template.
struct Mixed {
  char c;
  double d;
  int a[3];
};
struct Wide {
  alignas(16) float v[4];
};
struct Large {
  char bytes[5000];
};

extern "C" {
__device__ int zeroed;
__device__ int initialised = 77;
__device__ double doubles[1000];
__device__ char text[8] = "simgpu";
__device__ char* points_to_text = text + 2;
__constant__ float table[5] = {1, 2, 3, 4, 5};
__managed__ int managed_value = 5;
}

__device__ __noinline__ int deep(int i) {
  volatile int local[64];
  for (int k = 0; k < 64; ++k) local[k] = k * i;
  return local[i & 63];
}

extern "C" {
__global__ void no_parameters() {
  zeroed = static_cast<int>(table[initialised % 5]);
}

__global__ void scalars(char a, short b, int c, double d, float* e, bool f) {
  e[c] = static_cast<float>(a + b + d + f);
}

__global__ void structs(char a, Mixed b, Wide c, const Mixed* d, float* e) {
  *e = static_cast<float>(a + b.d + c.v[3] + d->c + points_to_text[0] + managed_value);
  doubles[b.a[0]] = 1;
}

__global__ void large(Large a, int b, float* c) {
  c[b] = a.bytes[b];
}

__global__ void shared_memory(float* a) {
  __shared__ float tile[300];
  tile[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  a[threadIdx.x] = tile[299 - threadIdx.x];
}

extern __shared__ float dynamic[];
__global__ void dynamic_memory(float* a) {
  a[0] = dynamic[threadIdx.x];
}

__global__ void __launch_bounds__(128) bounded(int* a) {
  a[threadIdx.x] = 1;
}

__global__ void with_stack(int* a, int i) {
  a[0] = deep(i);
}
}

template <class T>
__global__ void scale(T* x, T by) {
  x[threadIdx.x] *= by;
}
template __global__ void scale<float>(float*, float);
template __global__ void scale<double>(double*, double);
