#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "allocator/cuda/content_hasher.h"
#include "allocator/cuda/driver.h"
#include "allocator/device.h"

namespace tidepool::runtime {

/// Device over the CUDA driver API, in one of the device's contexts. Calls make that context current for
/// their duration where the calling thread has another one or none. Holds a reference to a primary context
/// for ever, so that releases by the program do not end it. A cudaDeviceReset does, whatever the count
/// (cuda.h, cuDevicePrimaryCtxReset), and cuCtxDestroy ends any other: then streams, events and memory are
/// gone, and so must be the use of this object.
///
/// While a stream is being captured, calls here do not disturb it (relaxed capture mode for their duration);
/// what would do so anyway, waiting for the whole device and recording or hashing in a stream that is
/// captured, is refused with CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED without asking the driver. A capture that
/// another thread is about to begin waits for calls that are under way (OwnCall).
class DriverDevice final : public Device {
 public:
  /// Errors are the driver's, as they are; kOutOfMemory if the host has no memory for the object;
  /// CUDA_ERROR_NOT_SUPPORTED if the granularity does not divide 2 MiB, as it does on all discrete GPUs so
  /// far.
  /// `context`: one that the program made on the device; null: the primary one.
  static DeviceResult<DriverDevice*> create(const DriverTable& driver, CUdevice ordinal,
                                            CUcontext context = nullptr) noexcept;

  [[nodiscard]] CUcontext context() const noexcept { return context_; }
  [[nodiscard]] CUdevice ordinal() const noexcept { return ordinal_; }

  /// From the next set_access() on these devices may reach what is mapped, besides this one; or no longer.
  /// Bits by ordinal.
  void let_in(std::uint64_t peers) noexcept { peers_.fetch_or(peers, std::memory_order_acq_rel); }
  void keep_out(std::uint64_t peers) noexcept { peers_.fetch_and(~peers, std::memory_order_acq_rel); }

  /// The context has ended, and its streams, events and registrations of host memory with it: calls about
  /// those do nothing from here on, and all work has passed. Addresses and physical memory belong to no
  /// context: calls about them go on.
  void context_has_ended() noexcept { has_ended_.store(true, std::memory_order_release); }

  [[nodiscard]] unsigned number() const noexcept override { return static_cast<unsigned>(ordinal_); }
  [[nodiscard]] Bytes total_memory() const noexcept override { return total_; }
  [[nodiscard]] Bytes granularity() const noexcept override { return granularity_; }
  DeviceResult<DevicePtr> reserve(Bytes size) noexcept override;
  Status release_addresses(DevicePtr base, Bytes size) noexcept override;
  DeviceResult<PhysicalHandle> create(Bytes size) noexcept override;
  Status destroy(PhysicalHandle handle) noexcept override;
  Status map(DevicePtr at, Bytes size, PhysicalHandle handle) noexcept override;
  Status unmap(DevicePtr at, Bytes size) noexcept override;
  Status set_access(DevicePtr at, Bytes size) noexcept override;
  DeviceResult<StreamHandle> create_stream() noexcept override;
  DeviceResult<EventHandle> create_event() noexcept override;
  Status destroy_event(EventHandle event) noexcept override;
  Status record(EventHandle event, StreamHandle stream) noexcept override;
  Status wait(StreamHandle stream, EventHandle event) noexcept override;
  Status query(EventHandle event) noexcept override;
  Status copy_to_host(void* host, DevicePtr device, Bytes size, StreamHandle stream) noexcept override;
  Status copy_to_device(DevicePtr device, const void* host, Bytes size,
                        StreamHandle stream) noexcept override;
  Status prepare_hash(DevicePtr memory) noexcept override;
  Status hash_to_host(void* host, DevicePtr device, Bytes size, std::uint64_t number,
                      StreamHandle stream) noexcept override;
  Status register_host(void* base, Bytes size) noexcept override;
  Status unregister_host(void* base) noexcept override;
  Status synchronize() noexcept override;

 private:
  class Current;  // makes context_ current for one call
  [[nodiscard]] bool has_ended() const noexcept { return has_ended_.load(std::memory_order_acquire); }
  DriverDevice(const DriverTable& driver, CUdevice ordinal, CUcontext context) noexcept
      : driver_(driver), ordinal_(ordinal), context_(context), hasher_(driver) {}
  Status read_facts() noexcept;
  [[nodiscard]] CUmemAllocationProp properties() const noexcept;

  const DriverTable& driver_;
  const CUdevice ordinal_;
  const CUcontext context_;
  std::atomic<bool> has_ended_{false};
  std::atomic<std::uint64_t> peers_{0};
  Bytes total_;
  Bytes granularity_;
  bool is_open_to_rdma_ =
      false;  ///< memory by handle can be reached by network adapters, if that is asked for
  ContentHasher hasher_;
};

}  // namespace tidepool::runtime
