// The search for pointers in a launch's parameters, over a driver that answers as it is told.

#include "shim/arg_scan.h"

#include <malloc.h>

#include <catch2/catch.hpp>
#include <memory>

#include "tests/fakes/fake_device.h"

namespace tidepool::shim {
namespace {

// What the driver says of one handle: `count` parameters of eight bytes, or an error.
struct Answer {
  CUresult error;
  std::size_t count;
  CUresult operator()(std::size_t index, std::size_t* offset, std::size_t* size) const {
    if (error != CUDA_SUCCESS) return error;
    if (index >= count) return CUDA_ERROR_INVALID_VALUE;
    *offset = 8 * index;
    *size = 8;
    return CUDA_SUCCESS;
  }
};
Answer g_as_function;
Answer g_as_kernel;

std::size_t bytes_in_use() {
  return ::mallinfo2().uordblks;
}

class Launch {
 public:
  Launch() {
    auto made = runtime::Arena::create(device_);
    REQUIRE(made.ok());
    arena_.reset(*made);
    const auto id = arena_->add(MiB(2), MiB(2));
    REQUIRE(id.ok());
    pointer_ = arena_->block(*id).base.address();
    driver_->cuFuncGetParamInfo = [](CUfunction, std::size_t index, std::size_t* offset, std::size_t* size) {
      return g_as_function(index, offset, size);
    };
    driver_->cuKernelGetParamInfo = [](CUkernel, std::size_t index, std::size_t* offset, std::size_t* size) {
      return g_as_kernel(index, offset, size);
    };
    forget_layouts();
  }

  /// How many blocks a launch of `function` with a number and a pointer names; -1: cannot be known.
  int named() {
    std::uint64_t number = 7;
    void* params[] = {&number, &pointer_};
    TouchSet set(*arena_);
    if (!scan_arguments(*driver_, reinterpret_cast<CUfunction>(this), params, nullptr, set)) return -1;
    return static_cast<int>(set.ids().size());
  }

 private:
  fakes::FakeDevice device_{{GiB(1), MiB(2), 1}};
  std::unique_ptr<runtime::Arena> arena_;
  std::uint64_t pointer_ = 0;
  std::unique_ptr<RealDriver> driver_ = std::make_unique<RealDriver>();
};

}  // namespace

TEST_CASE("argument scan: a function's parameters are found") {
  Launch launch;
  g_as_function = {CUDA_SUCCESS, 2};
  g_as_kernel = {CUDA_ERROR_INVALID_HANDLE, 0};
  CHECK(launch.named() == 1);
}

TEST_CASE("argument scan: a kernel handle in place of a function's, whatever error tells it") {
  for (const CUresult error : {CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_VALUE}) {
    Launch launch;
    g_as_function = {error, 0};
    g_as_kernel = {CUDA_SUCCESS, 2};
    CHECK(launch.named() == 1);
  }
}

TEST_CASE("argument scan: a function without parameters names nothing") {
  for (const CUresult other : {CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_VALUE}) {
    Launch launch;
    g_as_function = {CUDA_SUCCESS, 0};
    g_as_kernel = {other, 0};
    CHECK(launch.named() == 0);
  }
}

TEST_CASE("argument scan: a failure is not remembered") {
  Launch launch;
  g_as_function = {CUDA_ERROR_INVALID_CONTEXT, 0};
  g_as_kernel = {CUDA_ERROR_INVALID_CONTEXT, 0};
  CHECK(launch.named() == -1);
  g_as_function = {CUDA_SUCCESS, 2};
  CHECK(launch.named() == 1);
}

// Of a handle each of the two functions knows one kind only: what the other one says decides nothing.
TEST_CASE("argument scan: a failure of one question is not the other's answer") {
  for (const CUresult no_such : {CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_VALUE}) {
    Launch kernel;
    g_as_function = {no_such, 0};
    g_as_kernel = {CUDA_ERROR_UNKNOWN, 0};
    CHECK(kernel.named() == -1);
    g_as_kernel = {CUDA_SUCCESS, 2};
    CHECK(kernel.named() == 1);
    Launch function;
    g_as_function = {CUDA_ERROR_UNKNOWN, 0};
    g_as_kernel = {no_such, 0};
    CHECK(function.named() == -1);
    g_as_function = {CUDA_SUCCESS, 2};
    CHECK(function.named() == 1);
  }
}

TEST_CASE("argument scan: layouts that are read again take no more room") {
  Launch launch;
  g_as_function = {CUDA_SUCCESS, 2};
  g_as_kernel = {CUDA_ERROR_INVALID_HANDLE, 0};
  CHECK(launch.named() == 1);
  const std::size_t before = bytes_in_use();
  int right = 0;
  for (int i = 0; i < 10000; ++i) {
    forget_layouts();
    right += launch.named();
  }
  CHECK(right == 10000);
  CHECK(bytes_in_use() < before + 16 * 1024);
}

TEST_CASE("argument scan: a handle that comes back for another function is read again") {
  Launch launch;
  g_as_function = {CUDA_SUCCESS, 1};
  g_as_kernel = {CUDA_ERROR_INVALID_HANDLE, 0};
  CHECK(launch.named() == 0);
  g_as_function = {CUDA_SUCCESS, 2};
  CHECK(launch.named() == 0);
  forget_layouts();
  CHECK(launch.named() == 1);
}

}  // namespace tidepool::shim
