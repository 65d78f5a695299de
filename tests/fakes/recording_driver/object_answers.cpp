// Memory, contexts and the device, as far as programs cannot go on without an answer; the rest is the null
// driver's.

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/fakes/recording_driver/answers.h"
#include "tests/fakes/recording_driver/faults.h"

extern "C" CUresult NULL_SYMBOL(cuMemAlloc_v2)(CUdeviceptr* out, std::size_t size);
extern "C" CUresult NULL_SYMBOL(cuCtxGetCurrent)(CUcontext* out);
extern "C" CUresult NULL_SYMBOL(cuStreamCreate)(CUstream* out, unsigned flags);

namespace tidepool::fakes {
namespace {

CUresult allocate(CUdeviceptr* out, std::size_t size) {
  return NULL_SYMBOL(cuMemAlloc_v2)(out, size);
}
CUresult allocate_pitch(CUdeviceptr* out, std::size_t* pitch, std::size_t width, std::size_t height) {
  *pitch = (width + 511) / 512 * 512;
  return allocate(out, *pitch * height);
}
CUresult allocate_host(void** out, std::size_t size) {
  *out = std::malloc(size);
  return *out != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult free_host(void* at) {
  std::free(at);
  return CUDA_SUCCESS;
}
// Handles that are told apart; as many as programs of tests make.
CUresult make_array(void** out) {
  static std::atomic<std::uintptr_t> last{0x7000'0000'0000};
  *out = reinterpret_cast<void*>(last += 64);
  return CUDA_SUCCESS;
}
CUresult give_context(CUcontext* out) {
  return NULL_SYMBOL(cuCtxGetCurrent)(out);
}
CUresult give_stream(CUstream* out) {
  return NULL_SYMBOL(cuStreamCreate)(out, 0);
}
CUresult device_get_attribute(int* value, CUdevice_attribute attribute, CUdevice) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_MPS_ENABLED ? static_cast<int>(faults().mps) : 1;
  return CUDA_SUCCESS;
}
CUresult device_get_name(char* out, int size) {
  std::snprintf(out, static_cast<std::size_t>(size), "recording driver");
  return CUDA_SUCCESS;
}

template <class Function>
NullEntry entry(const char* name, Function* function) {
  return {name, reinterpret_cast<void*>(function)};
}

}  // namespace

std::span<const NullEntry> object_answers() {
  static const NullEntry answers[] = {
      entry("cuDeviceGetAttribute", &device_get_attribute),
      entry("cuMemAllocAsync", &allocate),
      entry("cuMemAllocAsync_ptsz", &allocate),
      entry("cuMemAllocFromPoolAsync", &allocate),
      entry("cuMemAllocFromPoolAsync_ptsz", &allocate),
      entry("cuMemAllocManaged", &allocate),
      entry("cuMemAllocPitch_v2", &allocate_pitch),
      entry("cuMemAllocHost_v2", &allocate_host),
      entry("cuMemHostAlloc", &allocate_host),
      entry("cuMemFreeHost", &free_host),
      entry("cuArrayCreate_v2", &make_array),
      entry("cuArray3DCreate_v2", &make_array),
      entry("cuMipmappedArrayCreate", &make_array),
      entry("cuCtxCreate_v2", &give_context),
      entry("cuCtxCreate_v3", &give_context),
      entry("cuCtxCreate_v4", &give_context),
      entry("cuStreamCreateWithPriority", &give_stream),
      entry("cuDeviceGetName", &device_get_name),
  };
  return answers;
}

}  // namespace tidepool::fakes
