// Which processes of one machine have ended, and what becomes of what they leave.

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "simgpu/kernel.h"
#include "tests/simgpu/processes.h"
#include "tools/simgpu/timing/shared_clock.h"

namespace {

using namespace simgpu_test;
using simgpu::timing::Engine;
using simgpu::timing::Nanos;
using simgpu::timing::SharedClock;
using simgpu::timing::SharedEngines;
using simgpu::timing::Work;

/// Opens files until no descriptor is free; those from the one that it returns on are open.
int use_up_descriptors() {
  const rlimit few{64, 64};
  EXPECT(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  const int first = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  while (::open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) {
  }
  return first;
}

/// A kernel that ends its process.
struct Leave {
  template <class C>
  static void run(C& c) {
    c.phase([](unsigned) { std::exit(3); });
  }
};

std::uint64_t used() {
  std::size_t free = 0;
  std::size_t total = 0;
  OK(cuMemGetInfo(&free, &total));
  return total - free;
}

unsigned first_word(CUdeviceptr address) {
  unsigned value = 0;
  OK(cuMemcpyDtoH(&value, address, sizeof value));
  return value;
}

}  // namespace

TEST_CASE("process life: a process without free descriptors takes no other one for dead") {
  Processes processes;
  const pid_t holder = processes.start(0, [](int socket) {
    CUdeviceptr address = 0;
    OK(cuMemAlloc(&address, 8 * kMiB));
    OK(cuMemsetD8(address, 7, 8 * kMiB));
    OK(cuCtxSynchronize());
    say(socket);
    EXPECT(heard(socket));
    EXPECT(first_word(address + 4 * kMiB) == 0x07070707);
  });
  const pid_t other = processes.start(1, [](int socket) {
    EXPECT(heard(socket));
    const std::uint64_t before = used();
    use_up_descriptors();
    EXPECT(used() == before);
    say(socket);
  });
  REQUIRE(ended(other) == 0);
  REQUIRE(ended(holder) == 0);
}

TEST_CASE("process life: cuInit fails where the process cannot find out who it is") {
  DeviceSetup setup;
  setup.with_context = false;
  setup.afterwards = [](const simgpu::Machine& machine) { REQUIRE(machine.process_count.load() == 1); };
  on_device(setup, [] {
    const int first = use_up_descriptors();
    ::close(first);  // for the machine, which is opened first
    EXPECT_RESULT(cuInit(0), CUDA_ERROR_NO_DEVICE);
    ::close(first + 1);
    ::close(first + 2);
    ::close(first + 3);
    OK(cuInit(0));
    return 0;
  });
}

// A sanitizer needs descriptors of its own for some of its checks.
TEST_CASE("process life: a cuInit that fails holds no other process up and can be repeated", "[plain]") {
  DeviceSetup setup;
  setup.with_context = false;
  setup.devices = 2;
  setup.afterwards = [](const simgpu::Machine& machine) {
    REQUIRE(machine.processes[1].pid.load() == 0);
    REQUIRE(machine.time.used.load() == 1);
    const auto& before = machine.departed.unknown;
    const auto& after = machine.processes[0].report.unknown;
    REQUIRE(before.used.load() == 1);
    REQUIRE(before.rows[0].count.load() == 1);
    REQUIRE(after.used.load() == 0);
  };
  on_device(setup, [] {
    void* none = nullptr;
    CUdriverProcAddressQueryResult found{};
    static_cast<void>(cuGetProcAddress("cuBeforeInit", &none, CUDA_VERSION, 0, &found));
    const int first = use_up_descriptors();
    // One for the machine, one for the memory of the first device.
    ::close(first);
    ::close(first + 1);
    EXPECT_RESULT(cuInit(0), CUDA_ERROR_NO_DEVICE);
    for (int more = 2; more < 8; ++more) ::close(first + more);
    const auto machine = simgpu::MachineFile::open(::getenv(simgpu::MachineFile::kVariable));
    EXPECT(machine != nullptr && (*machine)->time.slots[0].state == SharedClock::kFree);
    OK(cuInit(0));
    return 0;
  });
}

TEST_CASE("process life: exit() in a kernel's body ends the process, with a trace too") {
  char trace[] = "/tmp/simgpu_trace_XXXXXX";
  const int file = ::mkstemp(trace);
  REQUIRE(file >= 0);
  simgpu::MachineConfig config = small_machine();
  std::strcpy(config.trace, trace);
  Processes processes(config);
  const pid_t child = processes.start(0, [](int) {
    ::alarm(20);
    const CUfunction function = make_kernel("leave", simgpu::kernel_body<Leave>());
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    OK(cuCtxSynchronize());
  });
  CHECK(ended(child) == 3);
  ::unlink(trace);
  ::close(file);
}

// ThreadSanitizer does not know a first thread that ends by the system call.
TEST_CASE("process life: a process lives until its last thread has ended", "[plain]") {
  Processes processes;
  const pid_t holder = processes.start(0, [](int socket) {
    struct Shared {
      int socket;
      pthread_t first;
      CUcontext context;
      CUdeviceptr address;
    };
    static Shared shared{socket, ::pthread_self(), nullptr, 0};
    OK(cuCtxGetCurrent(&shared.context));
    OK(cuMemAlloc(&shared.address, 8 * kMiB));
    OK(cuMemsetD8(shared.address, 7, 8 * kMiB));
    pthread_t second{};
    const auto go_on = [](void*) -> void* {
      EXPECT(::pthread_join(shared.first, nullptr) == 0);
      say(shared.socket);
      EXPECT(heard(shared.socket));
      OK(cuCtxSetCurrent(shared.context));
      EXPECT(first_word(shared.address) == 0x07070707);
      ::_exit(0);
    };
    EXPECT(::pthread_create(&second, nullptr, go_on, nullptr) == 0);
    // As pthread_exit() does in the end, which would first unwind through the test's own frames.
    ::syscall(SYS_exit, 0);
  });
  const pid_t other = processes.start(1, [](int socket) {
    EXPECT(heard(socket));
    EXPECT(used() == 8 * kMiB);
    say(socket);
  });
  REQUIRE(ended(other) == 0);
  REQUIRE(ended(holder) == 0);
}

TEST_CASE("process life: memory from before exec() is given back at the next cuInit") {
  Processes processes;
  const pid_t child = processes.start(0, [](int) {
    CUdeviceptr address = 0;
    OK(cuMemAlloc(&address, 48 * kMiB));
    OK(cuMemsetD32(address, 1, 1));
    ::execl("/proc/self/exe", "sharing", "after exec()", nullptr);
  });
  REQUIRE(ended(child) == 0);
  const simgpu::Machine& machine = processes.machine();
  REQUIRE(machine.process_count.load() == 2);
  REQUIRE(machine.processes[1].pid.load() == 0);
  REQUIRE(machine.memory[0].use.peak.load() <= 64 * kMiB);
  REQUIRE(machine.time.used.load() == 1);
}
TEST_CASE("after exec()", "[.]") {
  CUcontext context = nullptr;
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  CUdeviceptr address = 0;
  REQUIRE(cuMemAlloc(&address, 60 * kMiB) == CUDA_SUCCESS);
}

TEST_CASE("process life: the numbers of a slot that is taken over are counted once") {
  const auto machine = simgpu::MachineFile::create(simgpu::MachineConfig{});
  const simgpu::ProcessNumber self = simgpu::this_process();
  simgpu::ProcessSlot* slot = simgpu::claim_slot(**machine, self);
  REQUIRE(slot != nullptr);
  slot->report.faults.store(3);
  REQUIRE(simgpu::claim_slot(**machine, self) == slot);
  REQUIRE((*machine)->departed.faults.load() == 3);
  REQUIRE(slot->report.faults.load() == 0);
  // The process that took it over last was killed when it had counted them.
  slot->report.faults.store(4);
  slot->departed.store(1);
  REQUIRE(simgpu::claim_slot(**machine, self) == slot);
  REQUIRE((*machine)->departed.faults.load() == 3);
  REQUIRE(slot->report.faults.load() == 0);
  REQUIRE(slot->departed.load() == 0);
}

TEST_CASE("process life: shared events of the program before exec() end with it") {
  const auto machine = simgpu::MachineFile::create(simgpu::MachineConfig{});
  const simgpu::ProcessNumber self = simgpu::this_process();
  REQUIRE(simgpu::claim_slot(**machine, self) != nullptr);
  simgpu::SharedEvent& own = (*machine)->shared_events.events[0];
  simgpu::SharedEvent& others = (*machine)->shared_events.events[1];
  own.generation.store(1);
  others.generation.store(1);
  others.maker.store(1);
  others.recorded.store(5);
  REQUIRE(simgpu::claim_slot(**machine, self) != nullptr);
  REQUIRE(own.generation.load() == 2);
  REQUIRE(others.generation.load() == 1);
  REQUIRE(others.completed.load() == 5);
}

TEST_CASE("process life: what a process had before exec() holds nobody up, its lock neither") {
  const auto clock = std::make_unique<SharedClock>();
  SharedEngines before(*clock, {});
  Nanos start = -1;
  REQUIRE(before.join(simgpu::this_process(), -1, &start));
  before.promise(70, true);
  clock->lock.store(simgpu::this_process());
  simgpu::timing::forget_process(*clock, simgpu::this_process());
  CHECK(clock->lock.load() == 0);
  SharedEngines after(*clock, {});
  REQUIRE(after.join(simgpu::this_process(), -1, &start));
  CHECK(start == 70);
  simgpu::timing::Span span;
  CHECK(after.take(Work{Engine::kCompute, 0, 0, 10}, 90, false, &span));
}

TEST_CASE("process life: the lock of a process that has ended is taken, also if its pid lives on") {
  const auto clock = std::make_unique<SharedClock>();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(0);
  siginfo_t ended{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) == 0);
  const std::uint64_t own_start = simgpu::start_time_of(simgpu::this_process());
  for (const simgpu::ProcessNumber holder :
       {simgpu::process_number(child, own_start), simgpu::process_number(::getpid(), own_start - 1)}) {
    clock->lock.store(holder);
    SharedEngines engines(*clock, {});
    Nanos start = -1;
    CHECK(engines.join(simgpu::this_process(), -1, &start));
  }
  ::waitpid(child, nullptr, 0);
}
