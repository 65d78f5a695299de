#include "tests/sim/storm/executor.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/sim/storm/worker.h"

namespace storm {
namespace {

int open_descriptors() {
  int count = 0;
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

bool has_tables(const Program& program) {
  return std::any_of(program.operations.begin(), program.operations.end(),
                     [](const Operation& one) { return one.by_table || one.kind == Kind::kTable; });
}

void make_tables(State& state) {
  const std::size_t bytes = state.program.operations.size() * sizeof(Sources);
  state.ok(cudaMallocHost(reinterpret_cast<void**>(&state.host_tables), bytes), kNone, "cudaMallocHost");
  for (unsigned device = 0; device < state.options.devices; ++device) {
    state.ok(cudaSetDevice(static_cast<int>(device)), kNone, "cudaSetDevice");
    state.ok(cudaMalloc(reinterpret_cast<void**>(&state.tables[device]), bytes), kNone, "cudaMalloc");
  }
  state.ok(cudaSetDevice(0), kNone, "cudaSetDevice");
}

void make_values(State& state) {
  const std::size_t bytes = state.program.sections.size() * sizeof(std::uint32_t);
  state.ok(cudaMallocHost(reinterpret_cast<void**>(&state.host_values), bytes), kNone, "cudaMallocHost");
  std::memset(state.host_values, 0, bytes);
  for (unsigned device = 0; device < state.options.devices; ++device) {
    state.ok(cudaSetDevice(static_cast<int>(device)), kNone, "cudaSetDevice");
    state.ok(cudaMalloc(reinterpret_cast<void**>(&state.values[device]), bytes), kNone, "cudaMalloc");
    state.ok(cudaMemset(state.values[device], 0, bytes), kNone, "cudaMemset");
    state.ok(cudaDeviceSynchronize(), kNone, "cudaDeviceSynchronize");
  }
  state.ok(cudaSetDevice(0), kNone, "cudaSetDevice");
}

/// Returns how many descriptors are open then.
int prepare(State& state) {
  for (unsigned device = 0; device < state.options.devices; ++device) {
    state.ok(cudaSetDevice(static_cast<int>(device)), kNone, "cudaSetDevice");
    state.ok(cudaFree(nullptr), kNone, "cudaFree");
    if (state.options.has(Feature::k_pool)) {
      cudaMemPoolProps properties{};
      properties.allocType = cudaMemAllocationTypePinned;
      properties.location.type = cudaMemLocationTypeDevice;
      properties.location.id = static_cast<int>(device);
      state.ok(cudaMemPoolCreate(&state.pools[device], &properties), kNone, "cudaMemPoolCreate");
      std::uint64_t keep = state.options.seed % 2 == 0 ? 0 : ~std::uint64_t{0};
      state.ok(cudaMemPoolSetAttribute(state.pools[device], cudaMemPoolAttrReleaseThreshold, &keep), kNone,
               "cudaMemPoolSetAttribute");
    }
  }
  state.ok(cudaSetDevice(0), kNone, "cudaSetDevice");
  if (has_tables(state.program)) make_tables(state);
  if (!state.program.sections.empty()) make_values(state);
  const int before = open_descriptors();
  for (unsigned i = 0; i < state.program.buffers.size(); ++i) {
    const Buffer& buffer = state.program.buffers[i];
    void* at = nullptr;
    if (buffer.home == Home::kPinned) state.ok(cudaMallocHost(&at, buffer.bytes), kNone, "cudaMallocHost");
    if (buffer.home == Home::kPageable) at = std::malloc(buffer.bytes);
    if (at != nullptr) std::memset(at, 0, buffer.bytes);
    state.at[i] = static_cast<unsigned char*>(at);
  }
  for (unsigned i = 0; i < state.program.streams.size(); ++i) {
    if (state.program.streams[i].kind == StreamKind::kLegacy) state.streams[i] = cudaStreamLegacy;
    // To calls for it, a thread's own stream is no stream.
    const Stream& stream = state.program.streams[i];
    if (stream.kind == StreamKind::kPerThread)
      state.streams[i] = state.options.is_per_thread(stream.owner) ? nullptr : cudaStreamPerThread;
  }
  return before;
}

void clean_up(State& state) {
  for (cudaEvent_t event : state.events) {
    if (event != nullptr) state.ok(cudaEventDestroy(event), kNone, "cudaEventDestroy");
  }
  for (unsigned i = 0; i < state.program.buffers.size(); ++i) {
    if (state.program.buffers[i].home == Home::kPinned)
      state.ok(cudaFreeHost(state.at[i]), kNone, "cudaFreeHost");
    if (state.program.buffers[i].home == Home::kPageable) std::free(state.at[i]);
  }
  if (state.host_tables != nullptr) state.ok(cudaFreeHost(state.host_tables), kNone, "cudaFreeHost");
  if (state.host_values != nullptr) state.ok(cudaFreeHost(state.host_values), kNone, "cudaFreeHost");
  for (unsigned device = 0; device < state.options.devices; ++device) {
    state.ok(cudaSetDevice(static_cast<int>(device)), kNone, "cudaSetDevice");
    state.ok(cudaDeviceSynchronize(), kNone, "cudaDeviceSynchronize");
    state.ok(cudaFree(state.tables[device]), kNone, "cudaFree");
    state.ok(cudaFree(state.values[device]), kNone, "cudaFree");
    if (state.pools[device] != nullptr)
      state.ok(cudaMemPoolDestroy(state.pools[device]), kNone, "cudaMemPoolDestroy");
    // What a pool kept goes when the host has waited.
    state.ok(cudaDeviceSynchronize(), kNone, "cudaDeviceSynchronize");
  }
}

}  // namespace

State::State(const Options& all_options, const Program& whole)
    : options(all_options),
      program(whole),
      at(whole.buffers.size()),
      streams(whole.streams.size()),
      events(whole.operations.size()),
      host_writes(whole.operations.size()),
      issued(whole.operations.size()),
      graphs(whole.captures.size()),
      graph_addresses(whole.captures.size()),
      pools(all_options.devices),
      tables(all_options.devices),
      table_addresses(whole.buffers.size()),
      values(all_options.devices) {
  result.digests.resize(whole.operations.size());
}

void State::end(int code) {
  std::fflush(stdout);
  std::fflush(stderr);
  ::_exit(code);
}

void State::ok(cudaError_t error, unsigned index, const char* call) const {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "storm: %s: %s (%s) at %s\nstorm: storm %s\n", call, cudaGetErrorName(error),
               cudaGetErrorString(error), index == kNone ? "the end" : text_of(program, index).c_str(),
               arguments_of(options).c_str());
  end(error == cudaErrorMemoryAllocation ? kOutOfMemory : kOtherError);
}

Result execute(const Options& options, const Program& program) {
  State state(options, program);
  const int before = prepare(state);
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < options.threads; ++i) {
    threads.emplace_back([&state, i] { Worker(state, i).run(); });
  }
  Worker(state, 0).run();
  for (std::thread& thread : threads) thread.join();
  clean_up(state);
  state.result.more_descriptors = open_descriptors() - before;
  for (unsigned device = 0; device < options.devices; ++device) {
    state.ok(cudaSetDevice(static_cast<int>(device)), kNone, "cudaSetDevice");
    state.ok(cudaDeviceReset(), kNone, "cudaDeviceReset");
  }
  return state.result;
}

}  // namespace storm
