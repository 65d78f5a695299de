// Virtual time: what events measure and what the host waits for. It depends on the calls, never on the seed.

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "simgpu/abi.h"
#include "simgpu/kernel.h"
#include "tests/simgpu/device_process.h"
#include "tests/simgpu/device_tools.h"

namespace {

using namespace simgpu_test;
using std::chrono::milliseconds;

/// Computes for a while: `flops` operations on nothing.
struct Compute {
  template <class C>
  static void run(C& c, double flops) {
    c.work(flops);
    c.phase([](unsigned) {});
  }
};

/// Each block reads its own part, so that the launch reads all of it.
struct Sweep {
  template <class C>
  static void run(C& c, const char* from, std::size_t bytes_of_block) {
    c.reads(from + c.block().x * bytes_of_block, bytes_of_block);
    c.phase([](unsigned) {});
  }
};

void compute(CUstream stream, double flops) {
  static CUfunction function = make_kernel("compute", simgpu::kernel_body<Compute, double>());
  void* params[] = {&flops};
  OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr));
}

CUevent new_event() {
  CUevent event = nullptr;
  OK(cuEventCreate(&event, 0));
  return event;
}
double nanos_between(CUevent start, CUevent end) {
  float ms = 0;
  OK(cuEventElapsedTime(&ms, start, end));
  return static_cast<double>(ms) * 1e6;
}

/// The host's virtual time at the end of a program.
std::uint64_t time_of(DeviceSetup setup, const std::function<void()>& program) {
  std::uint64_t nanos = 0;
  setup.afterwards = [&](const simgpu::Machine& machine) {
    nanos = machine.processes[0].report.virtual_ns.load();
  };
  on_device(setup, [&] {
    program();
    return 0;
  });
  return nanos;
}

constexpr double kFlopsPerNano = simgpu::DeviceConfig{}.compute_fp32_flops / 1e9;

}  // namespace

TEST_CASE("time: the same for every seed and schedule, with everything in it") {
  std::set<std::uint64_t> times;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    DeviceSetup setup;
    setup.seed = seed;
    setup.in_order = seed == 0;
    times.insert(time_of(setup, [] {
      CUdeviceptr memory = 0;
      void* pinned = nullptr;
      OK(cuMemAlloc(&memory, 8 * kMiB));
      OK(cuMemHostAlloc(&pinned, 8 * kMiB, 0));
      const CUstream a = new_stream();
      const CUstream b = new_stream();
      const CUevent event = new_event();
      std::vector<char> pageable(1 << 16);
      for (int i = 0; i < 30; ++i) {
        OK(cuMemcpyHtoDAsync(memory, pinned, 4 * kMiB, a));
        OK(cuEventRecord(event, a));
        OK(cuStreamWaitEvent(b, event, 0));
        compute(b, 1e6);
        OK(cuMemcpyDtoHAsync(pinned, memory, 1 * kMiB, b));
        OK(cuMemsetD8(memory, 0, kMiB));
        OK(cuLaunchHostFunc(
            a, [](void*) {}, nullptr));
        if (i % 7 == 3) OK(cuMemcpyHtoD(memory, pageable.data(), pageable.size()));
        if (i % 5 == 4) {
          while (cuEventQuery(event) == CUDA_ERROR_NOT_READY) {
          }
        }
        if (i % 10 == 9) OK(cuStreamSynchronize(b));
      }
      OK(cuCtxSynchronize());
    }));
  }
  CHECK(times.size() == 1);
  CHECK(*times.begin() > 1'000'000);
}

TEST_CASE(
    "time: a kernel takes what it declares: bytes over the memory's rate, or operations over the device's") {
  DeviceSetup setup;
  on_device(setup, [] {
    const simgpu::DeviceConfig config;
    CUdeviceptr memory = 0;
    OK(cuMemAlloc(&memory, 32 * kMiB));
    const CUfunction sweep = make_kernel("sweep", simgpu::kernel_body<Sweep, const char*, std::size_t>());
    const CUstream stream = new_stream();
    const CUevent start = new_event();
    const CUevent middle = new_event();
    const CUevent end = new_event();
    OK(cuEventRecord(start, stream));
    std::size_t part = 32 * kMiB / 64;
    void* params[] = {&memory, &part};
    // Long before, so that the host's own time does not show.
    compute(stream, kFlopsPerNano * 1e6);
    OK(cuEventRecord(start, stream));
    OK(cuLaunchKernel(sweep, 64, 1, 1, 1, 1, 1, 0, stream, params, nullptr));
    OK(cuEventRecord(middle, stream));
    compute(stream, kFlopsPerNano * 5000);
    OK(cuEventRecord(end, stream));
    OK(cuEventSynchronize(end));
    const double launch = static_cast<double>(config.cost_launch_ns);
    const double read = 32.0 * kMiB / config.memory_bytes_per_second * 1e9;
    EXPECT(std::abs(nanos_between(start, middle) - (read + launch)) < 2);
    EXPECT(std::abs(nanos_between(middle, end) - (5000 + launch)) < 2);
    return 0;
  });
}

TEST_CASE("time: copies run beside kernels, kernels of two streams one after the other") {
  on_device({}, [] {
    const simgpu::DeviceConfig config;
    void* pinned = nullptr;
    CUdeviceptr memory = 0;
    OK(cuMemAlloc(&memory, 32 * kMiB));
    OK(cuMemHostAlloc(&pinned, 32 * kMiB, 0));
    const CUstream a = new_stream();
    const CUstream b = new_stream();
    const double copy = 32.0 * kMiB / config.link_h2d_bytes_per_second * 1e9;
    const auto both = [&](const std::function<void()>& beside) {
      const CUevent start = new_event();
      const CUevent end_a = new_event();
      const CUevent end_b = new_event();
      OK(cuEventRecord(start, a));
      compute(a, kFlopsPerNano * copy);
      OK(cuEventRecord(end_a, a));
      beside();
      OK(cuEventRecord(end_b, b));
      OK(cuCtxSynchronize());
      return std::max(nanos_between(start, end_a), nanos_between(start, end_b));
    };
    const double host = 100'000;  // more than the calls in between cost
    EXPECT(both([&] { OK(cuMemcpyHtoDAsync(memory, pinned, 32 * kMiB, b)); }) < copy + host);
    EXPECT(both([&] { compute(b, kFlopsPerNano * copy); }) > 2 * copy);
    return 0;
  });
}

TEST_CASE("time: the host pays for its calls and waits for what it waits for") {
  const simgpu::DeviceConfig config;
  const auto call = static_cast<std::uint64_t>(config.cost_host_call_ns);
  const std::uint64_t base = time_of({}, [] { new_stream(); });
  CHECK(time_of({}, [] {
          new_stream();
          int device = 0;
          for (int i = 0; i < 10; ++i) OK(cuCtxGetDevice(&device));
        }) == base + 10 * call);
  const auto with_kernel = [](bool waits) {
    return time_of({}, [=] {
      const CUstream stream = new_stream();
      compute(stream, kFlopsPerNano * 1e7);
      if (waits) OK(cuStreamSynchronize(stream));
    });
  };
  const std::uint64_t queued = with_kernel(false);
  const std::uint64_t waited = with_kernel(true);
  CHECK(queued < base + 1'000'000);
  CHECK(waited > queued + 9'000'000);
  CHECK(waited < queued + 11'000'000);
}

TEST_CASE("time: access and unmapping cost what each mapping under the call costs, and the call") {
  const simgpu::DeviceConfig config;
  constexpr std::size_t kMappings = 8;
  enum class Calls : bool { kOne, kMany };
  const auto with = [](std::size_t handles, Calls access, Calls unmap) {
    return time_of({}, [=] {
      const CUdeviceptr base = reserve(kMappings * kFrame);
      const std::size_t size = kMappings / handles * kFrame;
      for (std::size_t i = 0; i < handles; ++i) OK(cuMemMap(base + i * size, size, 0, create(size), 0));
      const auto call = [&](Calls calls, auto&& range) {
        if (calls == Calls::kOne) return range(base, kMappings * kFrame);
        for (std::size_t i = 0; i < handles; ++i) range(base + i * size, size);
      };
      call(access, [](CUdeviceptr at, std::size_t bytes) {
        OK(set_access(at, bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
      });
      call(unmap, [](CUdeviceptr at, std::size_t bytes) { OK(cuMemUnmap(at, bytes)); });
    });
  };
  const std::uint64_t together = with(kMappings, Calls::kOne, Calls::kOne);
  const auto more = static_cast<std::int64_t>(kMappings) - 1;
  const auto costs = [&](std::int64_t nanos) { return together + static_cast<std::uint64_t>(nanos); };
  CHECK(with(kMappings, Calls::kMany, Calls::kOne) == costs(more * config.vmm_set_access_ns));
  CHECK(with(kMappings, Calls::kOne, Calls::kMany) == costs(more * config.vmm_unmap_ns));
  const std::int64_t each = config.vmm_create_ns + config.vmm_map_ns + config.vmm_set_access_ns_per_mapping +
                            config.vmm_unmap_ns_per_mapping;
  CHECK(with(1, Calls::kOne, Calls::kOne) == costs(-more * each));
  CHECK(config.vmm_set_access_ns > 0);
  CHECK(config.vmm_unmap_ns > 0);
}

TEST_CASE("time: a question costs nothing until the answer is yes, and then what it asked about") {
  std::set<std::uint64_t> times;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    DeviceSetup setup;
    setup.seed = seed;
    times.insert(time_of(setup, [] {
      const CUstream stream = new_stream();
      compute(stream, kFlopsPerNano * 1e6);
      while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY) {
      }
    }));
  }
  CHECK(times.size() == 1);
  CHECK(*times.begin() > 1'000'000);
}

TEST_CASE("time: a full queue makes the host wait") {
  // 1,024 operations fit; every further one waits for the oldest.
  const auto launches = [](int n) {
    return time_of({}, [=] {
      const CUstream stream = new_stream();
      for (int i = 0; i < n; ++i) compute(stream, kFlopsPerNano * 100'000);
    });
  };
  CHECK(launches(1000) < 20'000'000);
  CHECK(launches(2024) > 95'000'000);
}

TEST_CASE("time: measured host time charges the program's own work, fixed does not") {
  const auto busy = [](simgpu::HostTime mode) {
    DeviceSetup setup;
    setup.host_time = mode;
    return time_of(setup, [] {
      const CUstream stream = new_stream();
      const auto until = std::clock() + CLOCKS_PER_SEC / 20;
      while (std::clock() < until) {
      }
      OK(cuStreamSynchronize(stream));
    });
  };
  CHECK(busy(simgpu::HostTime::kFixed) < 10'000'000);
  CHECK(busy(simgpu::HostTime::kMeasured) > 40'000'000);
}

TEST_CASE("time: what simgpu's libraries tell each other is not charged as the host's") {
  DeviceSetup setup;
  setup.host_time = simgpu::HostTime::kMeasured;
  on_device(setup, [] {
    void* found = nullptr;
    OK(cuGetProcAddress("simgpuProgram", &found, CUDA_VERSION, 0, nullptr));
    const auto tell = reinterpret_cast<SimgpuProgramFn>(found);
    const CUevent start = new_event();
    const CUevent end = new_event();
    OK(cuEventRecord(start, nullptr));
    const std::clock_t began = std::clock();
    for (int i = 0; i < 200'000; ++i) {
      (void)tell(kSimgpuAllocated, 0x1000, 0, 16);
      (void)tell(kSimgpuFreed, 0x1000, 0, 0);
    }
    const double took = 1e9 * static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
    OK(cuEventRecord(end, nullptr));
    OK(cuEventSynchronize(end));
    EXPECT(nanos_between(start, end) < took / 3);
    return 0;
  });
}

TEST_CASE("time: by the wall clock events measure when bytes moved here") {
  DeviceSetup setup;
  setup.clock = simgpu::ClockMode::kWall;
  setup.in_order = true;
  on_device(setup, [] {
    const CUevent start = new_event();
    const CUevent end = new_event();
    OK(cuEventRecord(start, nullptr));
    std::this_thread::sleep_for(milliseconds(20));
    OK(cuEventRecord(end, nullptr));
    OK(cuEventSynchronize(end));
    EXPECT(nanos_between(start, end) > 19e6);
    EXPECT(nanos_between(start, end) < 5e9);
    return 0;
  });
}

TEST_CASE("time: two processes share the device's engines, the same in every run") {
  std::set<std::vector<std::uint64_t>> outcomes;
  for (std::uint64_t round = 0; round < 6; ++round) {
    DeviceSetup setup;
    setup.seed = round;
    setup.processes_together = 2;
    setup.patience_ms = 20'000;
    setup.with_context = false;
    std::vector<std::uint64_t> times;
    setup.afterwards = [&](const simgpu::Machine& machine) {
      times = {machine.processes[0].report.virtual_ns.load(), machine.processes[1].report.virtual_ns.load()};
      if (times[0] > times[1]) std::swap(times[0], times[1]);
      CHECK(machine.time.escapes.load() == 0);
    };
    on_device(setup, [=] {
      const pid_t child = ::fork();
      ::setenv("SIMGPU_RANK", child == 0 ? "1" : "0", 1);
      CUcontext context = nullptr;
      OK(cuInit(0));
      OK(cuDevicePrimaryCtxRetain(&context, 0));
      OK(cuCtxSetCurrent(context));
      const CUstream a = new_stream();
      const CUstream b = new_stream();
      for (int i = 0; i < 50; ++i) {
        compute(i % 2 == 0 ? a : b, kFlopsPerNano * (child == 0 ? 30'000 : 50'000));
        if ((child == 0) == (round % 2 == 0) && i % 10 == 0) std::this_thread::sleep_for(milliseconds(3));
        if (i % 8 == 7) OK(cuStreamSynchronize(a));
      }
      OK(cuCtxSynchronize());
      if (child == 0) ::_exit(0);
      int status = 0;
      EXPECT(::waitpid(child, &status, 0) == child && status == 0);
      return 0;
    });
    outcomes.insert(times);
    // Alone they would take 1.5 and 2.5 ms; one engine does 4 ms of work.
    CHECK(times[1] > 4'000'000);
  }
  CHECK(outcomes.size() == 1);
}
