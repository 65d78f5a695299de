#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/simgpu/driver/address_space.h"
#include "tools/simgpu/driver/context.h"
#include "tools/simgpu/driver/faults.h"
#include "tools/simgpu/driver/gpu.h"
#include "tools/simgpu/driver/host_memory.h"
#include "tools/simgpu/driver/kernel_object.h"
#include "tools/simgpu/driver/ledger.h"
#include "tools/simgpu/driver/plain_heap.h"
#include "tools/simgpu/driver/pool.h"
#include "tools/simgpu/driver/program_memory.h"
#include "tools/simgpu/driver/scheduler.h"
#include "tools/simgpu/driver/trace.h"
#include "tools/simgpu/machine/machine_file.h"

namespace simgpu {

/// What cuDriverGetVersion answers: 1000 times the major plus 10 times the minor version of CUDA.
inline constexpr int kDriverVersion = 13000;

/// An event; the record of its latest cuEventRecord, if any.
struct Event {
  unsigned flags = 0;
  const Context* context = nullptr;  ///< streams that record it belong to the same one
  std::shared_ptr<EventRecord> record;
  SharedEvent* shared = nullptr;  ///< where processes share it
  std::uint32_t shared_index = 0;
  std::uint64_t shared_generation = 0;
  bool opened = false;                      ///< made by another process
  std::unique_ptr<CapturedEvent> captured;  ///< of its latest cuEventRecord, if that was captured
};

/// Memory of another process that was opened by its handle.
struct IpcOpened {
  CUipcMemHandle handle;
  const Context* context;
  unsigned count;  ///< how often it is to be closed
};

/// The driver's state in this process: the lock that every call takes, the devices, and everything that has a
/// handle. Leaked: nothing is torn down at exit. Everything below the mutex is protected by it.
struct Driver {
  /// Of the process `self`, which has claimed that slot of the machine and met its fault plan so far.
  Driver(std::unique_ptr<MachineFile> file, ProcessNumber self, ProcessSlot& claimed, Faults& plan);

  std::mutex mutex;
  const std::unique_ptr<MachineFile> machine;
  const MachineConfig& config;
  ProcessSlot& slot;                       ///< of this process in the machine
  std::vector<std::unique_ptr<Gpu>> gpus;  ///< by ordinal
  AddressSpace space;
  PlainHeap heap;
  HostMemory host;
  Ledger ledger;
  Trace trace;
  Scheduler scheduler;
  Faults& faults;
  ProgramMemory program;
  std::unordered_map<CUcontext, Context*> contexts;  ///< alive or not, the primary one too
  std::unordered_map<CUstream, std::shared_ptr<Stream>> streams;
  std::unordered_map<CUevent, std::unique_ptr<Event>> events;
  std::unordered_map<CUlibrary, std::shared_ptr<Library>> libraries;  ///< modules too
  std::unordered_map<const void*, Kernel*> kernels;                   ///< by CUkernel and by CUfunction
  std::unordered_map<CUmemGenericAllocationHandle, Physical*> handles;
  std::unordered_map<CUdeviceptr, IpcOpened> ipc_opened;
  std::unordered_map<CUmemoryPool, std::shared_ptr<Pool>> pools;
  std::uint64_t next_id = 1;  ///< of contexts and streams

  /// The device with this ordinal, or null.
  [[nodiscard]] Gpu* gpu_at(int ordinal) const {
    const bool known = ordinal >= 0 && static_cast<std::size_t>(ordinal) < gpus.size();
    return known ? gpus[static_cast<std::size_t>(ordinal)].get() : nullptr;
  }
  std::shared_ptr<Stream> new_stream(Context* context, unsigned flags, int priority);
  /// Makes a context ready for use: its default streams. On a device that is lost it is lost from the start.
  void start_context(Context* context);
  /// An error of queued work has ended all contexts of the device in this process; the first error counts.
  void lose(Gpu* gpu, CUresult code);
  /// Drains the context and frees what belongs to it.
  void end_context(Context* context);
  /// The stream that a handle names in this context; null if it names none. A null handle is the default
  /// stream of the kind that the called entry point stands for.
  std::shared_ptr<Stream> find_stream(Context* context, CUstream handle, bool null_is_per_thread);
  /// True if the range lies in one live plain allocation or in mappings of the program.
  [[nodiscard]] bool owns_range(std::uint64_t address, std::uint64_t bytes) const;
  /// The same for work that runs now: memory of a pool must lie between its allocation and its free.
  [[nodiscard]] bool usable_range(std::uint64_t address, std::uint64_t bytes) const;
  /// True if work that is queued in this stream from now on comes after that operation.
  [[nodiscard]] bool follows(const Stream& stream, const Wait& operation) const;
  /// True if the host has waited until that operation was over.
  [[nodiscard]] bool host_knows(const Wait& operation) const;
  /// Forgets the per-thread streams of threads that have ended.
  void forget_ended_threads();
  /// The modules and events of a context, which is drained, are gone.
  void end_modules_and_events(const Context* context);
  /// Of this process in the machine.
  [[nodiscard]] unsigned slot_number() const;
  /// Called when the host has waited for work.
  void synchronized();
  /// True if every byte is mapped and work of this context's device may read it, or write it: memory of the
  /// device itself, of a peer that the context has enabled, or mapped with access for the device.
  [[nodiscard]] bool accessible(const Context& context, std::uint64_t address, std::uint64_t bytes,
                                bool write) const;
  /// True if the context's device may copy from or to there: what it can use, and plain memory of other
  /// devices, whose bytes go by the host.
  [[nodiscard]] bool copyable(const Context& context, std::uint64_t address, std::uint64_t bytes) const;
  /// True if the address is in the devices' address space at all.
  [[nodiscard]] bool is_device_address(std::uint64_t address) const;
  /// What is, was or might have been at this address, for messages.
  [[nodiscard]] std::string describe(std::uint64_t address) const;
};

/// The driver of this process, or null before cuInit succeeded and in a child that was forked after it.
Driver* driver() noexcept;

/// cuInit: opens the machine and makes the driver on the first call. One that the fault plan lets fail leaves
/// the process without a driver, or with the one that it had.
CUresult start_driver();

}  // namespace simgpu
