// The search for pointers in a launch's parameters, over a driver that answers as it is told.

#include "shim/arg_scan.h"

#include <malloc.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/fakes/fake_device.h"

namespace tidepool::shim {
namespace {

// Not 0: the size of each parameter, all at the same offset.
std::size_t g_struct_size = 0;
std::size_t g_struct_offset = 0;

// What the driver says of one handle: `count` parameters, of eight bytes if nothing else is said, or an
// error.
struct Answer {
  CUresult error;
  std::size_t count;
  CUresult operator()(std::size_t index, std::size_t* offset, std::size_t* size) const {
    if (error != CUDA_SUCCESS) return error;
    if (index >= count) return CUDA_ERROR_INVALID_VALUE;
    *offset = g_struct_size != 0 ? g_struct_offset : 8 * index;
    *size = g_struct_size != 0 ? g_struct_size : 8;
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

  /// The same with one parameter of that size, which holds the pointer at `at` and nothing else.
  int named_in_struct(std::size_t size, std::size_t at) {
    std::vector<std::byte> bytes(size);
    std::memcpy(bytes.data() + at, &pointer_, sizeof pointer_);
    void* params[] = {bytes.data()};
    TouchSet set(*arena_);
    if (!scan_arguments(*driver_, reinterpret_cast<CUfunction>(this), params, nullptr, set)) return -1;
    return static_cast<int>(set.ids().size());
  }
  /// The same with all parameters in one buffer, of which the launch is told the first `size` bytes.
  int named_in_buffer(std::size_t size, std::size_t at) {
    std::vector<std::byte> bytes(std::max(size, at + sizeof pointer_));
    std::memcpy(bytes.data() + at, &pointer_, sizeof pointer_);
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, bytes.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    TouchSet set(*arena_);
    if (!scan_arguments(*driver_, reinterpret_cast<CUfunction>(this), nullptr, extra, set)) return -1;
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

// A struct that is packed has its pointers where no other has them.
TEST_CASE("argument scan: a pointer within a packed struct is found") {
  const auto names = [](std::size_t offset, std::size_t size, std::size_t at) {
    Launch launch;
    g_struct_offset = offset;
    g_struct_size = size;
    g_as_function = {CUDA_SUCCESS, 1};
    g_as_kernel = {CUDA_ERROR_INVALID_HANDLE, 0};
    const int named = launch.named_in_struct(size, at);
    g_struct_size = 0;
    return named == 1;
  };
  CHECK(names(0, 12, 4));   // int, pointer
  CHECK(names(4, 12, 4));   // after a number
  CHECK(names(4, 12, 0));   // pointer, int; at a place that only packed pointers have
  CHECK(names(4, 8, 0));    // a pointer alone
  CHECK(names(0, 16, 4));   // int, pointer, int: its size does not tell
  CHECK(names(0, 64, 52));  // the largest that is taken for packed all the same
  CHECK(names(8, 20, 12));
  CHECK(names(0, 9, 1));  // char, pointer
  CHECK(names(2, 10, 2));
  CHECK(names(0, 252, 244));
  // What is paid for larger structs is what they cost if they are not packed.
  CHECK_FALSE(names(0, 72, 4));
  CHECK(names(0, 72, 8));
  CHECK(names(0, 260, 4));
  CHECK(names(0, 260, 8));
}

TEST_CASE("argument scan: a pointer within a packed struct of a buffer is found") {
  for (std::size_t at = 0; at <= 24; at += 4) {
    INFO(at);
    CHECK(Launch().named_in_buffer(32, at) == 1);
  }
  Launch launch;
  CHECK(launch.named_in_buffer(8, 0) == 1);
  CHECK(launch.named_in_buffer(4, 0) == 0);
  CHECK(launch.named_in_buffer(0, 0) == 0);
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
