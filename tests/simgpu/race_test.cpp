// Work on the same bytes that nothing orders. Documentation: CUDA Driver API, pages "Stream synchronization
// behavior" and "API synchronization behavior"; CUDA C++ Programming Guide, "Asynchronous Concurrent
// Execution".

#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <thread>

#include "simgpu/kernel.h"
#include "tests/simgpu/device_process.h"

namespace {

using namespace simgpu_test;

struct Write {
  template <class C>
  static void run(C& c, char* to, std::size_t bytes) {
    c.writes(to, bytes);
    c.phase([&](unsigned tid) {
      if (tid == 0) to[0] = 1;
    });
  }
};

struct Read {
  template <class C>
  static void run(C& c, const char* from, std::size_t bytes) {
    c.reads(from, bytes);
    c.phase([](unsigned) {});
  }
};

CUfunction writer() {
  static CUfunction function = make_kernel("write_all", simgpu::kernel_body<Write, char*, std::size_t>());
  return function;
}
CUfunction reader() {
  static CUfunction function = make_kernel("read_all", simgpu::kernel_body<Read, const char*, std::size_t>());
  return function;
}

void launch(CUfunction function, CUstream stream, CUdeviceptr memory, std::size_t bytes = 4096) {
  void* params[] = {&memory, &bytes};
  OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr));
}

CUstream new_stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream stream = nullptr;
  OK(cuStreamCreate(&stream, flags));
  return stream;
}

CUdeviceptr new_memory(std::size_t bytes = 4096) {
  CUdeviceptr memory = 0;
  OK(cuMemAlloc(&memory, bytes));
  return memory;
}

void order(CUstream first, CUstream second) {
  CUevent event = nullptr;
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  OK(cuEventRecord(event, first));
  OK(cuStreamWaitEvent(second, event, 0));
  OK(cuEventDestroy(event));
}

/// One frame, mapped at the address and at the next frame's.
CUdeviceptr frame_at_two_addresses() {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemGenericAllocationHandle handle = 0;
  OK(cuMemCreate(&handle, kFrame, &prop, 0));
  CUdeviceptr base = 0;
  OK(cuMemAddressReserve(&base, 2 * kFrame, 0, 0, 0));
  const CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  for (const CUdeviceptr at : {base, base + kFrame}) {
    OK(cuMemMap(at, kFrame, 0, handle, 0));
    OK(cuMemSetAccess(at, kFrame, &access, 1));
  }
  return base;
}

/// What was said of a program, the same for every seed.
struct Said {
  std::uint64_t races = 0;
  std::uint64_t possible = 0;
  std::string text;  ///< the first
};

Said races_of(const std::function<void()>& program, bool in_order = false) {
  Said first;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Said said;
    DeviceSetup setup;
    setup.seed = seed;
    setup.in_order = in_order;
    setup.afterwards = [&](const simgpu::Machine& machine) {
      const simgpu::ReportPage& page = machine.processes[0].report;
      said.races = page.races_total.load();
      said.possible = page.possible_races_total.load();
      said.text = page.races[0].text;
    };
    on_device(setup, [&] {
      program();
      OK(cuCtxSynchronize());
      return 0;
    });
    if (seed == 1) first = said;
    CHECK(said.races == first.races);
    CHECK(said.text == first.text);
  }
  return first;
}

bool has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("race: a write in another stream without an event is found, and named with what it meets") {
  for (const bool write_first : {false, true}) {
    for (const bool write_second : {false, true}) {
      for (const bool ordered : {false, true}) {
        const Said said = races_of([=] {
          const CUdeviceptr memory = new_memory();
          OK(cuMemsetD8(memory, 0, 4096));
          OK(cuCtxSynchronize());
          const CUstream a = new_stream();
          const CUstream b = new_stream();
          launch(write_first ? writer() : reader(), a, memory);
          if (ordered) order(a, b);
          launch(write_second ? writer() : reader(), b, memory + 1024, 1024);
        });
        INFO(said.text);
        const bool race = !ordered && (write_first || write_second);
        CHECK(said.races == (race ? 1 : 0));
        CHECK(said.possible == 0);
        if (!race) continue;
        CHECK(has(said.text, write_first ? "kernel 'write_all'" : "kernel 'read_all'"));
        CHECK(has(said.text, write_second ? "' in stream" : "reads 1024 bytes at 0x"));
        CHECK(has(said.text, "1024 bytes at 0x"));
        CHECK(has(said.text, "of 4096 bytes"));
        CHECK(has(said.text, "nothing orders them"));
      }
    }
  }
}

TEST_CASE("race: neighbours do not race, and neither does what the host waited for") {
  const Said said = races_of([] {
    const CUdeviceptr memory = new_memory(8192);
    const CUstream a = new_stream();
    const CUstream b = new_stream();
    launch(writer(), a, memory);
    launch(writer(), b, memory + 4096);
    OK(cuStreamSynchronize(a));
    launch(writer(), b, memory);
    CUevent event = nullptr;
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(event, b));
    while (cuEventQuery(event) == CUDA_ERROR_NOT_READY) {
    }
    launch(writer(), a, memory, 8192);
    OK(cuCtxSynchronize());
    launch(writer(), b, memory, 8192);
  });
  INFO(said.text);
  CHECK(said.races == 0);
}

TEST_CASE("race: the legacy stream orders blocking streams and no others") {
  for (const unsigned flags : {CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING}) {
    const Said said = races_of([=] {
      const CUdeviceptr memory = new_memory();
      const CUstream a = new_stream(flags);
      const CUstream b = new_stream(flags);
      launch(writer(), a, memory);
      launch(writer(), nullptr, memory);
      launch(writer(), b, memory);
    });
    INFO(said.text);
    CHECK(said.races == (flags == CU_STREAM_DEFAULT ? 0 : 3));
    if (flags != CU_STREAM_DEFAULT) CHECK(has(said.text, "in the legacy default stream"));
  }
}

TEST_CASE("race: per-thread default streams of two threads are not ordered") {
  const Said said = races_of([] {
    const CUdeviceptr memory = new_memory();
    launch(writer(), CU_STREAM_PER_THREAD, memory);
    std::thread([=] {
      CUcontext context = nullptr;
      OK(cuDevicePrimaryCtxRetain(&context, 0));
      OK(cuCtxSetCurrent(context));
      launch(writer(), CU_STREAM_PER_THREAD, memory);
    }).join();
  });
  CHECK(said.races == 1);
}

TEST_CASE("race: a pinned buffer that is filled again before it was read is found") {
  for (const bool ordered : {false, true}) {
    const Said said = races_of([=] {
      void* pinned = nullptr;
      OK(cuMemHostAlloc(&pinned, 4096, 0));
      std::memset(pinned, 1, 4096);
      const CUdeviceptr memory = new_memory(8192);
      OK(cuMemsetD8(memory, 0, 8192));
      OK(cuCtxSynchronize());
      const CUstream a = new_stream();
      const CUstream b = new_stream();
      OK(cuMemcpyHtoDAsync(memory, pinned, 4096, a));
      if (ordered) order(a, b);
      OK(cuMemcpyDtoHAsync(pinned, memory + 4096, 4096, b));
    });
    INFO(said.text);
    CHECK(said.races == (ordered ? 0 : 1));
    if (!ordered) CHECK(has(said.text, "a copy from device to host in stream"));
  }
}

TEST_CASE("race: a copy from pageable memory may reach the device after it returned") {
  for (const bool waits : {false, true}) {
    const Said said = races_of([=] {
      const CUdeviceptr memory = new_memory();
      char bytes[4096] = {};
      OK(cuMemcpyHtoD(memory, bytes, sizeof bytes));
      if (waits) OK(cuStreamSynchronize(nullptr));
      launch(reader(), new_stream(), memory);
    });
    CHECK(said.races == (waits ? 0 : 1));
  }
}

TEST_CASE("race: memory that is unmapped while work may use it is found, at its own address only") {
  for (const int variant : {0, 1, 2}) {
    const Said said = races_of([=] {
      const CUdeviceptr base = frame_at_two_addresses();
      const CUstream a = new_stream();
      launch(reader(), a, base + 64, 128);
      if (variant == 1) OK(cuStreamSynchronize(a));
      // One frame at two addresses: what was used by the other address does not mind.
      OK(cuMemUnmap(variant == 2 ? base + kFrame : base, kFrame));
      // By the scheduler's choice the kernel may have run or not, so it ends the context or not.
      ::_exit(0);
    });
    INFO(said.text);
    CHECK(said.races == (variant == 0 ? 1 : 0));
    if (variant == 0) CHECK(has(said.text, "cuMemUnmap takes away 128 bytes at 0x"));
  }
}

TEST_CASE("race: two addresses of one frame are one place") {
  const Said said = races_of([] {
    const CUdeviceptr base = frame_at_two_addresses();
    launch(writer(), new_stream(), base);
    launch(writer(), new_stream(), base + kFrame);
  });
  INFO(said.text);
  CHECK(said.races == 1);
  CHECK(has(said.text, " writes at 0x"));
}

TEST_CASE("race: pinned memory that is unregistered while a copy may read it is found") {
  for (const bool waits : {false, true}) {
    const Said said = races_of([=] {
      static char buffer[8192];
      OK(cuMemHostRegister(buffer, sizeof buffer, 0));
      const CUdeviceptr memory = new_memory(8192);
      const CUstream a = new_stream();
      OK(cuMemcpyHtoDAsync(memory, buffer, sizeof buffer, a));
      if (waits) OK(cuStreamSynchronize(a));
      OK(cuMemHostUnregister(buffer));
      ::_exit(0);
    });
    INFO(said.text);
    CHECK(said.races == (waits ? 0 : 1));
    if (!waits) CHECK(has(said.text, "cuMemHostUnregister takes away 8192 bytes"));
  }
}

TEST_CASE("race: cuMemFree waits for the device, so what is freed races with nothing") {
  const Said said = races_of([] {
    for (int i = 0; i < 20; ++i) {
      const CUdeviceptr memory = new_memory();
      launch(writer(), new_stream(), memory);
      OK(cuMemFree(memory));
    }
  });
  CHECK(said.races == 0);
}

TEST_CASE("race: a pair of kernels is told of once and counted every time") {
  const Said said = races_of([] {
    const CUdeviceptr memory = new_memory();
    const CUstream a = new_stream();
    const CUstream b = new_stream();
    for (int i = 0; i < 10; ++i) {
      launch(writer(), a, memory);
      launch(writer(), b, memory);
    }
  });
  // Each launch but the first meets the latest of the other stream.
  CHECK(said.races == 19);
}

TEST_CASE("race: it is found in order too, where every byte is right") {
  const Said said = races_of(
      [] {
        const CUdeviceptr memory = new_memory();
        launch(writer(), new_stream(), memory);
        launch(reader(), new_stream(), memory);
      },
      true);
  CHECK(said.races == 1);
}

TEST_CASE("race: rows of a strided copy race where they overlap, not in the gaps between them") {
  const Said said = races_of([] {
    const CUdeviceptr memory = new_memory(64 * 256);
    const CUdeviceptr from = new_memory(64 * 128);
    const CUstream a = new_stream();
    const CUstream b = new_stream();
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = from;
    copy.srcPitch = 128;
    copy.dstDevice = memory;
    copy.dstPitch = 256;
    copy.WidthInBytes = 128;
    copy.Height = 64;
    OK(cuMemcpy2DAsync(&copy, a));
    copy.dstDevice = memory + 128;
    OK(cuMemcpy2DAsync(&copy, b));
  });
  INFO(said.text);
  CHECK(said.races == 0);
}

TEST_CASE("race: a program that waits for a host function is ordered by it") {
  const Said said = races_of([] {
    static std::atomic<bool> told;
    told.store(false);
    const CUdeviceptr memory = new_memory();
    const CUstream a = new_stream();
    launch(writer(), a, memory);
    OK(cuLaunchHostFunc(
        a, [](void*) { told.store(true); }, nullptr));
    while (!told.load()) cuStreamQuery(a);
    launch(writer(), new_stream(), memory);
  });
  CHECK(said.races == 0);
}

TEST_CASE("race: stream-ordered memory is used after its allocation and before its free, in every stream") {
  for (const int variant : {0, 1, 2}) {
    const Said said = races_of([=] {
      const CUstream a = new_stream();
      const CUstream b = new_stream();
      for (int i = 0; i < 3; ++i) {
        CUdeviceptr memory = 0;
        OK(cuMemAllocAsync(&memory, 4096, a));
        if (variant != 1) order(a, b);
        if (variant != 1) launch(writer(), b, memory);
        if (variant != 2) order(b, a);
        OK(cuMemFreeAsync(memory, a));
        if (variant == 1) launch(reader(), b, memory);
        // What runs too early or too late is an illegal access, by the scheduler's choice.
        if (variant != 0) ::_exit(0);
        OK(cuStreamSynchronize(a));
        OK(cuStreamSynchronize(b));
      }
      ::_exit(0);
    });
    INFO(said.text);
    CHECK((said.races != 0) == (variant != 0));
    if (variant == 2) CHECK(has(said.text, "a stream-ordered free in stream"));
  }
}

TEST_CASE("race: memory that comes back after a stream-ordered free has no past") {
  const Said said = races_of([] {
    for (int i = 0; i < 50; ++i) {
      const CUdeviceptr memory = new_memory();
      const CUstream stream = new_stream();
      launch(writer(), stream, memory);
      OK(cuMemFreeAsync(memory, stream));
    }
  });
  INFO(said.text);
  CHECK(said.races == 0);
}
