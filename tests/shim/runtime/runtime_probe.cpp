// A program with a CUDA runtime of version 12, and libraries with the same, another or none. Run by
// runtime_door_test.cpp, one case per process: `runtime_probe CASE FOLDER`.

#include <csetjmp>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tests/shim/own_page.h"
#include "tests/shim/probe.h"
#include "tests/shim/runtime/fake_runtime.h"

#define TP_TEST_PROGRAM
#include "tests/shim/runtime/runtime_user.h"

namespace tidepool::test {
namespace {

constexpr int kAllocs = 8;
constexpr int kFrees = 3;
const char* const kAllocNames[kAllocs] = {"cudaMalloc",
                                          "cudaMallocPitch",
                                          "cudaMalloc3D",
                                          "cudaMallocManaged",
                                          "cudaMallocAsync",
                                          "cudaMallocAsync_ptsz",
                                          "cudaMallocFromPoolAsync",
                                          "cudaMallocFromPoolAsync_ptsz"};
const char* const kFreeNames[kFrees] = {"cudaFree", "cudaFreeAsync", "cudaFreeAsync_ptsz"};

std::string g_folder;

void* open_in_folder(const char* name) {
  void* const handle = dlopen((g_folder + "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) std::fprintf(stderr, "%s\n", dlerror());
  EXPECT(handle != nullptr);
  return handle;
}

/// Whoever allocates, and the runtime that he is linked against.
struct User {
  decltype(&tp_test_user_alloc) alloc;
  decltype(&tp_test_user_free) release;
  RuntimeCall (*last)();
  void (*inside)(void (*)());
};

User user_of(void* library, const char* runtime) {
  void* const handle = dlopen(runtime, RTLD_NOW | RTLD_NOLOAD);
  EXPECT(handle != nullptr);
  User user{};
  user.alloc = &tp_test_user_alloc;
  user.release = &tp_test_user_free;
  if (library != nullptr) {
    user.alloc = reinterpret_cast<decltype(user.alloc)>(dlsym(library, "tp_test_user_alloc"));
    user.release = reinterpret_cast<decltype(user.release)>(dlsym(library, "tp_test_user_free"));
  }
  user.last = reinterpret_cast<decltype(user.last)>(dlsym(handle, "tp_test_runtime_last"));
  user.inside = reinterpret_cast<decltype(user.inside)>(dlsym(handle, "tp_test_runtime_inside"));
  return user;
}
User the_program() {
  return user_of(nullptr, "libcudart.so.12");
}

CUdeviceptr address_of(void* at) {
  return reinterpret_cast<CUdeviceptr>(at);
}

bool is_drivers_memory(void* at) {
  int capable = 7;
  EXPECT(DRIVER(cuPointerGetAttribute)(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                       address_of(at)) == CUDA_SUCCESS);
  return capable == 1;
}

/// Every function reaches the user's own runtime with its arguments, and the memory is whose it should be.
void expect_own_runtime(const User& user, bool is_library) {
  int stream = 0;
  for (int which = 0; which < kAllocs; ++which) {
    void* at = nullptr;
    EXPECT(user.alloc(which, &at, 6 * kMiB, &stream) == 0);
    EXPECT(user.last().name == std::string_view(kAllocNames[which]));
    EXPECT(which < 4 || user.last().stream == &stream);
    EXPECT(is_drivers_memory(at) == is_library);
    const int release = which % kFrees;
    EXPECT(user.release(release, at, &stream) == 0);
    EXPECT(user.last().name == std::string_view(kFreeNames[release]));
    EXPECT(release == 0 || user.last().stream == &stream);
  }
  EXPECT(own_page_value("library_bytes") == 0);
}

void two_runtimes() {
  start();
  expect_own_runtime(the_program(), false);
  expect_own_runtime(user_of(open_in_folder("libsame_user.so"), "libcudart.so.12"), false);
  expect_own_runtime(user_of(open_in_folder("libother_user.so"), "libcudart.so.11.0"), false);
  expect_own_runtime(user_of(open_in_folder("libcudnn_user.so"), "libcudart.so.12"), true);
  expect_own_runtime(user_of(open_in_folder("libcublas_user.so"), "libcudart.so.11.0"), true);
  expect_own_runtime(the_program(), false);
}

// A library that is not linked against any runtime finds the one that the loader would have given it.
void no_runtime_of_its_own() {
  start();
  expect_own_runtime(user_of(open_in_folder("libbare_user.so"), "libcudart.so.12"), false);
}

// Libraries go with their runtime, and others come to where they were.
void reloaded() {
  start();
  for (int round = 0; round < 12; ++round) {
    const bool is_library = round % 3 == 0;
    void* const library = open_in_folder(is_library ? "libcublas_user.so" : "libother_user.so");
    expect_own_runtime(user_of(library, "libcudart.so.11.0"), is_library);
    // Closes what user_of() has opened as well.
    void* const runtime = dlopen("libcudart.so.11.0", RTLD_NOW | RTLD_NOLOAD);
    EXPECT(dlclose(runtime) == 0 && dlclose(runtime) == 0 && dlclose(library) == 0);
    EXPECT(dlopen("libcudart.so.11.0", RTLD_NOW | RTLD_NOLOAD) == nullptr);
  }
}

// More modules than are remembered: each call reaches its own runtime all the same, also the second time.
void many_modules() {
  start();
  const std::string original = g_folder + "/libother_user.so";
  std::string folder = "/tmp/runtime-users-XXXXXX";
  EXPECT(mkdtemp(folder.data()) != nullptr);
  std::vector<User> users;
  constexpr int kModules = 512 / (kAllocs + kFrees) + 2;
  for (int i = 0; i < kModules; ++i) {
    const std::string copy = folder + "/lib" + std::to_string(i) + ".so";
    std::filesystem::copy(original, copy);
    users.push_back(user_of(dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL), "libcudart.so.11.0"));
  }
  std::filesystem::remove_all(folder);
  for (int round = 0; round < 2; ++round) {
    for (const User& user : users) expect_own_runtime(user, false);
  }
}

jmp_buf g_out;
User g_library;
void* g_nested = nullptr;

// What a call left behind counts for nothing; what is inside another is of the outer one.
void marks() {
  start();
  const User program = the_program();
  const User library = user_of(open_in_folder("libcudnn_user.so"), "libcudart.so.12");
  void* at = nullptr;
  // A failed call leaves no mark.
  EXPECT(library.alloc(0, &at, kTooMuch + 1, nullptr) == 2);
  EXPECT(DRIVER(cuMemAlloc_v2)(reinterpret_cast<CUdeviceptr*>(&at), 4 * kMiB) == CUDA_SUCCESS);
  EXPECT(!is_drivers_memory(at));
  // Nor does one that is left by longjmp.
  library.inside([] { longjmp(g_out, 1); });
  if (setjmp(g_out) == 0) {
    (void)library.alloc(0, &at, 4 * kMiB, nullptr);
    EXPECT(false);
  }
  library.inside(nullptr);
  EXPECT(program.alloc(0, &at, 4 * kMiB, nullptr) == 0 && !is_drivers_memory(at));
  EXPECT(library.alloc(0, &at, 4 * kMiB, nullptr) == 0 && is_drivers_memory(at));
  EXPECT(program.alloc(0, &at, 4 * kMiB, nullptr) == 0 && !is_drivers_memory(at));
  // An allocation that the library's runtime makes through somebody else is the library's.
  library.inside([] {
    g_library.inside(nullptr);
    EXPECT(tp_test_user_alloc(0, &g_nested, 4 * kMiB, nullptr) == 0);
  });
  g_library = library;
  EXPECT(library.alloc(0, &at, 4 * kMiB, nullptr) == 0);
  EXPECT(is_drivers_memory(at) && is_drivers_memory(g_nested));
}

void expect_no_frame(const User& user, const char* module) {
  void* at = nullptr;
  for (int which = 0; which < kAllocs; ++which) {
    int stream = 0;
    EXPECT(user.alloc(which, &at, 6 * kMiB, &stream) == 0);
    EXPECT(user.last().name == std::string_view(kAllocNames[which]));
    EXPECT(which < 4 || user.last().stream == &stream);
    EXPECT(std::strstr(user.last().caller, module) != nullptr);
    EXPECT(user.release(which % kFrees, at, &stream) == 0);
    EXPECT(user.last().name == std::string_view(kFreeNames[which % kFrees]));
    EXPECT(std::strstr(user.last().caller, module) != nullptr);
  }
}

// Switched off, every runtime sees the caller itself, as without the library.
void disabled() {
  start();
  expect_no_frame(the_program(), "runtime_probe");
  expect_no_frame(user_of(open_in_folder("libother_user.so"), "libcudart.so.11.0"), "libother_user");
  expect_no_frame(user_of(open_in_folder("libcudnn_user.so"), "libcudart.so.12"), "libcudnn_user");
}

// What NCCL is given is there when its kernels come to it, and stays.
void nccl() {
  using AllReduce = int(const void*, void*, std::size_t, int, int, void*, CUstream);
  using Reduce = int(const void*, void*, std::size_t, int, int, int, void*, CUstream);
  start();
  void* const library = open_in_folder("libnccl.so.2");
  const auto all_reduce = reinterpret_cast<AllReduce*>(dlsym(library, "ncclAllReduce"));
  const auto reduce = reinterpret_cast<Reduce*>(dlsym(library, "ncclReduce"));
  EXPECT(is_hook(reinterpret_cast<const void*>(all_reduce)) && dlsym(library, "ncclSend") == nullptr);
  EXPECT(is_hook(dlsym(RTLD_DEFAULT, "ncclAllReduce")) == false);  // its owner keeps it to himself
  std::vector<CUdeviceptr> blocks(12);
  const auto touch_all = [&] {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      EXPECT(DRIVER(cuMemsetD8_v2)(blocks[i], static_cast<unsigned char>(i + 1), 4 * kMiB) == CUDA_SUCCESS);
    }
  };
  for (CUdeviceptr& block : blocks) EXPECT(DRIVER(cuMemAlloc_v2)(&block, 4 * kMiB) == CUDA_SUCCESS);
  touch_all();
  const auto pointer = [&](std::size_t i) { return reinterpret_cast<void*>(blocks[i] + 1000); };
  const auto expect_byte = [&](std::size_t i, unsigned char wanted) {
    unsigned char byte = 0;
    EXPECT(DRIVER(cuMemcpyDtoH_v2)(&byte, blocks[i] + 1100, 1) == CUDA_SUCCESS && byte == wanted);
  };
  // The first two have left the device by now.
  EXPECT(all_reduce(pointer(0), pointer(1), 4096, 0, 0, nullptr, nullptr) == 0);
  EXPECT(DRIVER(cuCtxSynchronize)() == CUDA_SUCCESS);
  expect_byte(1, 1);
  int comm = 0;
  EXPECT(reduce(pointer(11), pointer(1), 4096, 1, 2, 3, &comm, nullptr) == 0);
  EXPECT(DRIVER(cuCtxSynchronize)() == CUDA_SUCCESS);
  expect_byte(1, 12);
  // They stay while others come and go, for a queue that NCCL reads later.
  touch_all();
  EXPECT(DRIVER(cuCtxSynchronize)() == CUDA_SUCCESS);
  for (const CUdeviceptr block : blocks) EXPECT(DRIVER(cuMemFree_v2)(block) == CUDA_SUCCESS);
  // A buffer that this rank does not use may be anything.
  using Broadcast = int(const void*, void*, std::size_t, int, int, void*, CUstream);
  const auto broadcast = reinterpret_cast<Broadcast*>(dlsym(library, "ncclBroadcast"));
  void* const nothing = reinterpret_cast<void*>(blocks[0] + 5 * kMiB);  // between two blocks
  EXPECT(broadcast(pointer(0), nothing, 4096, 0, 0, nullptr, nullptr) == 0);
}

// Another preloaded library with the same functions, behind ours or in front of it, is passed as ever.
void other_preload() {
  start();
  const auto count = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "tp_test_preload_count"));
  EXPECT(count != nullptr);
  void* at = nullptr;
  EXPECT(the_program().alloc(0, &at, 4 * kMiB, nullptr) == 0 && count() == 1);
  EXPECT(!is_drivers_memory(at));
  const User library = user_of(open_in_folder("libother_user.so"), "libcudart.so.11.0");
  EXPECT(library.alloc(0, &at, 4 * kMiB, nullptr) == 0 && count() == 2);
}

}  // namespace
}  // namespace tidepool::test

int main(int argc, char** argv) {
  using namespace tidepool::test;  // this file is the program
  const std::string_view which = argc == 3 ? argv[1] : "";
  if (argc == 3) g_folder = argv[2];
  if (which == "two_runtimes")
    two_runtimes();
  else if (which == "no_runtime_of_its_own")
    no_runtime_of_its_own();
  else if (which == "reloaded")
    reloaded();
  else if (which == "many_modules")
    many_modules();
  else if (which == "marks")
    marks();
  else if (which == "disabled")
    disabled();
  else if (which == "nccl")
    nccl();
  else if (which == "other_preload")
    other_preload();
  else
    return 2;
  std::puts("as expected");
  return 0;
}
