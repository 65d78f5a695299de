// Launches: shapes, parameters, attributes, limits.

#include <array>
#include <cstring>

#include "tests/conformance/device.h"

#define EXECUTION "CUDA Driver API, Execution Control: "
#define OCCUPANCY "CUDA Driver API, Occupancy: "

namespace conformance {
namespace {

CUresult try_launch(const std::array<unsigned, 3>& grid, const std::array<unsigned, 3>& block,
                    unsigned shared = 0) {
  return CU(cuLaunchKernel)(function_of(kNothing), grid[0], grid[1], grid[2], block[0], block[1], block[2],
                            shared, nullptr, nullptr, nullptr);
}

CUlaunchConfig config_of(CUlaunchAttribute* attributes, unsigned count) {
  CUlaunchConfig config{};
  config.gridDimX = 4;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = kBlock;
  config.blockDimY = config.blockDimZ = 1;
  config.attrs = attributes;
  config.numAttrs = count;
  return config;
}

/// Fills 4 blocks of words by cuLaunchKernelEx and expects them.
void expect_ex_works(CUlaunchAttribute* attributes, unsigned count) {
  CUdeviceptr out = allocate(16 * kKiB);
  unsigned words = 4 * kBlock;
  unsigned first = 6;
  void* params[] = {&out, &words, &first};
  const CUlaunchConfig config = config_of(attributes, count);
  OK(CU(cuLaunchKernelEx)(&config, function_of(kFill), params, nullptr));
  EXPECT_WORDS(out, words, 6);
}

int active_blocks(const void* stub, int threads, std::size_t shared) {
  int blocks = -1;
  OK(CU(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, function_of(stub), threads, shared));
  return blocks;
}

}  // namespace

CASE("launch.each_thread_runs_once", EXECUTION "cuLaunchKernel") {
  use_device();
  CUdeviceptr counter = allocate(4);
  OK(CU(cuMemsetD32)(counter, 0, 1));
  void* params[] = {&counter};
  launch(kCount, 37, nullptr, params);
  EXPECT_EQ(read_word(counter), 37 * kBlock);
}

CASE("launch.grids_and_blocks_have_three_dimensions", EXECUTION "cuLaunchKernel") {
  use_device();
  CUdeviceptr out = allocate(64 * kKiB);
  void* params[] = {&out};
  OK(CU(cuLaunchKernel)(function_of(kIndex), 3, 4, 2, 5, 2, 3, 0, nullptr, params, nullptr));
  const std::vector<unsigned> words = read_words(out, 24 * 30);
  for (unsigned i = 0; i < words.size(); ++i) {
    const unsigned block = i / 30;
    const unsigned thread = i % 30;
    const unsigned want = block % 3 | block / 3 % 4 << 4 | block / 12 << 8 | thread % 5 << 12 |
                          thread / 5 % 2 << 16 | thread / 10 << 20;
    EXPECT_EQ(words[i], want);
  }
}

CASE("launch.a_kernel_without_parameters_needs_none", EXECUTION "cuLaunchKernel") {
  use_device();
  OK(try_launch({1, 1, 1}, {32, 1, 1}));
  OK(CU(cuCtxSynchronize)());
}

CASE("launch.empty_shapes_are_refused",
     EXECUTION "cuLaunchKernel; Programming Guide, Execution Configuration") {
  use_device();
  REFUSES(try_launch({0, 1, 1}, {32, 1, 1}), CUDA_ERROR_INVALID_VALUE);
  REFUSES(try_launch({1, 1, 0}, {32, 1, 1}), CUDA_ERROR_INVALID_VALUE);
  REFUSES(try_launch({1, 1, 1}, {0, 1, 1}), CUDA_ERROR_INVALID_VALUE);
  REFUSES(try_launch({1, 1, 1}, {32, 0, 1}), CUDA_ERROR_INVALID_VALUE);
}

CASE("launch.shapes_beyond_the_device_are_refused",
     "CUDA C++ Programming Guide, Compute Capabilities, limits") {
  use_device();
  const auto most = static_cast<unsigned>(attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  const auto deep = static_cast<unsigned>(attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z));
  const auto rows = static_cast<unsigned>(attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y));
  REFUSES(try_launch({1, 1, 1}, {most + 1, 1, 1}), CUDA_ERROR_INVALID_VALUE);
  REFUSES(try_launch({1, 1, 1}, {most / 2, 4, 1}), CUDA_ERROR_INVALID_VALUE);
  REFUSES(try_launch({1, 1, 1}, {1, 1, deep + 1}), CUDA_ERROR_INVALID_VALUE);
  REFUSES(try_launch({1, rows + 1, 1}, {1, 1, 1}), CUDA_ERROR_INVALID_VALUE);
  OK(try_launch({1, 1, 1}, {most, 1, 1}));
  OK(CU(cuCtxSynchronize)());
}

CASE("launch.parameters_keep_their_layout", EXECUTION "cuLaunchKernel, kernelParams") {
  use_device();
  CUdeviceptr out = allocate(64);
  unsigned char a = 200;
  unsigned long long b = 0x1122334455667788ull;
  unsigned short s = 50000;
  Padded p{77, 0x99887766ull << 8};
  void* params[] = {&out, &a, &b, &s, &p};
  launch(kMixed, 1, nullptr, params);
  const std::vector<unsigned> words = read_words(out, 6);
  EXPECT(words[0] == 200 && words[1] == 0x11223344 && words[2] == 0x55667788);
  EXPECT(words[3] == 50000 && words[4] == 77 && words[5] == 0x99887766);
}

CASE("launch.parameters_can_be_packed", EXECUTION "cuLaunchKernel, extra") {
  use_device();
  struct {
    CUdeviceptr out;
    unsigned count, first;
  } packed{allocate(4 * kKiB), 64, 9};
  std::size_t bytes = sizeof packed;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  OK(CU(cuLaunchKernel)(function_of(kFill), 1, 1, 1, kBlock, 1, 1, 0, nullptr, nullptr, extra));
  EXPECT_WORDS(packed.out, 64, 9);
}

CASE("launch.parameters_are_given_one_way_only", EXECUTION "cuLaunchKernel") {
  use_device();
  struct {
    CUdeviceptr out;
    unsigned count, first;
  } packed{allocate(4 * kKiB), 64, 9};
  std::size_t bytes = sizeof packed;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  void* params[] = {&packed.out, &packed.count, &packed.first};
  REFUSES(CU(cuLaunchKernel)(function_of(kFill), 1, 1, 1, kBlock, 1, 1, 0, nullptr, params, extra),
          CUDA_ERROR_INVALID_VALUE);
}

CASE_ORDER("launch.parameters_are_copied_by_the_call", EXECUTION "cuLaunchKernel, kernelParams") {
  use_device();
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  CUdeviceptr out = allocate(4 * kKiB);
  slow_fill(out, 64, 1, stream);
  unsigned count = 64;
  unsigned first = 15;
  void* params[] = {&out, &count, &first};
  launch(kFill, 1, stream, params);
  count = 0;
  first = 0;
  EXPECT_WORDS(out, 64, 15);
}

CASE("launch.four_kilobytes_of_parameters_fit",
     "CUDA C++ Programming Guide, __global__ Function Parameters") {
  use_device();
  BigParam big{};
  unsigned want = 0;
  for (unsigned i = 0; i < 960; ++i) {
    big.words[i] = i * i;
    want += i * i;
  }
  CUdeviceptr out = allocate(4);
  void* params[] = {&big, &out};
  launch(kSumBig, 1, nullptr, params);
  EXPECT_EQ(read_word(out), want);
}

CASE("launch.dynamic_shared_memory_is_as_asked", EXECUTION "cuLaunchKernel, sharedMemBytes") {
  use_device();
  CUdeviceptr out = allocate(4);
  void* params[] = {&out};
  OK(CU(cuLaunchKernel)(function_of(kShared), 1, 1, 1, 32, 1, 1, 12345 & ~15u, nullptr, params, nullptr));
  EXPECT_EQ(read_word(out), 12345u & ~15u);
}

CASE("launch.more_shared_memory_must_be_allowed_first",
     EXECUTION "cuFuncSetAttribute, MAX_DYNAMIC_SHARED_SIZE_BYTES") {
  use_device();
  const auto plain = static_cast<unsigned>(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK));
  const auto most = static_cast<unsigned>(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  if (most <= plain) skip("the device has no more shared memory than any");
  REFUSES(try_launch({1, 1, 1}, {32, 1, 1}, most), CUDA_ERROR_INVALID_VALUE);
  const CUfunction f = function_of(kNothing);
  OK(CU(cuFuncSetAttribute)(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(most)));
  OK(try_launch({1, 1, 1}, {32, 1, 1}, most));
  OK(CU(cuCtxSynchronize)());
  REFUSES(
      CU(cuFuncSetAttribute)(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(most) + 1),
      CUDA_ERROR_INVALID_VALUE);
}

CASE("launch.ex_without_attributes_is_a_launch", EXECUTION "cuLaunchKernelEx") {
  use_device();
  expect_ex_works(nullptr, 0);
}

CASE("launch.ex_takes_attributes", EXECUTION "cuLaunchKernelEx") {
  use_device();
  CUlaunchAttribute attributes[2] = {};
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_IGNORE;
  attributes[1].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  expect_ex_works(attributes, 2);
}

CASE("launch.ex_takes_clusters", EXECUTION "cuLaunchKernelEx, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION") {
  use_device();
  need(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, "clusters");
  CUlaunchAttribute attributes[1] = {};
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attributes[0].value.clusterDim.x = 2;
  attributes[0].value.clusterDim.y = attributes[0].value.clusterDim.z = 1;
  expect_ex_works(attributes, 1);
  attributes[0].value.clusterDim.x = 3;
  const CUlaunchConfig config = config_of(attributes, 1);
  FAILS(CU(cuLaunchKernelEx)(&config, function_of(kNothing), nullptr, nullptr));
}

CASE("launch.cooperative_grids_run", EXECUTION "cuLaunchCooperativeKernel; cuLaunchKernelEx") {
  use_device();
  need(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, "cooperative launches");
  CUdeviceptr out = allocate(4 * kKiB);
  unsigned count = 2 * kBlock;
  unsigned first = 8;
  void* params[] = {&out, &count, &first};
  OK(CU(cuLaunchCooperativeKernel)(function_of(kFill), 2, 1, 1, kBlock, 1, 1, 0, nullptr, params));
  EXPECT_WORDS(out, count, 8);
  CUlaunchAttribute attributes[1] = {};
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attributes[0].value.cooperative = 1;
  expect_ex_works(attributes, 1);
}

CASE("launch.cooperative_grids_fit_the_device", EXECUTION "cuLaunchCooperativeKernel") {
  use_device();
  need(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, "cooperative launches");
  const int most = active_blocks(kNothing, kBlock, 0) * attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  const auto blocks = static_cast<unsigned>(most);
  const CUfunction f = function_of(kNothing);
  OK(CU(cuLaunchCooperativeKernel)(f, blocks, 1, 1, kBlock, 1, 1, 0, nullptr, nullptr));
  REFUSES(CU(cuLaunchCooperativeKernel)(f, blocks + 1, 1, 1, kBlock, 1, 1, 0, nullptr, nullptr),
          CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  OK(CU(cuCtxSynchronize)());
}

CASE("launch.the_runtime_refuses_bad_shapes", "CUDA Runtime API, Execution Control: cudaLaunchKernel") {
  use_device();
  dim3 grid;
  dim3 block;
  block.x = 4096;
  REFUSES(RT(cudaLaunchKernel)(kNothing, grid, block, nullptr, 0, nullptr), cudaErrorInvalidConfiguration,
          cudaErrorInvalidValue);
  REFUSES(RT(cudaGetLastError)(), cudaErrorInvalidConfiguration, cudaErrorInvalidValue);
  block.x = 32;
  OK(RT(cudaLaunchKernel)(kNothing, grid, block, nullptr, 0, nullptr));
  OK(RT(cudaGetLastError)());
}

CASE("launch.the_runtime_launches_by_host_stub", "CUDA Runtime API, Execution Control: cudaLaunchKernel") {
  use_device();
  CUdeviceptr out = allocate(4 * kKiB);
  unsigned count = 64;
  unsigned first = 12;
  void* params[] = {&out, &count, &first};
  dim3 grid;
  dim3 block;
  block.x = kBlock;
  OK(RT(cudaLaunchKernel)(kFill, grid, block, params, 0, nullptr));
  EXPECT_WORDS(out, 64, 12);
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  first = 13;
  OK(RT(cudaLaunchKernelExC)(&config, kFill, params));
  EXPECT_WORDS(out, 64, 13);
}

CASE("occupancy.blocks_fit_the_multiprocessor", OCCUPANCY "cuOccupancyMaxActiveBlocksPerMultiprocessor") {
  use_device();
  const int threads = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  const int blocks = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  for (const int size : {32, 64, 256, 1024}) {
    const int active = active_blocks(kFill, size, 0);
    EXPECT(active >= 1 && active * size <= threads && active <= blocks);
  }
}

CASE("occupancy.shared_memory_lessens_it", OCCUPANCY "cuOccupancyMaxActiveBlocksPerMultiprocessor") {
  use_device();
  const auto shared =
      static_cast<std::size_t>(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR));
  const int few = active_blocks(kFill, 64, 48 * kKiB);
  EXPECT(few <= active_blocks(kFill, 64, 0));
  EXPECT(few >= 1 && static_cast<std::size_t>(few) * 48 * kKiB <= shared);
}

CASE("occupancy.block_sizes_are_suggested", OCCUPANCY "cuOccupancyMaxPotentialBlockSize") {
  use_device();
  int grid = 0;
  int block = 0;
  OK(CU(cuOccupancyMaxPotentialBlockSize)(&grid, &block, function_of(kFill), nullptr, 0, 0));
  EXPECT(block >= 32 && block <= attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK) && block % 32 == 0);
  EXPECT_EQ(grid, active_blocks(kFill, block, 0) * attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  OK(CU(cuOccupancyMaxPotentialBlockSize)(&grid, &block, function_of(kFill), nullptr, 0, 128));
  EXPECT(block >= 32 && block <= 128);
}

CASE("occupancy.shared_memory_left_is_told", OCCUPANCY "cuOccupancyAvailableDynamicSMemPerBlock") {
  use_device();
  std::size_t bytes = 0;
  const int most = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  OK(CU(cuFuncSetAttribute)(function_of(kFill), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most));
  OK(CU(cuOccupancyAvailableDynamicSMemPerBlock)(&bytes, function_of(kFill), 2, 64));
  // What the system keeps of each block's shared memory is not taken off (cuda_occupancy.h does not, either).
  const auto kept = static_cast<std::size_t>(attribute(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK));
  remark(std::to_string(bytes) + " bytes are told for 2 blocks, of which " + std::to_string(kept) +
         " are kept; with all of them " + std::to_string(active_blocks(kFill, 64, bytes)) + " blocks fit");
  EXPECT(bytes > kept);
  EXPECT(active_blocks(kFill, 64, bytes - kept) >= 2);
}

CASE("occupancy.the_runtime_says_the_same", "CUDA Runtime API, Occupancy") {
  use_device();
  int blocks = -1;
  OK(RT(cudaOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, kFill, 256, 0));
  EXPECT_EQ(blocks, active_blocks(kFill, 256, 0));
  OK(RT(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)(&blocks, kFill, 256, 0,
                                                                cudaOccupancyDefault));
  EXPECT_EQ(blocks, active_blocks(kFill, 256, 0));
}

}  // namespace conformance
