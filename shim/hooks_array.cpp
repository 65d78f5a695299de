// Arrays: device memory of the driver's that has no address. It is counted by what was asked for; the driver
// rounds that up by an amount that it tells nobody.

#include <algorithm>
#include <cstdint>

#include "shim/entry.h"
#include "shim/make_way.h"
#include "shim/ownership.h"

namespace tidepool::shim {
namespace {

/// Bytes of one element in one channel. Of formats that pack several elements or channels, about as many.
std::uint64_t element_size(CUarray_format format) noexcept {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    default:
      return 1;
  }
}

/// What one level of an array takes; cuda.h: a height or depth of zero means that it has no such dimension,
/// and what may be more than memory can hold is the driver's to refuse.
Bytes size_of(std::uint64_t width, std::uint64_t height, std::uint64_t depth, CUarray_format format,
              unsigned channels) noexcept {
  std::uint64_t size = width;
  for (const std::uint64_t factor : {std::max<std::uint64_t>(height, 1), std::max<std::uint64_t>(depth, 1),
                                     std::uint64_t{channels}, element_size(format)}) {
    if (__builtin_mul_overflow(size, factor, &size)) return Bytes(~std::uint64_t{0});
  }
  return Bytes(size);
}

Bytes size_of(const CUDA_ARRAY_DESCRIPTOR& array) noexcept {
  return size_of(array.Width, array.Height, 1, array.Format, array.NumChannels);
}

// Where memory is mapped later it is the program's own (cuMemMapArrayAsync), and counted as such.
bool has_no_memory(const CUDA_ARRAY3D_DESCRIPTOR& array) noexcept {
  return (array.Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0;
}

Bytes size_of(const CUDA_ARRAY3D_DESCRIPTOR& array, unsigned levels = 1) noexcept {
  if (has_no_memory(array)) return {};
  const bool has_layers = (array.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
  Bytes all;
  for (unsigned level = 0; level < std::min(levels, 64U); ++level) {
    const auto smaller = [level](std::uint64_t extent) {
      return extent == 0 ? extent : std::max<std::uint64_t>(extent >> level, 1);
    };
    all += size_of(smaller(array.Width), smaller(array.Height),
                   has_layers ? array.Depth : smaller(array.Depth), array.Format, array.NumChannels);
  }
  return all;
}

/// Has the driver make an array of about that size by `make()`.
template <class Handle, class Make>
CUresult make_array(const void* caller, const Handle* out, Bytes size, Make&& make) noexcept {
  const CUdevice device = current_device();
  const Room room(device, size);
  const CUresult result = with_room(make, size);
  if (result != CUDA_SUCCESS || size == Bytes()) return result;
  OutsideMemory memory{reinterpret_cast<CUdeviceptr>(*out), size, device, nullptr, ""};
  if (active_driver().runtime.cuCtxGetCurrent(&memory.context) != CUDA_SUCCESS) memory.context = nullptr;
  if (const Module asks = who_asks(caller); asks.owner == Owner::kLibrary) memory.library = asks.name;
  add_outside(memory);
  return result;
}

constexpr auto kCreate = [](const auto& call, CUarray* out, const auto* wanted) noexcept {
  const auto make = [&] { return call(out, wanted); };
  return make_array(call.caller, out, wanted != nullptr ? size_of(*wanted) : Bytes(), make);
};

constexpr auto kCreateLevels = [](const auto& call, CUmipmappedArray* out,
                                  const CUDA_ARRAY3D_DESCRIPTOR* wanted, unsigned levels) noexcept {
  const auto make = [&] { return call(out, wanted, levels); };
  return make_array(call.caller, out, wanted != nullptr ? size_of(*wanted, levels) : Bytes(), make);
};

constexpr auto kDestroy = [](const auto& call, auto array) noexcept {
  const LeavingRoom leaving(reinterpret_cast<CUdeviceptr>(array));
  const CUresult result = call(array);
  if (result != CUDA_SUCCESS) leaving.stays();
  return result;
};

}  // namespace

TP_HANDLE(cuArrayCreate_v2, kCreate)
TP_HANDLE(cuArray3DCreate_v2, kCreate)
TP_HANDLE(cuMipmappedArrayCreate, kCreateLevels)
TP_HANDLE(cuArrayDestroy, kDestroy)
TP_HANDLE(cuMipmappedArrayDestroy, kDestroy)

}  // namespace tidepool::shim
