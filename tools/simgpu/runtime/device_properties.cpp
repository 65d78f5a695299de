#include "tools/simgpu/runtime/device_properties.h"

#include <cstring>
#include <type_traits>

namespace simgpu::runtime {

CUresult fill_properties(const DriverTable& d, cudaDeviceProp* p, int device) {
  cudaDeviceProp filled{};
  CUuuid uuid{};
  CUresult result = d.cuDeviceGetName(filled.name, sizeof filled.name, device);
  if (result == CUDA_SUCCESS) result = d.cuDeviceGetUuid(&uuid, device);
  if (result == CUDA_SUCCESS) result = d.cuDeviceTotalMem(&filled.totalGlobalMem, device);
  if (result != CUDA_SUCCESS) return result;
  std::memcpy(&filled.uuid, &uuid, sizeof uuid);
  const auto set = [&](auto& field, CUdevice_attribute which) {
    int value = 0;
    if (d.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS)
      field = static_cast<std::remove_reference_t<decltype(field)>>(value);
  };
#define SIMGPU_PROPERTY(field, attribute) set(filled.field, CU_DEVICE_ATTRIBUTE_##attribute);
#include "tools/simgpu/runtime/properties.def"
#undef SIMGPU_PROPERTY
  *p = filled;
  return CUDA_SUCCESS;
}

}  // namespace simgpu::runtime
