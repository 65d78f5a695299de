#include "allocator/cuda/content_hasher.h"

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "allocator/support/content_hash_kernel.h"

/// The hasher over a driver that fails where it is told to. What the hashes are is judged by tests/contract.
namespace tidepool::runtime {
namespace {

constexpr CUdeviceptr kMemory = 0x7000'0000;
constexpr CUdeviceptr kSlots = kMemory + sizeof(HashControl);

/// What the stand-in driver was asked, and which call it refuses. One driver in this program.
struct Script {
  std::string_view fails;
  CUresult with = CUDA_ERROR_UNKNOWN;
  int resident_blocks = 6;
  std::atomic<int> modules{0}, launches{0}, copies{0}, events{0}, waits{0}, records{0};
  std::atomic<int> in_use[kHashSlots] = {};
  std::atomic<bool> shared{false};  ///< a slot was launched into while another thread had it
  unsigned grid = 0;
  std::vector<CUdeviceptr> launched;  ///< one thread only
  bool note = true;
};
Script* g_script = nullptr;

CUresult answer(std::string_view call) {
  return g_script->fails == call ? g_script->with : CUDA_SUCCESS;
}
unsigned slot_of(CUdeviceptr at) {
  return static_cast<unsigned>((at - kSlots) / sizeof(HashSlot));
}
thread_local unsigned t_slot = 0;

CUresult get_attribute(int* value, CUdevice_attribute, CUdevice) {
  *value = 10;
  return answer("attribute");
}
CUresult load_data(CUmodule* module, const void* image) {
  REQUIRE(image != nullptr);
  if (answer("load") != CUDA_SUCCESS) return answer("load");
  ++g_script->modules;
  *module = reinterpret_cast<CUmodule>(std::uintptr_t{1});
  return CUDA_SUCCESS;
}
CUresult get_function(CUfunction* function, CUmodule, const char* name) {
  REQUIRE(std::string_view(name) == kHashKernelName);
  *function = reinterpret_cast<CUfunction>(std::uintptr_t{2});
  return answer("function");
}
CUresult occupancy(int* blocks, CUfunction, int threads, std::size_t) {
  REQUIRE(threads == static_cast<int>(HashContent::kThreads));
  *blocks = g_script->resident_blocks;
  return answer("occupancy");
}
CUresult create_event(CUevent* event, unsigned flags) {
  REQUIRE(flags == CU_EVENT_DISABLE_TIMING);
  if (answer("event") != CUDA_SUCCESS) return answer("event");
  *event = reinterpret_cast<CUevent>(static_cast<std::uintptr_t>(++g_script->events));
  return CUDA_SUCCESS;
}
CUresult wait_event(CUstream, CUevent event, unsigned) {
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  ++g_script->waits;
  return answer("wait");
}
CUresult launch(CUfunction, unsigned grid, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                CUstream, void** params, void**) {
  if (answer("launch") != CUDA_SUCCESS) return answer("launch");
  ++g_script->launches;
  const CUdeviceptr at = *static_cast<CUdeviceptr*>(params[2]);
  t_slot = slot_of(at);
  if (g_script->in_use[t_slot].fetch_add(1) != 0) g_script->shared = true;
  if (g_script->note) {
    g_script->grid = grid;
    g_script->launched.push_back(at);
  }
  return CUDA_SUCCESS;
}
CUresult copy(void*, CUdeviceptr from, std::size_t bytes, CUstream) {
  if (from != kSlots + t_slot * sizeof(HashSlot) + offsetof(HashSlot, hash)) return CUDA_ERROR_INVALID_VALUE;
  if (bytes != sizeof(ContentHash)) return CUDA_ERROR_INVALID_VALUE;
  if (answer("copy") != CUDA_SUCCESS) return answer("copy");
  ++g_script->copies;
  return CUDA_SUCCESS;
}
CUresult record_event(CUevent, CUstream) {
  --g_script->in_use[t_slot];
  if (answer("record") != CUDA_SUCCESS) return answer("record");
  ++g_script->records;
  return CUDA_SUCCESS;
}

struct Fixture {
  Script script;
  DriverTable driver;
  ContentHasher hasher{driver};
  std::array<unsigned char, sizeof(ContentHash)> host{};

  Fixture() {
    g_script = &script;
    driver.cuDeviceGetAttribute = &get_attribute;
    driver.cuModuleLoadData = &load_data;
    driver.cuModuleGetFunction = &get_function;
    driver.cuOccupancyMaxActiveBlocksPerMultiprocessor = &occupancy;
    driver.cuEventCreate = &create_event;
    driver.cuStreamWaitEvent = &wait_event;
    driver.cuLaunchKernel = &launch;
    driver.cuMemcpyDtoHAsync_v2 = &copy;
    driver.cuEventRecord = &record_event;
  }
  Status load() { return hasher.load(0, kMemory); }
  Status hash(std::size_t size = 1 << 20) { return hasher.hash(host.data(), 0x1000, size, 7, nullptr); }
};

}  // namespace

TEST_CASE("hasher: each call that fails while loading is the answer, for good") {
  for (const std::string_view call : {"attribute", "load", "function", "occupancy"}) {
    INFO(call);
    Fixture f;
    f.script.fails = call;
    f.script.with = CUDA_ERROR_NO_BINARY_FOR_GPU;
    CHECK(f.load() == Status(CUDA_ERROR_NO_BINARY_FOR_GPU));
    f.script.fails = "";
    CHECK(f.load() == Status(CUDA_ERROR_NO_BINARY_FOR_GPU));
    CHECK(f.hash() == kNotSupported);
    CHECK(f.script.launches == 0);
  }
}

TEST_CASE("hasher: out of memory while loading may be tried again, and loads once") {
  for (const std::string_view call : {"load", "function", "occupancy"}) {
    INFO(call);
    Fixture f;
    f.script.fails = call;
    f.script.with = CUDA_ERROR_OUT_OF_MEMORY;
    CHECK(f.load() == kOutOfMemory);
    CHECK(f.hash() == kNotSupported);
    CHECK(f.load() == kOutOfMemory);
    f.script.fails = "";
    CHECK(f.load().ok());
    CHECK(f.load().ok());
    CHECK(f.hash().ok());
    CHECK(f.script.modules == 1);
  }
}

TEST_CASE("hasher: a driver whose answers are of no use is not used") {
  Fixture none;
  none.script.resident_blocks = 0;
  CHECK(none.load() == kNotSupported);
}

TEST_CASE("hasher: the grid is as large as the data needs and the device holds") {
  Fixture f;
  REQUIRE(f.load().ok());
  REQUIRE(f.hash(1).ok());
  CHECK(f.script.grid == 1);
  REQUIRE(f.hash(16'384).ok());
  CHECK(f.script.grid == 1);
  REQUIRE(f.hash(16'385).ok());
  CHECK(f.script.grid == 2);
  REQUIRE(f.hash(std::size_t{1} << 40).ok());
  CHECK(f.script.grid == 10 * 6);
}

TEST_CASE("hasher: slots follow each other, and each waits for the hash before it") {
  Fixture f;
  REQUIRE(f.load().ok());
  for (unsigned i = 0; i < 2 * kHashSlots; ++i) REQUIRE(f.hash().ok());
  const std::set<CUdeviceptr> distinct(f.script.launched.begin(), f.script.launched.begin() + kHashSlots);
  CHECK(distinct.size() == kHashSlots);
  CHECK(f.script.launched[kHashSlots] == f.script.launched[0]);
  CHECK(f.script.events == static_cast<int>(kHashSlots));
  CHECK(f.script.waits == static_cast<int>(2 * kHashSlots));
  CHECK(f.script.records == static_cast<int>(2 * kHashSlots));
}

TEST_CASE("hasher: what fails before the launch leaves the slot as it was") {
  for (const std::string_view call : {"event", "wait", "launch"}) {
    INFO(call);
    Fixture f;
    REQUIRE(f.load().ok());
    f.script.fails = call;
    for (unsigned i = 0; i < 2 * kHashSlots; ++i) REQUIRE(f.hash() == kUnknownError);
    f.script.fails = "";
    for (unsigned i = 0; i < kHashSlots; ++i) REQUIRE(f.hash().ok());
  }
}

TEST_CASE("hasher: a copy that fails is told, and the slot goes on behind its launch") {
  Fixture f;
  REQUIRE(f.load().ok());
  f.script.fails = "copy";
  for (unsigned i = 0; i < 2 * kHashSlots; ++i) REQUIRE(f.hash() == kUnknownError);
  f.script.fails = "";
  for (unsigned i = 0; i < kHashSlots; ++i) REQUIRE(f.hash().ok());
}

TEST_CASE("hasher: a slot whose end nothing tells of is never used again") {
  Fixture f;
  REQUIRE(f.load().ok());
  f.script.fails = "record";
  for (unsigned i = 0; i < kHashSlots; ++i) REQUIRE(f.hash() == kUnknownError);
  f.script.fails = "";
  CHECK(f.hash() == kNotReady);
  CHECK(f.script.launches == static_cast<int>(kHashSlots));
}

TEST_CASE("hasher: threads never share a slot, and load once") {
  Fixture f;
  f.script.note = false;
  std::atomic<int> hashed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      while (f.hasher.load(0, kMemory) == kNotReady) std::this_thread::yield();
      for (int i = 0; i < 2000; ++i) hashed += f.hash().ok() ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(f.script.modules == 1);
  CHECK(hashed == 4 * 2000);
  CHECK_FALSE(f.script.shared);
}

}  // namespace tidepool::runtime
