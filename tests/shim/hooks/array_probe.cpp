// Arrays over the recording driver: each counts in the budget (16 MiB) while it lives, by what it was asked
// to be.

#include "tests/shim/probe.h"

namespace tidepool::test {
namespace {

std::size_t free_memory() {
  std::size_t free = 0;
  std::size_t total = 0;
  EXPECT(DRIVER(cuMemGetInfo_v2)(&free, &total) == CUDA_SUCCESS && total == 16 * kMiB);
  return free;
}

void expect_counted(std::size_t size, const auto& make, const auto& destroy) {
  const std::size_t before = free_memory();
  auto array = make();
  EXPECT(free_memory() == before - size);
  EXPECT(destroy(array) == CUDA_SUCCESS);
  EXPECT(free_memory() == before);
}

void arrays() {
  start();
  CUdeviceptr block = 0;
  EXPECT(DRIVER(cuMemAlloc_v2)(&block, 2 * kMiB) == CUDA_SUCCESS);
  EXPECT(free_memory() == 14 * kMiB);
  const auto destroy = DRIVER(cuArrayDestroy);
  const auto plain = [](std::size_t width, std::size_t height, CUarray_format format, unsigned channels) {
    return [=] {
      const CUDA_ARRAY_DESCRIPTOR wanted{width, height, format, channels};
      CUarray array = nullptr;
      EXPECT(DRIVER(cuArrayCreate_v2)(&array, &wanted) == CUDA_SUCCESS && array != nullptr);
      return array;
    };
  };
  expect_counted(4 * kMiB, plain(1024, 1024, CU_AD_FORMAT_FLOAT, 1), destroy);
  expect_counted(4 * kMiB, plain(1024, 1024, CU_AD_FORMAT_UNSIGNED_INT8, 4), destroy);
  expect_counted(kMiB, plain(512 * 1024, 0, CU_AD_FORMAT_HALF, 1), destroy);
  const auto deep = [](unsigned flags) {
    return [=] {
      const CUDA_ARRAY3D_DESCRIPTOR wanted{128, 128, 16, CU_AD_FORMAT_FLOAT, 4, flags};
      CUarray array = nullptr;
      EXPECT(DRIVER(cuArray3DCreate_v2)(&array, &wanted) == CUDA_SUCCESS && array != nullptr);
      return array;
    };
  };
  expect_counted(4 * kMiB, deep(0), destroy);
  expect_counted(0, deep(CUDA_ARRAY3D_SPARSE), destroy);
  const auto levels = [](unsigned flags) {
    return [=] {
      const CUDA_ARRAY3D_DESCRIPTOR wanted{256, 256, 4, CU_AD_FORMAT_FLOAT, 1, flags};
      CUmipmappedArray array = nullptr;
      EXPECT(DRIVER(cuMipmappedArrayCreate)(&array, &wanted, 2) == CUDA_SUCCESS && array != nullptr);
      return array;
    };
  };
  expect_counted(kMiB + kMiB / 8, levels(0), DRIVER(cuMipmappedArrayDestroy));
  expect_counted(kMiB + kMiB / 4, levels(CUDA_ARRAY3D_LAYERED), DRIVER(cuMipmappedArrayDestroy));
}

}  // namespace
}  // namespace tidepool::test

int main() {
  tidepool::test::arrays();
  std::puts("as expected");
  return 0;
}
