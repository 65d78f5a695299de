#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tools/probe/gpu.h"

/// Owners of what the driver hands out. Constructors and methods throw DriverError; destructors give back
/// what is still held and ignore errors, because a section that failed must still end.
namespace tidepool::probe {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
/// What every device so far maps in: sizes are multiples of it.
inline constexpr std::uint64_t kGranule = 2 * kMiB;

/// A physical allocation.
class Handle {
 public:
  Handle() = default;
  Handle(const Gpu& gpu, std::uint64_t bytes) { create(gpu, bytes); }
  explicit Handle(CUmemGenericAllocationHandle adopted) : id_(adopted), held_(true) {}
  ~Handle();
  Handle(Handle&& other) noexcept;
  Handle& operator=(Handle&& other) noexcept;

  void create(const Gpu& gpu, std::uint64_t bytes);
  void release();
  [[nodiscard]] CUmemGenericAllocationHandle id() const noexcept { return id_; }

 private:
  CUmemGenericAllocationHandle id_ = 0;
  bool held_ = false;
};

/// Reserved addresses, divided into units of equal size that handles of that size are mapped to.
class Window {
 public:
  Window(const Gpu& gpu, std::size_t units, std::uint64_t unit_bytes);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  [[nodiscard]] CUdeviceptr at(std::size_t unit) const noexcept { return base_ + unit * unit_bytes_; }
  template <class T>
  [[nodiscard]] T* pointer(std::size_t unit = 0) const noexcept {
    return reinterpret_cast<T*>(at(unit));
  }
  [[nodiscard]] std::uint64_t unit_bytes() const noexcept { return unit_bytes_; }

  void map(std::size_t unit, const Handle& handle);
  void set_access(std::size_t first, std::size_t count = 1) const;
  /// One cuMemUnmap over `count` units.
  void unmap(std::size_t first, std::size_t count = 1);

 private:
  CUdevice device_;
  CUdeviceptr base_ = 0;
  std::uint64_t unit_bytes_;
  std::vector<bool> mapped_;
};

/// Plain device memory, cleared.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::uint64_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  [[nodiscard]] CUdeviceptr at() const noexcept { return base_; }
  template <class T>
  [[nodiscard]] T* pointer() const noexcept {
    return reinterpret_cast<T*>(base_);
  }

 private:
  CUdeviceptr base_ = 0;
};

/// Anonymous host memory that the driver has registered, as the pinned arena has it.
class PinnedBuffer {
 public:
  explicit PinnedBuffer(std::uint64_t bytes);
  ~PinnedBuffer();
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  template <class T = void>
  [[nodiscard]] T* pointer() const noexcept {
    return static_cast<T*>(base_);
  }

 private:
  void* base_ = nullptr;
  std::uint64_t bytes_;
};

/// Anonymous memory that no child inherits; null if there is none.
void* map_host(std::uint64_t bytes, bool huge_pages = false);
void unmap_host(void* base, std::uint64_t bytes);

/// A non-blocking stream.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  [[nodiscard]] CUstream get() const noexcept { return stream_; }
  void synchronize() const;

 private:
  CUstream stream_ = nullptr;
};

class Event {
 public:
  explicit Event(unsigned flags = CU_EVENT_DEFAULT);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  [[nodiscard]] CUevent get() const noexcept { return event_; }
  void record(const Stream& stream) const;
  /// Makes what is queued on the stream from now on wait for the last record.
  void hold(const Stream& stream) const;
  /// Nanoseconds of device time from `from` to this; both must have completed.
  [[nodiscard]] double ns_since(const Event& from) const;

 private:
  CUevent event_ = nullptr;
};

}  // namespace tidepool::probe
