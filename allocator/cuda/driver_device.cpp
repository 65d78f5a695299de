#include "allocator/cuda/driver_device.h"

#include <array>
#include <new>

#include "allocator/captures.h"
#include "allocator/streams.h"

namespace tidepool::runtime {
namespace {

Status status_of(CUresult result) noexcept {
  return Status(static_cast<int>(result));
}
CUdeviceptr raw(DevicePtr ptr) noexcept {
  return static_cast<CUdeviceptr>(ptr.address());
}
CUstream raw(StreamHandle stream) noexcept {
  return reinterpret_cast<CUstream>(static_cast<std::uintptr_t>(stream));
}
CUevent raw(EventHandle event) noexcept {
  return reinterpret_cast<CUevent>(static_cast<std::uintptr_t>(event));
}

}  // namespace

class DriverDevice::Current {
 public:
  explicit Current(const DriverDevice& device) noexcept : driver_(device.driver_) {
    if (own_.beside_capture()) [[unlikely]]
      relaxed_ = driver_.cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS;
    if (device.has_ended()) [[unlikely]]
      return;
    status_ = status_of(driver_.cuCtxGetCurrent(&before_));
    if (!status_.ok() || before_ == device.context_) return;
    status_ = status_of(driver_.cuCtxSetCurrent(device.context_));
    changed_ = status_.ok();
  }
  // Setting back also works where the context is broken by now, which a pop would report instead.
  ~Current() {
    if (changed_) (void)driver_.cuCtxSetCurrent(before_);
    if (relaxed_) (void)driver_.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

  [[nodiscard]] bool beside_capture() const noexcept { return own_.beside_capture(); }
  /// For a call that puts something into the stream: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED if it is captured.
  CUresult refuse_captured(CUstream stream) const noexcept {
    if (!beside_capture()) [[likely]]
      return CUDA_SUCCESS;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult asked = driver_.cuStreamIsCapturing(stream, &status);
    if (asked != CUDA_SUCCESS) return asked;
    return status == CU_STREAM_CAPTURE_STATUS_NONE ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  /// The error that kept the context from being made current, or the call's own answer.
  template <class Call>
  Status operator()(Call&& call) noexcept {
    const Status status = status_.ok() ? status_of(call()) : status_;
    if (!status.ok()) [[unlikely]]
      note_failure(status);
    return status;
  }

 private:
  const OwnCall own_;
  const DriverTable& driver_;
  CUcontext before_ = nullptr;
  Status status_ = kOk;
  bool changed_ = false;
  bool relaxed_ = false;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;  // while relaxed_: the thread's own
};

DeviceResult<DriverDevice*> DriverDevice::create(const DriverTable& driver, CUdevice ordinal,
                                                 CUcontext context) noexcept {
  const bool is_primary = context == nullptr;
  if (is_primary) {
    const CUresult result = driver.cuDevicePrimaryCtxRetain(&context, ordinal);
    if (result != CUDA_SUCCESS) return Err{status_of(result)};
  }
  auto* device = new (std::nothrow) DriverDevice(driver, ordinal, context);
  const Status status = device != nullptr ? device->read_facts() : kOutOfMemory;
  if (!status.ok()) {
    delete device;
    if (is_primary) (void)driver.cuDevicePrimaryCtxRelease_v2(ordinal);
    return Err{status};
  }
  return device;
}

Status DriverDevice::read_facts() noexcept {
  std::size_t total = 0;
  std::size_t granularity = 0;
  const CUmemAllocationProp wanted = properties();
  Status status = status_of(driver_.cuDeviceTotalMem_v2(&total, ordinal_));
  if (status.ok()) {
    status = status_of(
        driver_.cuMemGetAllocationGranularity(&granularity, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  }
  if (!status.ok()) return status;
  if (granularity == 0 || MiB(2).count() % granularity != 0) return Status(CUDA_ERROR_NOT_SUPPORTED);
  total_ = Bytes(total);
  granularity_ = Bytes(granularity);
  int can = 0;
  const auto ask = [&] {
    return driver_.cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
                                        ordinal_);
  };
  // A driver that does not know the question has no such memory; an answer that fails once is asked for
  // again.
  is_open_to_rdma_ = (ask() == CUDA_SUCCESS || ask() == CUDA_SUCCESS) && can != 0;
  return kOk;
}

// Exportable from the start: memory that one process lends to another is handed over as a file descriptor,
// and a handle cannot become exportable later. Nor open to network adapters, as memory of cuMemAlloc is.
CUmemAllocationProp DriverDevice::properties() const noexcept {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, ordinal_};
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.allocFlags.gpuDirectRDMACapable = is_open_to_rdma_ ? 1 : 0;
  return properties;
}

DeviceResult<DevicePtr> DriverDevice::reserve(Bytes size) noexcept {
  CUdeviceptr at = 0;
  const Status status =
      Current(*this)([&] { return driver_.cuMemAddressReserve(&at, size.count(), 0, 0, 0); });
  if (!status.ok()) return Err{status};
  return DevicePtr(at);
}

Status DriverDevice::release_addresses(DevicePtr base, Bytes size) noexcept {
  return Current(*this)([&] { return driver_.cuMemAddressFree(raw(base), size.count()); });
}

DeviceResult<PhysicalHandle> DriverDevice::create(Bytes size) noexcept {
  const CUmemAllocationProp wanted = properties();
  CUmemGenericAllocationHandle handle = 0;
  const Status status =
      Current(*this)([&] { return driver_.cuMemCreate(&handle, size.count(), &wanted, 0); });
  if (!status.ok()) return Err{status};
  return PhysicalHandle{handle};
}

Status DriverDevice::destroy(PhysicalHandle handle) noexcept {
  return Current(*this)(
      [&] { return driver_.cuMemRelease(static_cast<CUmemGenericAllocationHandle>(handle)); });
}

Status DriverDevice::map(DevicePtr at, Bytes size, PhysicalHandle handle) noexcept {
  return Current(*this)([&] {
    return driver_.cuMemMap(raw(at), size.count(), 0, static_cast<CUmemGenericAllocationHandle>(handle), 0);
  });
}

Status DriverDevice::unmap(DevicePtr at, Bytes size) noexcept {
  return Current(*this)([&] { return driver_.cuMemUnmap(raw(at), size.count()); });
}

Status DriverDevice::set_access(DevicePtr at, Bytes size) noexcept {
  std::array<CUmemAccessDesc, 1 + kMostDevices> access;
  std::size_t count = 0;
  const auto give = [&](CUdevice ordinal) {
    access[count++] = {{CU_MEM_LOCATION_TYPE_DEVICE, ordinal}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  };
  give(ordinal_);
  const std::uint64_t peers = peers_.load(std::memory_order_acquire);
  for (int ordinal = 0; ordinal < 64 && peers >> ordinal != 0; ++ordinal) {
    if ((peers >> ordinal & 1) != 0) give(ordinal);
  }
  return Current(*this)([&] { return driver_.cuMemSetAccess(raw(at), size.count(), access.data(), count); });
}

DeviceResult<StreamHandle> DriverDevice::create_stream() noexcept {
  CUstream stream = nullptr;
  const Status status =
      Current(*this)([&] { return driver_.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING); });
  if (!status.ok()) return Err{status};
  return StreamHandle{reinterpret_cast<std::uintptr_t>(stream)};
}

DeviceResult<EventHandle> DriverDevice::create_event() noexcept {
  CUevent event = nullptr;
  const Status status =
      Current(*this)([&] { return driver_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING); });
  if (!status.ok()) return Err{status};
  return EventHandle{reinterpret_cast<std::uintptr_t>(event)};
}

Status DriverDevice::destroy_event(EventHandle event) noexcept {
  if (has_ended()) return kOk;
  return Current(*this)([&] { return driver_.cuEventDestroy_v2(raw(event)); });
}

Status DriverDevice::record(EventHandle event, StreamHandle stream) noexcept {
  if (has_ended()) return kOk;
  Current current(*this);
  return current([&] {
    const CUresult refused = current.refuse_captured(raw(stream));
    return refused != CUDA_SUCCESS ? refused : driver_.cuEventRecord(raw(event), raw(stream));
  });
}

Status DriverDevice::wait(StreamHandle stream, EventHandle event) noexcept {
  if (has_ended()) return kOk;
  return Current(*this)([&] { return driver_.cuStreamWaitEvent(raw(stream), raw(event), 0); });
}

Status DriverDevice::query(EventHandle event) noexcept {
  if (has_ended()) return kOk;
  return Current(*this)([&] { return driver_.cuEventQuery(raw(event)); });
}

Status DriverDevice::copy_to_host(void* host, DevicePtr device, Bytes size, StreamHandle stream) noexcept {
  if (has_ended()) return status_of(CUDA_ERROR_CONTEXT_IS_DESTROYED);
  return Current(*this)(
      [&] { return driver_.cuMemcpyDtoHAsync_v2(host, raw(device), size.count(), raw(stream)); });
}

Status DriverDevice::copy_to_device(DevicePtr device, const void* host, Bytes size,
                                    StreamHandle stream) noexcept {
  if (has_ended()) return status_of(CUDA_ERROR_CONTEXT_IS_DESTROYED);
  return Current(*this)(
      [&] { return driver_.cuMemcpyHtoDAsync_v2(raw(device), host, size.count(), raw(stream)); });
}

Status DriverDevice::prepare_hash(DevicePtr memory) noexcept {
  return Current(*this)([&] { return static_cast<CUresult>(hasher_.load(ordinal_, raw(memory)).code()); });
}

Status DriverDevice::hash_to_host(void* host, DevicePtr device, Bytes size, std::uint64_t number,
                                  StreamHandle stream) noexcept {
  if (size.count() == 0) return kInvalidValue;
  Current current(*this);
  return current([&] {
    const CUresult refused = current.refuse_captured(raw(stream));
    if (refused != CUDA_SUCCESS) return refused;
    return static_cast<CUresult>(hasher_.hash(host, raw(device), size.count(), number, raw(stream)).code());
  });
}

Status DriverDevice::register_host(void* base, Bytes size) noexcept {
  return Current(*this)(
      [&] { return driver_.cuMemHostRegister_v2(base, size.count(), CU_MEMHOSTREGISTER_PORTABLE); });
}

Status DriverDevice::unregister_host(void* base) noexcept {
  if (has_ended()) return kOk;
  return Current(*this)([&] { return driver_.cuMemHostUnregister(base); });
}

Status DriverDevice::synchronize() noexcept {
  if (has_ended()) return kOk;
  Current current(*this);
  if (current.beside_capture()) return status_of(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  return current([&] { return driver_.cuCtxSynchronize(); });
}

}  // namespace tidepool::runtime
