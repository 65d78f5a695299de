// Pointers that a kernel without a CPU body is given and that point to no live memory. Documentation: CUDA
// Driver API, CUDA_ERROR_ILLEGAL_ADDRESS ("the device encountered a load or store instruction on an invalid
// memory address"); what is only inferred is told and ends nothing.

#include <stdlib.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "tests/simgpu/device_tools.h"

namespace {

using namespace simgpu_test;

/// Kernels that have no bodies. The names of the first two are those of scale(float const*, float*) and of
/// number(float*, unsigned long); those of `plain` and `struct24` say nothing of types.
constexpr const char* kImage = R"(.version 7.0
.target sm_75
.address_size 64
.visible .entry _Z5scalePKfPf(.param .u64 a, .param .u64 b) { ret; }
.visible .entry _Z6numberPfm(.param .u64 a, .param .u64 b) { ret; }
.visible .entry plain(.param .u64 a, .param .u64 b) { ret; }
.visible .entry struct24(.param .align 8 .b8 a[24]) { ret; }
)";

CUfunction kernel(const char* name) {
  static CUmodule module = nullptr;
  if (module == nullptr) OK(cuModuleLoadData(&module, kImage));
  CUfunction function = nullptr;
  OK(cuModuleGetFunction(&function, module, name));
  return function;
}

void launch(const char* name, std::uint64_t a, std::uint64_t b, CUstream stream = nullptr) {
  void* params[] = {&a, &b};
  OK(cuLaunchKernel(kernel(name), 1, 1, 1, 32, 1, 1, 0, stream, params, nullptr));
}

struct Words {
  std::uint64_t word[3];
};
void launch(const Words& words) {
  void* params[] = {const_cast<Words*>(&words)};
  OK(cuLaunchKernel(kernel("struct24"), 1, 1, 1, 32, 1, 1, 0, nullptr, params, nullptr));
}

CUdeviceptr allocate(std::size_t bytes = 4096) {
  CUdeviceptr memory = 0;
  OK(cuMemAlloc(&memory, bytes));
  return memory;
}

/// It is not where a live allocation ends.
CUdeviceptr freed(std::size_t bytes = 4096) {
  allocate(100);
  const CUdeviceptr memory = allocate(bytes);
  OK(cuMemFree(memory));
  return memory;
}

/// What the report of the device's process says when it has ended.
struct Said {
  int result = 0;
  std::uint64_t errors = 0, strays = 0, warnings = 0;
  std::string error, warning;
};

/// Runs the body with this role file.
Said run(const std::string& rules, const std::function<int()>& body) {
  char path[] = "/tmp/simgpu_roles_XXXXXX";
  const int fd = ::mkstemp(path);
  REQUIRE(fd >= 0);
  ::close(fd);
  std::ofstream(path) << "simgpu-roles 1\n" << rules;
  Said said;
  DeviceSetup setup;
  setup.afterwards = [&](const simgpu::Machine& machine) {
    const simgpu::ReportPage& page = machine.processes[0].report;
    said.errors = page.errors_total.load();
    said.strays = page.stray_pointers.load();
    said.warnings = page.warnings_total.load();
    said.error = page.errors[0].text;
    said.warning = page.warnings[0].text;
  };
  said.result = on_device(setup, [&] {
    ::setenv("SIMGPU_ROLES", path, 1);
    return body();
  });
  ::unlink(path);
  INFO(said.error << '\n' << said.warning);
  CHECK(said.result == 0);
  return said;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

int expect_illegal() {
  EXPECT_RESULT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr memory = 0;
  EXPECT_RESULT(cuMemAlloc(&memory, 4096), CUDA_ERROR_ILLEGAL_ADDRESS);
  return 0;
}

int expect_fine() {
  OK(cuCtxSynchronize());
  return 0;
}

const std::string kNamed =
    "kernel scale*\n param 0 in\n param 1 out\nkernel plain\n param 0 in\n param 1 inout\n";

}  // namespace

TEST_CASE("digest pointer: freed memory that the role file says is read is an illegal address") {
  for (const char* name : {"_Z5scalePKfPf", "plain"}) {
    const Said said = run(kNamed, [&] {
      const CUdeviceptr live = allocate();
      launch(name, freed(), live);
      return expect_illegal();
    });
    INFO(said.error);
    CHECK(said.errors == 1);
    CHECK(contains(said.error, "illegal address: kernel '"));
    CHECK(contains(said.error, "' read 0x"));
    CHECK(contains(said.error, " of 4096 bytes, which was freed, parameter 0 (0x"));
    CHECK(said.strays == 0);
  }
}

TEST_CASE("digest pointer: what is written is told as a write, with its own parameter") {
  const Said said = run(kNamed, [] {
    const CUdeviceptr live = allocate();
    launch("_Z5scalePKfPf", live, freed(4 << 20));
    return expect_illegal();
  });
  CHECK(contains(said.error, "' wrote 0x"));
  CHECK(contains(said.error, " of 4194304 bytes, which was freed, parameter 1 (0x"));
}

TEST_CASE("digest pointer: nowhere, the host's memory and far behind an allocation are illegal too") {
  static int on_host = 0;
  for (int what = 0; what < 4; ++what) {
    const Said said = run(kNamed, [&] {
      const CUdeviceptr live = allocate();
      const std::uint64_t bad[] = {live + 4097, live + (std::uint64_t{1} << 40),
                                   reinterpret_cast<std::uint64_t>(&on_host), 64};
      launch("_Z5scalePKfPf", bad[what], live);
      return expect_illegal();
    });
    INFO(what << ' ' << said.error);
    CHECK(said.errors == 1);
    CHECK(contains(said.error, ", parameter 0 (0x"));
    const char* const where[] = {"1 bytes past the end of the allocation", "not memory of the device",
                                 "not memory of the device", "not memory of the device"};
    CHECK(contains(said.error, where[what]));
  }
}

TEST_CASE("digest pointer: null, the end of an allocation, pinned and managed memory are no faults") {
  const Said said = run(kNamed, [] {
    const CUdeviceptr live = allocate();
    launch("_Z5scalePKfPf", 0, live);
    launch("_Z5scalePKfPf", live + 4096, live);
    launch("plain", live + 4096, 0);
    void* pinned = nullptr;
    OK(cuMemHostAlloc(&pinned, 4096, 0));
    launch("_Z5scalePKfPf", reinterpret_cast<std::uint64_t>(pinned), live);
    launch("_Z5scalePKfPf", reinterpret_cast<std::uint64_t>(pinned) + 4096, live);
    std::vector<char> own(8192);
    OK(cuMemHostRegister(own.data(), own.size(), 0));
    launch("plain", reinterpret_cast<std::uint64_t>(own.data()), live);
    CUdeviceptr managed = 0;
    OK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    launch("plain", managed, managed);
    return expect_fine();
  });
  CHECK(said.errors == 0);
  CHECK(said.strays == 0);
}

TEST_CASE("digest pointer: a launch may use what is freed in stream order after it, and not before it") {
  for (const bool late : {false, true}) {
    const Said said = run(kNamed, [&] {
      const CUstream stream = new_stream();
      CUdeviceptr memory = 0;
      OK(cuMemAllocAsync(&memory, 4096, stream));
      if (!late) launch("_Z5scalePKfPf", memory, memory, stream);
      OK(cuMemFreeAsync(memory, stream));
      if (late) launch("_Z5scalePKfPf", memory, memory, stream);
      return late ? expect_illegal() : expect_fine();
    });
    CHECK(said.errors == (late ? 1 : 0));
    CHECK(contains(said.error, "which was freed") == late);
  }
}

TEST_CASE("digest pointer: memory of the same address that came later is as good as any") {
  const Said said = run(kNamed, [] {
    const CUdeviceptr old = allocate();
    OK(cuMemFree(old));
    const CUdeviceptr memory = allocate();
    EXPECT(memory == old);
    launch("_Z5scalePKfPf", memory, memory);
    return expect_fine();
  });
  CHECK(said.errors == 0);
}

TEST_CASE("digest pointer: freed memory that starts where live memory ends is only possibly meant") {
  for (const std::string& rules : {std::string(), kNamed}) {
    const Said said = run(rules, [] {
      const CUdeviceptr live = allocate();
      const CUdeviceptr neighbour = allocate();
      EXPECT(neighbour == live + 4096);
      OK(cuMemFree(neighbour));
      launch("_Z5scalePKfPf", neighbour, live);
      return expect_fine();
    });
    CHECK(said.strays == 1);
    CHECK(contains(said.warning, " of 4096 bytes, which was freed, parameter 0"));
  }
}

TEST_CASE("digest pointer: mappings count from their cuMemMap to their cuMemUnmap") {
  for (const bool late : {false, true}) {
    const Said said = run(kNamed, [&] {
      const CUdeviceptr base = reserve(kFrame);
      const CUmemGenericAllocationHandle handle = create(kFrame);
      OK(cuMemMap(base, kFrame, 0, handle, 0));
      OK(set_access(base, kFrame, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
      if (late) OK(cuMemUnmap(base, kFrame));
      launch("_Z5scalePKfPf", base + 8, base);
      return late ? expect_illegal() : expect_fine();
    });
    CHECK(contains(said.error, "where nothing is mapped now, parameter 0 (0x") == late);
  }
}

TEST_CASE("digest pointer: of a role that is only inferred it is told once, and the launch goes on") {
  for (const char* name : {"_Z5scalePKfPf", "plain"}) {
    const Said said = run("", [&] {
      const CUdeviceptr live = new_ints(1024);
      const CUdeviceptr gone = freed();
      for (int i = 0; i < 3; ++i) launch(name, gone, live);
      OK(cuCtxSynchronize());
      EXPECT(int_at(live) != 0);
      return 0;
    });
    INFO(said.warning);
    CHECK(said.errors == 0);
    CHECK(said.strays == 3);
    CHECK(said.warnings == 1);
    CHECK(contains(said.warning, "possible illegal address: kernel '"));
    CHECK(contains(said.warning, " of 4096 bytes, which was freed, parameter 0"));
  }
}

TEST_CASE("digest pointer: numbers and addresses of the host are not told where roles are inferred") {
  static int on_host = 0;
  const Said said = run("", [] {
    const CUdeviceptr live = allocate();
    const CUdeviceptr gone = freed(8192);
    launch("_Z6numberPfm", live, gone);
    double number = 1.5;
    std::uint64_t bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    for (const std::uint64_t word :
         {bits, ~std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{live} + (std::uint64_t{1} << 39),
          reinterpret_cast<std::uint64_t>(&on_host)}) {
      launch("plain", word, live);
    }
    // Structures have unused parts.
    launch(Words{{live, gone, gone + 8}});
    return expect_fine();
  });
  CHECK(said.errors == 0);
  CHECK(said.strays == 0);
}

TEST_CASE("digest pointer: a place in a structure that the role file names must hold a device's address") {
  const std::string rules = "kernel struct24\n param 0@8 in\n param 0@16 out\n";
  const Said numbers = run(rules, [] {
    launch(Words{{freed(), 5, 0}});
    return expect_fine();
  });
  CHECK(numbers.strays == 0);
  const Said gone = run(rules, [] {
    launch(Words{{0, 0, freed()}});
    return expect_illegal();
  });
  CHECK(contains(gone.error, "' wrote 0x"));
  CHECK(contains(gone.error, ", parameter 0 at byte 16 (0x"));
}

TEST_CASE("digest pointer: a role file that names parameters which the kernel lacks is told once") {
  const Said said = run("kernel plain\n param 1 in\n param 2 out\n value 4\nkernel _Z6*\n param 1 in\n", [] {
    const CUdeviceptr live = allocate();
    for (int i = 0; i < 2; ++i) launch("plain", live, live);
    launch("_Z6numberPfm", live, 3);
    return expect_fine();
  });
  INFO(said.warning);
  CHECK(said.warnings == 1);
  CHECK(contains(said.warning, "warning: role file /tmp/simgpu_roles_"));
  CHECK(contains(said.warning,
                 ":4 names parameter 2 (1 more line of its rule does) of kernel 'plain', which "
                 "has parameters 0 to 1: "));
}
