#include "allocator/cuda/driver_device.h"

#include <catch2/catch.hpp>
#include <memory>

#include "allocator/streams.h"

/// What DriverDevice decides before it asks the driver. The rest is judged by tests/contract.
namespace tidepool::runtime {
namespace {

CUstreamCaptureStatus g_status = CU_STREAM_CAPTURE_STATUS_NONE;
int g_relaxed = 0;  ///< exchanges of the thread's capture mode
int g_records = 0;

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
  const auto hash = [&] { return device->hash_to_host(host, DevicePtr(4096), MiB(2), StreamHandle{8}); };
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

}  // namespace tidepool::runtime
