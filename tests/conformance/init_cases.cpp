// Starting up, devices, and what they say of themselves.

#include <array>
#include <cstring>
#include <thread>

#include "tests/conformance/device.h"

#define INIT "CUDA Driver API, Initialization: "
#define VERSION "CUDA Driver API, Version Management: "
#define DEVICE "CUDA Driver API, Device Management: "

namespace conformance {
namespace {

CUdevice first_device() {
  OK(CU(cuInit)(0));
  CUdevice device = -1;
  OK(CU(cuDeviceGet)(&device, 0));
  return device;
}

}  // namespace

CASE("init.calls_before_it_are_refused", INIT "cuInit") {
  int count = 0;
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  REFUSES(CU(cuDeviceGetCount)(&count), CUDA_ERROR_NOT_INITIALIZED);
  REFUSES(CU(cuDeviceGet)(&device, 0), CUDA_ERROR_NOT_INITIALIZED);
  REFUSES(CU(cuDevicePrimaryCtxRetain)(&context, 0), CUDA_ERROR_NOT_INITIALIZED);
  REFUSES(CU(cuMemAlloc)(&memory, 64), CUDA_ERROR_NOT_INITIALIZED);
}

CASE("init.flags_must_be_zero", INIT "cuInit") {
  REFUSES(CU(cuInit)(1), CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuInit)(0));
}

CASE("init.again_and_from_every_thread", INIT "cuInit") {
  std::array<std::thread, 4> threads;
  for (std::thread& thread : threads) {
    thread = std::thread([] {
      OK(CU(cuInit)(0));
      int count = 0;
      OK(CU(cuDeviceGetCount)(&count));
      EXPECT(count >= 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  OK(CU(cuInit)(0));
}

CASE("init.driver_version_needs_no_init", VERSION "cuDriverGetVersion") {
  int version = 0;
  OK(CU(cuDriverGetVersion)(&version));
  EXPECT(version >= 11000 && version % 10 == 0);
  REFUSES(CU(cuDriverGetVersion)(nullptr), CUDA_ERROR_INVALID_VALUE);
}

CASE("init.runtime_is_not_newer_than_the_driver",
     "CUDA Runtime API, Version Management: cudaRuntimeGetVersion") {
  int of_driver = 0;
  int of_runtime = 0;
  int latest = 0;
  OK(CU(cuDriverGetVersion)(&of_driver));
  OK(RT(cudaRuntimeGetVersion)(&of_runtime));
  OK(RT(cudaDriverGetVersion)(&latest));
  EXPECT_EQ(latest, of_driver);
  EXPECT(of_runtime / 1000 <= of_driver / 1000);
}

CASE("init.the_runtime_needs_no_call_to_start", "CUDA C++ Programming Guide, Initialization") {
  void* memory = nullptr;
  OK(RT(cudaMalloc)(&memory, 64));
  OK(RT(cudaMemset)(memory, 0, 64));
  OK(RT(cudaFree)(memory));
}

CASE("device.ordinals_count_from_zero", DEVICE "cuDeviceGet") {
  OK(CU(cuInit)(0));
  int count = 0;
  OK(CU(cuDeviceGetCount)(&count));
  CUdevice device = -1;
  for (int i = 0; i < count; ++i) OK(CU(cuDeviceGet)(&device, i));
  REFUSES(CU(cuDeviceGet)(&device, count), CUDA_ERROR_INVALID_DEVICE);
  REFUSES(CU(cuDeviceGet)(&device, -1), CUDA_ERROR_INVALID_DEVICE);
}

CASE("device.runtime_counts_the_same_devices", "CUDA Runtime API, Device Management: cudaGetDeviceCount") {
  OK(CU(cuInit)(0));
  int of_driver = 0;
  int of_runtime = 0;
  OK(CU(cuDeviceGetCount)(&of_driver));
  OK(RT(cudaGetDeviceCount)(&of_runtime));
  EXPECT_EQ(of_runtime, of_driver);
}

CASE("device.set_device_refuses_what_is_not_there", "CUDA Runtime API, Device Management: cudaSetDevice") {
  int count = 0;
  int current = -1;
  OK(RT(cudaGetDeviceCount)(&count));
  REFUSES(RT(cudaSetDevice)(count), cudaErrorInvalidDevice);
  REFUSES(RT(cudaSetDevice)(-1), cudaErrorInvalidDevice);
  OK(RT(cudaSetDevice)(count - 1));
  OK(RT(cudaGetDevice)(&current));
  EXPECT_EQ(current, count - 1);
}

CASE("device.current_device_is_zero_at_first_in_each_thread",
     "CUDA Runtime API, Device Management: cudaGetDevice") {
  int current = -1;
  OK(RT(cudaGetDevice)(&current));
  EXPECT_EQ(current, 0);
  std::thread([] {
    int mine = -1;
    OK(RT(cudaGetDevice)(&mine));
    EXPECT_EQ(mine, 0);
  }).join();
}

CASE("device.name_is_cut_to_the_buffer", DEVICE "cuDeviceGetName") {
  const CUdevice device = first_device();
  std::array<char, 256> whole{};
  std::array<char, 5> cut{'x', 'x', 'x', 'x', 'x'};
  OK(CU(cuDeviceGetName)(whole.data(), whole.size(), device));
  EXPECT(std::strlen(whole.data()) >= 4);
  OK(CU(cuDeviceGetName)(cut.data(), 4, device));
  EXPECT_EQ(std::strlen(cut.data()), 3u);
  EXPECT(std::strncmp(cut.data(), whole.data(), 3) == 0 && cut[4] == 'x');
}

CASE("device.uuid_stays_and_tells_devices_apart", DEVICE "cuDeviceGetUuid") {
  const CUdevice device = first_device();
  CUuuid one{};
  CUuuid again{};
  OK(CU(cuDeviceGetUuid)(&one, device));
  OK(CU(cuDeviceGetUuid)(&again, device));
  EXPECT(std::memcmp(&one, &again, sizeof one) == 0);
  int count = 0;
  OK(CU(cuDeviceGetCount)(&count));
  for (int i = 1; i < count; ++i) {
    CUuuid other{};
    OK(CU(cuDeviceGetUuid)(&other, i));
    EXPECT(std::memcmp(&one, &other, sizeof one) != 0);
  }
}

CASE("device.total_memory_is_what_the_context_sees", DEVICE "cuDeviceTotalMem") {
  use_device();
  std::size_t of_device = 0;
  std::size_t free = 0;
  std::size_t total = 0;
  OK(CU(cuDeviceTotalMem)(&of_device, 0));
  OK(CU(cuMemGetInfo)(&free, &total));
  EXPECT_EQ(total, of_device);
  EXPECT(free <= total && free > 0);
}

CASE("device.attributes_fit_together", DEVICE "cuDeviceGetAttribute") {
  first_device();
  const int threads = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  EXPECT(threads >= attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X));
  EXPECT(attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z) >= 1);
  EXPECT(attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE) == 32);
  EXPECT(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) >= 1);
  EXPECT(attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) >= threads);
  EXPECT(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) >=
         attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK));
  EXPECT(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) >=
         attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  EXPECT(attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) == 1);
}

CASE("device.unknown_attributes_are_refused", DEVICE "cuDeviceGetAttribute") {
  const CUdevice device = first_device();
  int value = 0;
  REFUSES(CU(cuDeviceGetAttribute)(&value, static_cast<CUdevice_attribute>(0), device),
          CUDA_ERROR_INVALID_VALUE);
  REFUSES(CU(cuDeviceGetAttribute)(&value, static_cast<CUdevice_attribute>(255), device),
          CUDA_ERROR_INVALID_VALUE);
  REFUSES(CU(cuDeviceGetAttribute)(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 1000), CUDA_ERROR_INVALID_DEVICE);
}

CASE("device.bus_id_leads_back_to_the_device", DEVICE "cuDeviceGetByPCIBusId") {
  OK(CU(cuInit)(0));
  int count = 0;
  OK(CU(cuDeviceGetCount)(&count));
  for (int i = 0; i < count; ++i) {
    std::array<char, 32> id{};
    CUdevice found = -1;
    OK(CU(cuDeviceGetPCIBusId)(id.data(), id.size(), i));
    OK(CU(cuDeviceGetByPCIBusId)(&found, id.data()));
    EXPECT_EQ(found, i);
  }
  CUdevice none = -1;
  FAILS(CU(cuDeviceGetByPCIBusId)(&none, "ffff:ff:1f.0"));
}

CASE("device.properties_are_the_attributes", "CUDA Runtime API, Device Management: cudaGetDeviceProperties") {
  first_device();
  cudaDeviceProp p{};
  OK(RT(cudaGetDeviceProperties)(&p, 0));
  std::size_t total = 0;
  OK(CU(cuDeviceTotalMem)(&total, 0));
  EXPECT_EQ(p.totalGlobalMem, total);
  EXPECT_EQ(p.major, attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  EXPECT_EQ(p.minor, attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  EXPECT_EQ(p.multiProcessorCount, attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  EXPECT_EQ(p.maxThreadsPerBlock, attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  EXPECT_EQ(p.warpSize, 32);
  std::array<char, 256> name{};
  OK(CU(cuDeviceGetName)(name.data(), name.size(), 0));
  EXPECT_EQ(std::string(p.name), std::string(name.data()));
  FAILS(RT(cudaGetDeviceProperties)(&p, 1000));
}

CASE("device.runtime_attributes_are_the_drivers",
     "CUDA Runtime API, Device Management: cudaDeviceGetAttribute") {
  first_device();
  for (const int which : {1, 2, 5, 8, 10, 16, 39, 75, 76}) {
    int of_driver = -1;
    int of_runtime = -2;
    OK(CU(cuDeviceGetAttribute)(&of_driver, static_cast<CUdevice_attribute>(which), 0));
    OK(RT(cudaDeviceGetAttribute)(&of_runtime, static_cast<cudaDeviceAttr>(which), 0));
    EXPECT_EQ(of_runtime, of_driver);
  }
}

CASE("device.pools_are_told_by_the_attribute", DEVICE "cuDeviceGetDefaultMemPool") {
  use_device();
  CUmemoryPool pool = nullptr;
  const bool said = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) != 0;
  const CUresult result = CU(cuDeviceGetDefaultMemPool)(&pool, 0);
  EXPECT(said == (result == CUDA_SUCCESS));
}

}  // namespace conformance
