#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "allocator/device.h"
#include "allocator/support/fault_plan.h"
#include "tests/fakes/fake_memory.h"
#include "tests/fakes/fake_queue.h"

namespace tidepool::fakes {

/// A Device in memory: the rules of the real one, strict and deterministic.
///
/// - Bytes are stored; new memory holds a pattern that nobody wrote.
/// - Work of streams runs late: only in run_some(), run_all(), synchronize(), and a little in query(), so
/// that
///   loops that poll come to an end. Which ready work runs next is drawn from the seed.
/// - Work that meets memory without a mapping or access ends the device: every later call returns
///   kIllegalAddress, as on hardware, and errors() says what happened.
/// - faults() makes calls fail; its functions are the method names of Device. A call that fails does nothing.
///
/// Thread-safe. Work given to submit() runs with the device locked: it may use only its Access.
class FakeDevice final : public runtime::Device {
 public:
  static constexpr runtime::Status kIllegalAddress{700};

  struct Config {
    Bytes total = MiB(256);
    Bytes granularity = MiB(2);
    std::uint64_t seed = 1;
  };

  /// Device memory as work of a stream sees it.
  class Access {
   public:
    /// Copy now. Where memory is not accessible the device ends with kIllegalAddress and nothing is copied.
    void read(runtime::DevicePtr at, void* out, Bytes size);
    void write(runtime::DevicePtr at, const void* in, Bytes size);

   private:
    friend class FakeDevice;
    Access(FakeDevice& device, std::string what) : device_(device), what_(std::move(what)) {}
    FakeDevice& device_;
    std::string what_;
  };

  explicit FakeDevice(const Config& config)
      : memory_(config.total, config.granularity), queue_(config.seed) {}
  FakeDevice() : FakeDevice(Config{}) {}

  // What a program does besides.

  /// A stream of the program, ordered with the legacy stream unless `blocking` is false.
  [[nodiscard]] runtime::StreamHandle create_program_stream(bool blocking = true);
  /// A launch: `work` runs when its turn comes; `name` is used in errors.
  [[nodiscard]] runtime::Status submit(runtime::StreamHandle stream, std::string name,
                                       std::function<void(Access&)> work);
  /// The same for a copy of the program, which needs no multiprocessor.
  [[nodiscard]] runtime::Status submit_copy(runtime::StreamHandle stream, std::string name,
                                            std::function<void(Access&)> work);
  /// A launch that fills a range with one byte.
  [[nodiscard]] runtime::Status submit_fill(runtime::StreamHandle stream, runtime::DevicePtr at, Bytes size,
                                            std::uint8_t value);

  /// A kernel that runs until end_hold().
  void hold(runtime::StreamHandle stream);
  void end_hold(runtime::StreamHandle stream);

  /// A kernel that holds all multiprocessors until end_full(): what needs one, launches and hashes, does not
  /// begin; copies and events go on.
  void begin_full();
  void end_full();

  // What a test sees and steers.

  /// Runs at most `count` pieces of ready work; returns how many ran.
  std::size_t run_some(std::size_t count);
  void run_all();
  [[nodiscard]] std::size_t pending() const;
  /// Bytes as they are now, past all streams. False where not all of it is accessible.
  [[nodiscard]] bool peek(runtime::DevicePtr at, void* out, Bytes size) const;
  /// From now on all hashes are the same, whatever the bytes are.
  void lie_about_hashes();
  [[nodiscard]] FaultPlan& faults() noexcept { return faults_; }
  /// Calls of a method of Device so far, also those that failed.
  [[nodiscard]] std::uint64_t calls(std::string_view function) const;
  /// What the caller did wrong, in words; empty after a correct run.
  [[nodiscard]] std::vector<std::string> errors() const;
  /// Physical memory: created and not yet given back by destroy and unmap.
  [[nodiscard]] Bytes in_use() const;
  [[nodiscard]] Bytes peak() const;
  [[nodiscard]] std::size_t mappings() const;
  [[nodiscard]] Bytes copied_to_host() const;
  [[nodiscard]] Bytes copied_to_device() const;

  // Device.
  [[nodiscard]] unsigned number() const noexcept override { return 0; }
  [[nodiscard]] Bytes total_memory() const noexcept override { return memory_.total(); }
  [[nodiscard]] Bytes granularity() const noexcept override { return memory_.granularity(); }
  runtime::DeviceResult<runtime::DevicePtr> reserve(Bytes size) noexcept override;
  runtime::Status release_addresses(runtime::DevicePtr base, Bytes size) noexcept override;
  runtime::DeviceResult<runtime::PhysicalHandle> create(Bytes size) noexcept override;
  runtime::Status destroy(runtime::PhysicalHandle handle) noexcept override;
  runtime::Status map(runtime::DevicePtr at, Bytes size, runtime::PhysicalHandle handle) noexcept override;
  runtime::Status unmap(runtime::DevicePtr at, Bytes size) noexcept override;
  runtime::Status set_access(runtime::DevicePtr at, Bytes size) noexcept override;
  runtime::DeviceResult<runtime::StreamHandle> create_stream() noexcept override;
  runtime::DeviceResult<runtime::EventHandle> create_event() noexcept override;
  runtime::Status destroy_event(runtime::EventHandle event) noexcept override;
  runtime::Status record(runtime::EventHandle event, runtime::StreamHandle stream) noexcept override;
  runtime::Status wait(runtime::StreamHandle stream, runtime::EventHandle event) noexcept override;
  runtime::Status query(runtime::EventHandle event) noexcept override;
  runtime::Status copy_to_host(void* host, runtime::DevicePtr device, Bytes size,
                               runtime::StreamHandle stream) noexcept override;
  runtime::Status copy_to_device(runtime::DevicePtr device, const void* host, Bytes size,
                                 runtime::StreamHandle stream) noexcept override;
  runtime::Status prepare_hash(runtime::DevicePtr memory) noexcept override;
  runtime::Status hash_to_host(void* host, runtime::DevicePtr device, Bytes size, std::uint64_t number,
                               runtime::StreamHandle stream) noexcept override;
  runtime::Status register_host(void* base, Bytes size) noexcept override;
  runtime::Status unregister_host(void* base) noexcept override;
  runtime::Status synchronize() noexcept override;

 private:
  using Lock = std::lock_guard<std::recursive_mutex>;

  runtime::Status submit_to(runtime::StreamHandle stream, std::string name, std::function<void(Access&)> work,
                            void (FakeQueue::*push)(runtime::StreamHandle, FakeQueue::Work));
  /// Counts the call; what it must return at once, kOk to go ahead.
  [[nodiscard]] runtime::Status enter(std::string_view function);
  /// Notes a rule that the caller broke, and returns kInvalidValue.
  runtime::Status refuse(std::string what);
  void end_device(std::string what);
  [[nodiscard]] bool is_registered(const void* base, Bytes size) const;

  mutable std::recursive_mutex mutex_;
  FakeMemory memory_;
  FakeQueue queue_;
  FaultPlan faults_;
  std::map<std::string, std::uint64_t, std::less<>> calls_;
  std::map<std::uintptr_t, std::uint64_t> registered_;
  std::vector<std::string> errors_;
  bool ended_ = false;
  runtime::DevicePtr hash_memory_;
  bool hashes_lie_ = false;
  std::uint64_t unready_queries_ = 0;
  Bytes copied_to_host_;
  Bytes copied_to_device_;
};

}  // namespace tidepool::fakes
