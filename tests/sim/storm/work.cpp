// What the device does: kernels, copies, memsets, graphs of them, and the look at the results.

#include <algorithm>
#include <cstdio>
#include <utility>

#include "tests/sim/storm/kernels.h"
#include "tests/sim/storm/model.h"
#include "tests/sim/storm/worker.h"

namespace storm {

void Worker::check(const Operation& operation) {
  const Region& region = operation.from[0];
  const unsigned char* read = nullptr;
  if (operation.asynchronous) {
    if (scratch_ == nullptr) {
      ok(cudaMallocHost(reinterpret_cast<void**>(&scratch_), all_.options.largest_bytes), "cudaMallocHost");
    }
    const auto bytes = static_cast<std::size_t>(region.bytes);
    ok(calls_.memcpy_async(scratch_, at(region), bytes, cudaMemcpyDeviceToHost, stream_of(operation)),
       "cudaMemcpyAsync");
    ok(calls_.stream_synchronize(stream_of(operation)), "cudaStreamSynchronize");
    read = scratch_;
  } else {
    pageable_.resize(region.bytes);
    ok(calls_.memcpy(pageable_.data(), at(region), region.bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    read = pageable_.data();
  }
  const std::uint64_t digest = digest_of(read, region.bytes);
  all_.result.digests[index_] = digest;
  if (digest != operation.expected) tell_difference(read, region.bytes);
}

void Worker::tell_difference(const unsigned char* read, std::size_t bytes) const {
  const std::vector<unsigned char> want = expected_bytes(all_.program, index_);
  std::size_t wrong = 0;
  std::size_t first = bytes;
  std::size_t last = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    if (read[i] == want[i]) continue;
    ++wrong;
    first = std::min(first, i);
    last = i;
  }
  const Operation& operation = all_.program.operations[index_];
  std::fprintf(stderr, "storm: %zu of %zu bytes are wrong, from %zu to %zu, at %s\n", wrong, bytes, first,
               last, text_of(all_.program, index_).c_str());
  for (std::size_t i = first; i < first + 16 && i < bytes; ++i) {
    std::fprintf(stderr, "%s%02x/%02x", i == first ? "storm: read/expected:" : " ", read[i], want[i]);
  }
  std::fprintf(stderr, "\nstorm: what was done to that memory before:\n");
  for (unsigned i = 0; i <= index_; ++i) {
    for (const Use& use : uses_of(all_.program, all_.program.operations[i])) {
      if (use.buffer() != operation.from[0].buffer) continue;
      std::fprintf(stderr, "storm:   %s\n", text_of(all_.program, i).c_str());
      break;
    }
  }
  std::fprintf(stderr, "storm: storm %s\n", arguments_of(all_.options).c_str());
  State::end(kWrongBytes);
}

void Worker::capture(const Operation& operation) {
  std::vector<unsigned char*> addresses;
  for (const Operation& node : operation.nodes) {
    addresses.push_back(at(node.to));
    for (const Region& region : node.from) addresses.push_back(at(region));
  }
  cudaGraphExec_t& instance = all_.graphs[operation.graph];
  if (instance != nullptr) {
    if (addresses == all_.graph_addresses[operation.graph]) return;
    ok(cudaGraphExecDestroy(instance), "cudaGraphExecDestroy");
  }
  all_.graph_addresses[operation.graph] = std::move(addresses);
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  const bool alone = all_.options.threads == 1 && operation.nodes.size() % 2 == 0;
  ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  ok(calls_.stream_begin_capture(stream,
                                 alone ? cudaStreamCaptureModeGlobal : cudaStreamCaptureModeThreadLocal),
     "cudaStreamBeginCapture");
  for (const Operation& node : operation.nodes) enqueue(node, stream);
  ok(calls_.stream_end_capture(stream, &graph), "cudaStreamEndCapture");
  ok(cudaGraphInstantiate(&instance, graph, 0), "cudaGraphInstantiate");
  ok(cudaGraphDestroy(graph), "cudaGraphDestroy");
  ok(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

void Worker::copy(const Operation& operation, cudaStream_t stream) {
  const Region& from = operation.from[0];
  const Buffer& source = buffer_of(from);
  const Buffer& target = buffer_of(operation.to);
  const cudaMemcpyKind kind = on_host(source)   ? cudaMemcpyHostToDevice
                              : on_host(target) ? cudaMemcpyDeviceToHost
                                                : cudaMemcpyDeviceToDevice;
  if (operation.kind == Kind::kCopyRows) {
    ok(calls_.memcpy_2d_async(at(operation.to), operation.to_pitch, at(from), operation.from_pitch,
                              operation.row_bytes, operation.rows, kind, stream),
       "cudaMemcpy2DAsync");
  } else if (kind == cudaMemcpyDeviceToDevice && source.device != target.device) {
    // It has one form only: no stream is the legacy one.
    ok(cudaMemcpyPeerAsync(at(operation.to), static_cast<int>(target.device), at(from),
                           static_cast<int>(source.device), from.bytes,
                           stream != nullptr ? stream : cudaStreamPerThread),
       "cudaMemcpyPeerAsync");
  } else if (operation.asynchronous) {
    ok(calls_.memcpy_async(at(operation.to), at(from), from.bytes, kind, stream), "cudaMemcpyAsync");
  } else {
    ok(calls_.memcpy(at(operation.to), at(from), from.bytes, kind), "cudaMemcpy");
  }
}

template <class Function>
Function* Worker::driver_entry(const char* name) const {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  (void)calls_.get_driver_entry(name, &found, 12000, cudaEnableDefault, &result);
  expect(found != nullptr, name);
  return reinterpret_cast<Function*>(found);
}

void Worker::await_or_write(const Operation& operation) {
  const Section& section = all_.program.sections[operation.section];
  std::uint32_t* const word =
      (section.on_device ? all_.values[section.device] : all_.host_values) + operation.section;
  const auto at = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(word));
  const bool waits = operation.kind == Kind::kAwaitValue;
  CUstream_st* const stream = stream_of(operation);
  CUresult error = CUDA_SUCCESS;
  if (operation.wide) {
    CUstreamBatchMemOpParams one{};
    if (waits) {
      one.waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_32, at, {operation.salt}, CU_STREAM_WAIT_VALUE_EQ, 0};
    } else {
      one.writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, at, {operation.salt}, 0, 0};
    }
    using Batch = CUresult(CUstream, unsigned, CUstreamBatchMemOpParams*, unsigned);
    error = driver_entry<Batch>("cuStreamBatchMemOp")(stream, 1, &one, 0);
  } else {
    using One = CUresult(CUstream, CUdeviceptr, cuuint32_t, unsigned);
    error =
        waits ? driver_entry<One>("cuStreamWaitValue32")(stream, at, operation.salt, CU_STREAM_WAIT_VALUE_EQ)
              : driver_entry<One>("cuStreamWriteValue32")(stream, at, operation.salt, 0);
  }
  ok(static_cast<cudaError_t>(error), waits ? "a wait for a value" : "a write of a value");
}

void Worker::memset(const Operation& operation, cudaStream_t stream) {
  const auto value = static_cast<int>(operation.salt & 0xff);
  if (!operation.asynchronous)
    return ok(calls_.memset(at(operation.to), value, operation.to.bytes), "cudaMemset");
  if (!operation.wide)
    return ok(calls_.memset_async(at(operation.to), value, operation.to.bytes, stream), "cudaMemsetAsync");
  // The runtime has no memset of words.
  if (memset_words_ == nullptr)
    memset_words_ = driver_entry<CUresult(CUdeviceptr, unsigned, std::size_t, CUstream)>("cuMemsetD32Async");
  const auto address = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(at(operation.to)));
  const CUresult error = memset_words_(address, operation.salt, operation.to.bytes / 4, stream);
  ok(error == CUDA_SUCCESS ? cudaSuccess : static_cast<cudaError_t>(error), "cuMemsetD32Async");
}

void Worker::enqueue(const Operation& operation, cudaStream_t stream) {
  if (operation.kind == Kind::kCopy || operation.kind == Kind::kCopyRows) return copy(operation, stream);
  unsigned char* to = at(operation.to);
  if (operation.kind == Kind::kMemset) return memset(operation, stream);
  Launch what{operation.kind,
              reinterpret_cast<std::uint32_t*>(to),
              operation.to.bytes / 4,
              {},
              {},
              0,
              operation.salt,
              operation.stride,
              operation.grid};
  for (const Region& region : operation.from) {
    what.from[what.sources] = words_at(region);
    what.from_words[what.sources++] = region.bytes / 4;
  }
  if (!operation.by_table) return ok(launch(what, stream, calls_), "a launch");
  if (operation.through.bytes != 0) {
    const auto* const table = reinterpret_cast<const Sources*>(at(operation.through));
    return ok(launch_by_table(what, table, stream, calls_), "a launch");
  }
  Sources* const here = all_.host_tables + index_;
  Sources* const there = all_.tables[buffer_of(operation.to).device] + index_;
  *here = sources_of(what);
  ok(calls_.memcpy_async(there, here, sizeof *here, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
  ok(launch_by_table(what, there, stream, calls_), "a launch");
}

void Worker::write_table(const Operation& operation) {
  static_assert(sizeof(Sources) == kTableBytes);
  Launch what{};
  std::vector<const std::uint32_t*> addresses;
  for (const Region& region : operation.from) {
    addresses.push_back(words_at(region));
    what.from[what.sources] = words_at(region);
    what.from_words[what.sources++] = region.bytes / 4;
  }
  std::vector<const std::uint32_t*>& there = all_.table_addresses[operation.to.buffer];
  if (operation.again && there == addresses) return;
  there = std::move(addresses);
  Sources* const here = all_.host_tables + index_;
  *here = sources_of(what);
  ok(calls_.memcpy_async(at(operation.to), here, sizeof *here, cudaMemcpyHostToDevice, stream_of(operation)),
     "cudaMemcpyAsync");
}

}  // namespace storm
