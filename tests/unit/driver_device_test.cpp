#include "allocator/cuda/driver_device.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <thread>

#include "allocator/captures.h"

/// What DriverDevice decides before it asks the driver. The rest is judged by tests/contract.
namespace tidepool::runtime {
namespace {

CUstreamCaptureStatus g_status = CU_STREAM_CAPTURE_STATUS_NONE;
int g_relaxed = 0;  ///< exchanges of the thread's capture mode
int g_records = 0;
int g_rdma = 0;                 ///< what the driver answers of it
int g_refused_questions = 0;    ///< so many are
unsigned g_asked_for_rdma = 9;  ///< by the last cuMemCreate

std::thread g_capturer;               ///< begins a capture while a call of ours is under way
std::atomic<bool> g_captured{false};  ///< as the driver sees it
std::atomic<bool> g_spoilt{false};    ///< a call came that the capture does not survive

/// Another thread begins a capture, as the hook does; the driver knows of it if it got so far within 50 ms.
void capture_elsewhere() {
  g_capturer = std::thread([] {
    begin_capture();
    g_captured = true;
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  while (!g_captured && std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

DriverTable driver_of_stubs() {
  DriverTable driver;
  driver.cuDevicePrimaryCtxRetain = [](CUcontext* context, CUdevice) {
    *context = reinterpret_cast<CUcontext>(std::uintptr_t{1});
    return CUDA_SUCCESS;
  };
  driver.cuDeviceTotalMem_v2 = [](std::size_t* bytes, CUdevice) {
    *bytes = std::size_t{1} << 30;
    return CUDA_SUCCESS;
  };
  driver.cuMemGetAllocationGranularity = [](std::size_t* bytes, const CUmemAllocationProp*,
                                            CUmemAllocationGranularity_flags) {
    *bytes = std::size_t{2} << 20;
    return CUDA_SUCCESS;
  };
  driver.cuDeviceGetAttribute = [](int* value, CUdevice_attribute attribute, CUdevice) {
    if (g_refused_questions > 0) return --g_refused_questions, CUDA_ERROR_UNKNOWN;
    *value = attribute == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED ? g_rdma : 0;
    return CUDA_SUCCESS;
  };
  driver.cuMemCreate = [](CUmemGenericAllocationHandle* handle, std::size_t,
                          const CUmemAllocationProp* wanted, unsigned long long) {
    g_asked_for_rdma = wanted->allocFlags.gpuDirectRDMACapable;
    *handle = 7;
    return CUDA_SUCCESS;
  };
  driver.cuCtxGetCurrent = [](CUcontext* context) {
    *context = reinterpret_cast<CUcontext>(std::uintptr_t{1});
    return CUDA_SUCCESS;
  };
  driver.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode*) {
    ++g_relaxed;
    return CUDA_SUCCESS;
  };
  driver.cuStreamIsCapturing = [](CUstream, CUstreamCaptureStatus* status) {
    *status = g_status;
    return CUDA_SUCCESS;
  };
  driver.cuEventRecord = [](CUevent, CUstream) {
    ++g_records;
    return CUDA_SUCCESS;
  };
  return driver;
}

}  // namespace

TEST_CASE("driver device: a stream that is being captured is neither recorded in nor hashed in") {
  const DriverTable driver = driver_of_stubs();
  const auto made = DriverDevice::create(driver, 0);
  REQUIRE(made.ok());
  const std::unique_ptr<DriverDevice> device(*made);
  const Status refused(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  std::uint64_t host[2] = {};
  const auto hash = [&] { return device->hash_to_host(host, DevicePtr(4096), MiB(2), 1, StreamHandle{8}); };
  const auto record = [&] { return device->record(EventHandle{9}, StreamHandle{8}); };

  CHECK(hash() == kNotSupported);  // nothing is captured: it is the hasher that says no
  CHECK(record().ok());
  REQUIRE(g_records == 1);

  captures_under_way = 1;
  g_status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  CHECK(hash() == refused);
  CHECK(record() == refused);
  CHECK(g_records == 1);
  g_status = CU_STREAM_CAPTURE_STATUS_NONE;  // another stream is captured
  CHECK(hash() == kNotSupported);
  CHECK(record().ok());
  CHECK(g_records == 2);
  CHECK(g_relaxed == 2 * 4);  // relaxed for the call, then the thread's own again
  captures_under_way = 0;
}

// Between the question whether anything is captured and the call of the driver.
TEST_CASE("driver device: a capture that another thread begins waits for the calls that do not know of it") {
  DriverTable driver = driver_of_stubs();
  driver.cuCtxGetCurrent = [](CUcontext* context) {
    if (!g_capturer.joinable()) capture_elsewhere();
    *context = reinterpret_cast<CUcontext>(std::uintptr_t{1});
    return CUDA_SUCCESS;
  };
  driver.cuCtxSynchronize = [] {
    g_spoilt = g_spoilt || g_captured;
    return CUDA_SUCCESS;
  };
  driver.cuEventQuery = [](CUevent) {
    g_spoilt = g_spoilt || g_captured;
    return CUDA_SUCCESS;
  };
  driver.cuMemHostRegister_v2 = [](void*, std::size_t, unsigned) {
    g_spoilt = g_spoilt || g_captured;
    return CUDA_SUCCESS;
  };
  const auto made = DriverDevice::create(driver, 0);
  REQUIRE(made.ok());
  const std::unique_ptr<DriverDevice> device(*made);
  const auto survives = [&](auto&& call) {
    REQUIRE(call().ok());
    g_capturer.join();
    CHECK(g_captured);
    CHECK_FALSE(g_spoilt);
    g_captured = g_spoilt = false;
    end_captures(1);
  };
  survives([&] { return device->synchronize(); });
  survives([&] { return device->query(EventHandle{9}); });
  survives([&] { return device->register_host(nullptr, MiB(1)); });
  CHECK(captures_under_way == 0);
}

// As long as that, a call waits for the device; it was past the driver's look for captures long ago.
TEST_CASE("driver device: a capture does not wait for all that another thread waits for") {
  DriverTable driver = driver_of_stubs();
  driver.cuCtxSynchronize = [] {
    const auto start = std::chrono::steady_clock::now();
    capture_elsewhere();
    while (!g_captured && std::chrono::steady_clock::now() - start < std::chrono::seconds(60))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return CUDA_SUCCESS;
  };
  const auto made = DriverDevice::create(driver, 0);
  REQUIRE(made.ok());
  const std::unique_ptr<DriverDevice> device(*made);
  REQUIRE(device->synchronize().ok());
  CHECK(g_captured.exchange(false));
  g_capturer.join();
  CHECK(device->synchronize() == Status(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
  end_captures(1);
}

// Mooncake#2511: memory that adapters cannot register.
TEST_CASE("driver device: memory is open to network adapters where the device can have it so") {
  const DriverTable driver = driver_of_stubs();
  const auto asked_for = [&](int can, int refused) {
    g_rdma = can;
    g_refused_questions = refused;
    const auto device = DriverDevice::create(driver, 0);
    REQUIRE(device.ok());
    const std::unique_ptr<DriverDevice> owned(*device);
    REQUIRE(owned->create(MiB(2)).ok());
    return g_asked_for_rdma;
  };
  CHECK(asked_for(1, 0) == 1);
  CHECK(asked_for(0, 0) == 0);
  CHECK(asked_for(1, 1) == 1);
  CHECK(asked_for(1, 2) == 0);
}

}  // namespace tidepool::runtime
