#pragma once

#include <atomic>
#include <compare>
#include <cstdint>

#include "allocator/support/result.h"
#include "allocator/support/units.h"

namespace tidepool::runtime {

/// What a driver call answered: zero is success, anything else is the CUresult as the driver gave it, so that
/// it can be handed to the program unchanged.
class [[nodiscard]] Status {
 public:
  constexpr Status() = default;
  constexpr explicit Status(int code) : code_(code) {}
  [[nodiscard]] constexpr bool ok() const noexcept { return code_ == 0; }
  [[nodiscard]] constexpr int code() const noexcept { return code_; }
  constexpr bool operator==(const Status&) const = default;

 private:
  int code_ = 0;
};

/// The CUresult values that the runtime itself makes or tells apart (cuda.h, enum cudaError_enum).
inline constexpr Status kOk{0};
inline constexpr Status kInvalidValue{1};
inline constexpr Status kOutOfMemory{2};
inline constexpr Status kNotReady{600};
inline constexpr Status kNotSupported{801};
inline constexpr Status kUnknownError{999};

/// Is it one of the answers to a wait that is not allowed while a stream captures a graph
/// (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED and the codes behind it)?
constexpr bool is_capture_error(Status status) noexcept {
  return status.code() >= 900 && status.code() <= 908;
}

template <class T>
using DeviceResult = Result<T, Status>;

/// An address in device memory. Zero is no address.
class DevicePtr {
 public:
  constexpr DevicePtr() = default;
  constexpr explicit DevicePtr(std::uint64_t address) : address_(address) {}
  [[nodiscard]] constexpr std::uint64_t address() const noexcept { return address_; }
  constexpr auto operator<=>(const DevicePtr&) const = default;
  constexpr DevicePtr operator+(Bytes n) const noexcept { return DevicePtr(address_ + n.count()); }

 private:
  std::uint64_t address_ = 0;
};

/// A piece of physical device memory (CUmemGenericAllocationHandle).
enum class PhysicalHandle : std::uint64_t {};
/// A stream as the program or the driver names it (CUstream), including the special values 0, 1 and 2.
enum class StreamHandle : std::uint64_t {};
/// An event (CUevent).
enum class EventHandle : std::uint64_t {};

/// True for the errors after which a device is lost to the process (cuda.h: "the process must be terminated
/// and relaunched"): the next calls answer the same.
constexpr bool loses_device(Status status) noexcept {
  const int code = status.code();
  return code == 700 || code == 702 || code == 710 || (code >= 714 && code <= 719) || code == 721;
}

/// True once the driver has answered any call of the process in such a way; it never falls. Whoever passes
/// an answer on sees to it (note_failure).
inline constinit std::atomic<bool> loss_was_told{false};

/// A call has failed. Hook-safe and thread-safe.
[[gnu::cold]] inline void note_failure(Status status) noexcept {
  if (loses_device(status)) loss_was_told.store(true, std::memory_order_relaxed);
}

/// The device as the runtime sees it: everything that residency needs and nothing else. Implemented over the
/// CUDA driver (allocator/cuda) and in memory for tests (tests/fakes); one contract suite judges both.
///
/// Rules are those of the driver API's virtual memory management: a mapping covers a whole handle (offset 0)
/// and goes into a reservation, an unmap covers whole mappings, a new mapping has no access until set_access,
/// and nothing here waits for device work unless it says so (unmap does not). Drivers do not refuse
/// everything that breaks these rules, so nobody may count on a refusal: a mapping past the end of its
/// reservation, access for a range with a gap, an unmap where nothing is mapped and a mapping of a handle
/// that is destroyed but still mapped were all seen to succeed (docs/reference/hardware).
///
/// After an error of device work (an illegal address, say) the device is lost to the whole process, whichever
/// context the work was in: nothing here works again.
///
/// Thread-safe; every call may fail; no call throws. Callers hold no spinlock across a call.
class Device {
 public:
  virtual ~Device() = default;

  // Facts; constant for the life of the object.
  /// Which device, as the program counts them.
  [[nodiscard]] virtual unsigned number() const noexcept = 0;
  [[nodiscard]] virtual Bytes total_memory() const noexcept = 0;
  /// Smallest unit of create, map and reserve; a power of two.
  [[nodiscard]] virtual Bytes granularity() const noexcept = 0;

  // Address space. cuMemAddressReserve, cuMemAddressFree.
  virtual DeviceResult<DevicePtr> reserve(Bytes size) noexcept = 0;
  virtual Status release_addresses(DevicePtr base, Bytes size) noexcept = 0;

  // Physical memory. cuMemCreate (exportable as POSIX FD), cuMemRelease.
  virtual DeviceResult<PhysicalHandle> create(Bytes size) noexcept = 0;
  virtual Status destroy(PhysicalHandle handle) noexcept = 0;

  // Mappings. cuMemMap, cuMemUnmap, cuMemSetAccess (read and write, for this device and for those that may
  // reach its memory).
  virtual Status map(DevicePtr at, Bytes size, PhysicalHandle handle) noexcept = 0;
  /// Does not wait for work that may still touch the range: the caller has ordered that before.
  virtual Status unmap(DevicePtr at, Bytes size) noexcept = 0;
  virtual Status set_access(DevicePtr at, Bytes size) noexcept = 0;

  // Streams of our own (non-blocking), and events (no timing).
  virtual DeviceResult<StreamHandle> create_stream() noexcept = 0;
  virtual DeviceResult<EventHandle> create_event() noexcept = 0;
  virtual Status destroy_event(EventHandle event) noexcept = 0;
  virtual Status record(EventHandle event, StreamHandle stream) noexcept = 0;
  /// Later work of `stream` waits on the device for what `event` has recorded so far.
  virtual Status wait(StreamHandle stream, EventHandle event) noexcept = 0;
  /// kOk: completed. kNotReady: not yet. Anything else: an error of the device.
  virtual Status query(EventHandle event) noexcept = 0;

  // Copies between device memory and registered host memory; ordered in `stream`, never waited for.
  virtual Status copy_to_host(void* host, DevicePtr device, Bytes size, StreamHandle stream) noexcept = 0;
  virtual Status copy_to_device(DevicePtr device, const void* host, Bytes size,
                                StreamHandle stream) noexcept = 0;

  // Content hashes (allocator/support/content_hash.h), to see whether bytes are what they were.

  static constexpr Bytes kHashMemory = KiB(4);
  /// Loads what hash_to_host() needs. May wait for work of the device, while the driver loads: to be called
  /// where that is no harm. Cheap once it has succeeded or failed. `memory`: kHashMemory bytes of the device,
  /// at a multiple of 512, zero when the first hash gets there, for nothing else as long as hashes are made
  /// but HashControl at its start (content_hash_kernel.h); that of the first success counts. kOk: hashes can
  /// be had. kOutOfMemory, kNotReady (another thread is at it): ask again later. Anything else: never on this
  /// device.
  virtual Status prepare_hash(DevicePtr memory) noexcept = 0;
  /// The content hash of [device, device + size), as the bytes are when the stream gets there, is written to
  /// sizeof(ContentHash) bytes of registered host memory at `host`; ordered in `stream`, never waited for.
  /// Any address and size but zero. kNotSupported until prepare_hash() has succeeded. Without kOk no hash can
  /// be relied on, and the bytes at `host` may change until the stream has passed. `number`, not zero: that
  /// HashControl gives it up by.
  virtual Status hash_to_host(void* host, DevicePtr device, Bytes size, std::uint64_t number,
                              StreamHandle stream) noexcept = 0;

  // Host memory that the copy engines reach directly. cuMemHostRegister.
  virtual Status register_host(void* base, Bytes size) noexcept = 0;
  virtual Status unregister_host(void* base) noexcept = 0;

  /// Waits until all work submitted to the device so far, on every stream, is done. cuCtxSynchronize.
  virtual Status synchronize() noexcept = 0;
};

}  // namespace tidepool::runtime
