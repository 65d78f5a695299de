#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/sim/storm/calls.h"
#include "tests/sim/storm/executor.h"
#include "tests/sim/storm/kernels.h"

namespace storm {

/// Exit codes for scripts.
constexpr int kWrongBytes = 1;
constexpr int kOutOfMemory = 3;
constexpr int kOtherError = 4;

/// What a host function writes.
struct HostWrite {
  std::uint32_t* to;
  std::size_t words;
  std::uint32_t salt;
  unsigned stride;
};

/// What the threads of a run share. A thread writes only what belongs to its own operations, and reads what
/// belongs to others' once they are marked as issued.
struct State {
  State(const Options& all_options, const Program& whole);

  /// Ends the process at once: other threads may be inside CUDA calls.
  [[noreturn]] static void end(int code);
  /// Ends the process, with a line, if a call failed; `index` is the operation or kNone.
  void ok(cudaError_t error, unsigned index, const char* call) const;

  const Options& options;
  const Program& program;
  std::vector<unsigned char*> at;  ///< by buffer
  std::vector<cudaStream_t> streams;
  std::vector<cudaEvent_t> events;        ///< by operation that records one
  std::vector<HostWrite> host_writes;     ///< by operation
  std::vector<std::atomic<bool>> issued;  ///< by operation
  std::vector<cudaGraphExec_t> graphs;
  std::vector<std::vector<unsigned char*>> graph_addresses;  ///< by graph: what its nodes name
  std::vector<cudaMemPool_t> pools;                          ///< by device
  std::vector<Sources*> tables;    ///< by device: one for each operation, if there are any by table
  Sources* host_tables = nullptr;  ///< by operation; pinned
  std::vector<std::vector<const std::uint32_t*>> table_addresses;  ///< by buffer: what a kTable put there
  std::vector<std::uint32_t*> values;    ///< by device: the awaited word of each section, if there are any
  std::uint32_t* host_values = nullptr;  ///< by section; pinned
  Result result;
};

/// Does the operations of one thread.
class Worker {
 public:
  Worker(State& state, unsigned thread)
      : all_(state),
        calls_(state.options.is_per_thread(thread) ? kPerThreadCalls : kCalls),
        thread_(thread) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();
  void run();

 private:
  void ok(cudaError_t error, const char* call) const { all_.ok(error, index_, call); }
  cudaStream_t stream_of(const Operation& operation) const { return all_.streams[operation.stream]; }
  unsigned char* at(const Region& region) const { return all_.at[region.buffer] + region.offset; }
  const Buffer& buffer_of(const Region& region) const { return all_.program.buffers[region.buffer]; }
  const std::uint32_t* words_at(const Region& region) const {
    return reinterpret_cast<const std::uint32_t*>(at(region));
  }
  HostWrite host_write(const Operation& operation) const;

  void use_device_of(const Operation& operation);
  void act(const Operation& operation);
  // worker.cpp: memory, streams, the host
  void allocate(const Operation& operation);
  void release(const Operation& operation);
  void call_on_host(const Operation& operation);
  void create_stream(const Operation& operation);
  void synchronize(const Operation& operation);
  void ask(const Operation& operation);
  void expect(bool right, const char* what) const;
  // work.cpp: what the device does
  void check(const Operation& operation);
  [[noreturn]] void tell_difference(const unsigned char* read, std::size_t bytes) const;
  void capture(const Operation& operation);
  void enqueue(const Operation& operation, cudaStream_t stream);
  void write_table(const Operation& operation);
  void copy(const Operation& operation, cudaStream_t stream);
  void memset(const Operation& operation, cudaStream_t stream);
  void await_or_write(const Operation& operation);
  /// The driver's function of that name, asked for as libraries do.
  template <class Function>
  Function* driver_entry(const char* name) const;

  State& all_;
  const Calls& calls_;
  unsigned thread_;
  unsigned index_ = 0;
  unsigned device_ = kNone;
  unsigned char* scratch_ = nullptr;  ///< pinned
  std::vector<unsigned char> pageable_;
  CUresult (*memset_words_)(CUdeviceptr, unsigned, std::size_t, CUstream) = nullptr;
};

}  // namespace storm
