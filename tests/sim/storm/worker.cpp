#include "tests/sim/storm/worker.h"

#include "tests/sim/storm/program.h"

namespace storm {
namespace {

void write_words(const HostWrite& write) {
  for (std::size_t k = 0; k < write.words; k += write.stride) {
    std::uint32_t x = static_cast<std::uint32_t>(k) * 2654435761u + write.salt;
    x ^= x >> 15;
    write.to[k] = x * 2246822519u;
  }
}

}  // namespace

Worker::~Worker() {
  if (scratch_ != nullptr) ok(cudaFreeHost(scratch_), "cudaFreeHost");
}

HostWrite Worker::host_write(const Operation& operation) const {
  return {reinterpret_cast<std::uint32_t*>(at(operation.to)), operation.to.bytes / 4, operation.salt,
          operation.stride};
}

void Worker::run() {
  const std::vector<Operation>& operations = all_.program.operations;
  for (index_ = 0; index_ < operations.size(); ++index_) {
    const Operation& operation = operations[index_];
    if (operation.thread != thread_) continue;
    for (const unsigned other : operation.after_issue) all_.issued[other].wait(false);
    use_device_of(operation);
    for (const unsigned other : operation.host_waits) {
      ok(cudaEventSynchronize(all_.events[other]), "cudaEventSynchronize");
    }
    for (const unsigned other : operation.stream_waits) {
      ok(calls_.stream_wait_event(stream_of(operation), all_.events[other], 0), "cudaStreamWaitEvent");
    }
    act(operation);
    if (operation.records) {
      ok(cudaEventCreateWithFlags(&all_.events[index_], cudaEventDisableTiming), "cudaEventCreateWithFlags");
      ok(calls_.event_record(all_.events[index_], stream_of(operation)), "cudaEventRecord");
    }
    all_.issued[index_].store(true);
    all_.issued[index_].notify_all();
  }
}

void Worker::use_device_of(const Operation& operation) {
  unsigned device = device_;
  if (operation.stream != kNone) {
    device = all_.program.streams[operation.stream].device;
  } else if (operation.to.bytes != 0) {
    device = buffer_of(operation.to).device;
  } else if (!operation.nodes.empty()) {
    device = all_.program.streams[operation.nodes.front().stream].device;
  }
  if (device != device_) ok(cudaSetDevice(static_cast<int>(device)), "cudaSetDevice");
  device_ = device;
}

void Worker::act(const Operation& operation) {
  switch (operation.kind) {
    case Kind::kAllocate:
      return allocate(operation);
    case Kind::kFree:
      return release(operation);
    case Kind::kHostFill:
      return write_words(host_write(operation));
    case Kind::kHostFunction:
      return call_on_host(operation);
    case Kind::kCheck:
      return check(operation);
    case Kind::kStreamCreate:
      return create_stream(operation);
    case Kind::kStreamDestroy:
      return ok(cudaStreamDestroy(stream_of(operation)), "cudaStreamDestroy");
    case Kind::kSynchronize:
      return synchronize(operation);
    case Kind::kAsk:
      return ask(operation);
    case Kind::kCapture:
      return capture(operation);
    case Kind::kGraphLaunch:
      return ok(calls_.graph_launch(all_.graphs[operation.graph], stream_of(operation)), "cudaGraphLaunch");
    case Kind::kGraphDestroy:
      return ok(cudaGraphExecDestroy(all_.graphs[operation.graph]), "cudaGraphExecDestroy");
    case Kind::kTable:
      return write_table(operation);
    case Kind::kAwaitValue:
    case Kind::kWriteValue:
      return await_or_write(operation);
    default:
      return enqueue(operation, stream_of(operation));
  }
}

void Worker::allocate(const Operation& operation) {
  const Buffer& buffer = buffer_of(operation.to);
  void* made = nullptr;
  switch (buffer.home) {
    case Home::kMalloc:
      ok(cudaMalloc(&made, buffer.bytes), "cudaMalloc");
      break;
    case Home::kAsync:
      ok(calls_.malloc_async(&made, buffer.bytes, stream_of(operation)), "cudaMallocAsync");
      break;
    default: {
      cudaMemPool_t pool = all_.pools[buffer.device];
      if (buffer.home == Home::kDefaultPool) {
        ok(cudaDeviceGetDefaultMemPool(&pool, static_cast<int>(buffer.device)),
           "cudaDeviceGetDefaultMemPool");
      }
      ok(calls_.malloc_from_pool_async(&made, buffer.bytes, pool, stream_of(operation)),
         "cudaMallocFromPoolAsync");
    }
  }
  all_.at[operation.to.buffer] = static_cast<unsigned char*>(made);
}

void Worker::release(const Operation& operation) {
  if (operation.asynchronous) {
    ok(calls_.free_async(at(operation.to), stream_of(operation)), "cudaFreeAsync");
  } else {
    ok(cudaFree(at(operation.to)), "cudaFree");
  }
}

void Worker::call_on_host(const Operation& operation) {
  HostWrite& write = all_.host_writes[index_];
  write = host_write(operation);
  ok(calls_.launch_host_func(
         stream_of(operation), [](void* what) { write_words(*static_cast<HostWrite*>(what)); }, &write),
     "cudaLaunchHostFunc");
}

void Worker::create_stream(const Operation& operation) {
  cudaStream_t& made = all_.streams[operation.stream];
  switch (all_.program.streams[operation.stream].kind) {
    case StreamKind::kBlocking:
      return ok(cudaStreamCreate(&made), "cudaStreamCreate");
    case StreamKind::kUrgent: {
      int low = 0;
      int high = 0;
      ok(cudaDeviceGetStreamPriorityRange(&low, &high), "cudaDeviceGetStreamPriorityRange");
      return ok(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, high),
                "cudaStreamCreateWithPriority");
    }
    default:
      return ok(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
}

void Worker::synchronize(const Operation& operation) {
  if (operation.stream != kNone)
    return ok(calls_.stream_synchronize(stream_of(operation)), "cudaStreamSynchronize");
  for (unsigned device = 0; device < all_.options.devices; ++device) {
    ok(cudaSetDevice(static_cast<int>(device)), "cudaSetDevice");
    ok(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    device_ = device;
  }
}

void Worker::expect(bool right, const char* what) const {
  if (right) return;
  std::fprintf(stderr, "storm: a wrong answer about %s at %s\nstorm: storm %s\n", what,
               text_of(all_.program, index_).c_str(), arguments_of(all_.options).c_str());
  State::end(kWrongBytes);
}

void Worker::ask(const Operation& operation) {
  std::size_t free = 0;
  std::size_t total = 0;
  ok(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  expect(free <= total && total != 0, "free memory");
  const Region& region = operation.from[0];
  cudaPointerAttributes attributes{};
  ok(cudaPointerGetAttributes(&attributes, at(region)), "cudaPointerGetAttributes");
  expect(attributes.type == cudaMemoryTypeDevice, "the type of a pointer");
  expect(attributes.device == static_cast<int>(buffer_of(region).device), "the device of a pointer");
  expect(attributes.devicePointer == at(region), "the device pointer of a pointer");
}

}  // namespace storm
