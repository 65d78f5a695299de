// Processes of one machine: what they share of the device's memory. Documentation: CUDA Driver API, pages
// "Virtual Memory Management" (shareable handles) and "IPC".

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "tests/simgpu/processes.h"

namespace {

using namespace simgpu_test;

void send_descriptor(int socket, int descriptor) {
  char byte = 'd';
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  EXPECT(::sendmsg(socket, &message, 0) == 1);
}

int receive_descriptor(int socket) {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  EXPECT(::recvmsg(socket, &message, 0) == 1);
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
  return descriptor;
}

CUmemAllocationProp shareable() {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return prop;
}

CUmemGenericAllocationHandle create(std::size_t size, const CUmemAllocationProp& prop = shareable()) {
  CUmemGenericAllocationHandle handle = 0;
  OK(cuMemCreate(&handle, size, &prop, 0));
  return handle;
}

CUdeviceptr map(CUmemGenericAllocationHandle handle, std::size_t size) {
  CUdeviceptr address = 0;
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  OK(cuMemAddressReserve(&address, size, 0, 0, 0));
  OK(cuMemMap(address, size, 0, handle, 0));
  OK(cuMemSetAccess(address, size, &access, 1));
  return address;
}

unsigned first_word(CUdeviceptr address) {
  unsigned value = 0;
  OK(cuMemcpyDtoH(&value, address, sizeof value));
  return value;
}

int export_of(CUmemGenericAllocationHandle handle) {
  int descriptor = -1;
  OK(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  return descriptor;
}

CUresult import_of(CUmemGenericAllocationHandle* out, int descriptor) {
  return cuMemImportFromShareableHandle(out, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

std::uint64_t used() {
  std::size_t free = 0;
  std::size_t total = 0;
  OK(cuMemGetInfo(&free, &total));
  return total - free;
}

}  // namespace

TEST_CASE("sharing: the capacity is one for all processes, and a killed one gives its part back") {
  Processes processes;
  const pid_t holder = processes.start(0, [](int socket) {
    create(60 * kMiB);
    say(socket);
    heard(socket);
  });
  const pid_t other = processes.start(1, [&](int socket) {
    EXPECT(heard(socket));
    EXPECT(used() == 60 * kMiB);
    CUmemGenericAllocationHandle handle = 0;
    const CUmemAllocationProp prop = shareable();
    EXPECT_RESULT(cuMemCreate(&handle, 6 * kMiB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemCreate(&handle, 4 * kMiB, &prop, 0));
    ::kill(holder, SIGKILL);
    while (heard(socket)) {
    }
    OK(cuMemCreate(&handle, 60 * kMiB, &prop, 0));
    EXPECT(used() == 64 * kMiB);
  });
  REQUIRE(ended(other) == 0);
  REQUIRE(ended(holder) == -SIGKILL);
  REQUIRE(processes.machine().memory[0].use.peak.load() == 64 * kMiB);
}

TEST_CASE("sharing: a descriptor carries memory to another process and outlives its maker") {
  Processes processes;
  const pid_t maker = processes.start(0, [](int socket) {
    const CUmemGenericAllocationHandle handle = create(4 * kMiB);
    const CUdeviceptr address = map(handle, 4 * kMiB);
    OK(cuMemsetD32(address, 0x600df00dU, kMiB));
    OK(cuCtxSynchronize());
    send_descriptor(socket, export_of(handle));
  });
  const pid_t taker = processes.start(1, [&](int socket) {
    const int descriptor = receive_descriptor(socket);
    while (heard(socket)) {
    }
    EXPECT(used() == 4 * kMiB);
    create(60 * kMiB);
    CUmemGenericAllocationHandle handle = 0;
    OK(import_of(&handle, descriptor));
    EXPECT(::close(descriptor) == 0);
    const CUdeviceptr address = map(handle, 4 * kMiB);
    EXPECT(first_word(address) == 0x600df00dU);
    EXPECT(used() == 64 * kMiB);
    OK(cuMemUnmap(address, 4 * kMiB));
    EXPECT(used() == 64 * kMiB);
    OK(cuMemRelease(handle));
    EXPECT(used() == 60 * kMiB);
  });
  REQUIRE(ended(maker) == 0);
  REQUIRE(ended(taker) == 0);
}

TEST_CASE("sharing: memory that only a descriptor holds counts until it is closed") {
  REQUIRE(on_device({}, [] {
            const CUmemGenericAllocationHandle handle = create(8 * kMiB);
            const int descriptor = export_of(handle);
            const int copy = ::dup(descriptor);
            OK(cuMemRelease(handle));
            ::close(descriptor);
            EXPECT(used() == 8 * kMiB);
            ::close(copy);
            EXPECT(used() == 0);
            CUmemGenericAllocationHandle all = create(64 * kMiB);
            OK(cuMemRelease(all));
            return 0;
          }) == 0);
}

TEST_CASE("sharing: only memory that was made for it can be exported, and only descriptors of it imported") {
  REQUIRE(on_device({}, [] {
            CUmemAllocationProp prop = shareable();
            prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
            const CUmemGenericAllocationHandle handle = create(2 * kMiB, prop);
            int descriptor = -1;
            EXPECT_RESULT(cuMemExportToShareableHandle(&descriptor, handle,
                                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                          CUDA_ERROR_INVALID_VALUE);
            EXPECT_RESULT(cuMemExportToShareableHandle(&descriptor, handle + 77,
                                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                          CUDA_ERROR_INVALID_VALUE);
            EXPECT(descriptor == -1);
            CUmemGenericAllocationHandle imported = 0;
            EXPECT_RESULT(import_of(&imported, 0), CUDA_ERROR_INVALID_VALUE);
            EXPECT_RESULT(import_of(&imported, 987), CUDA_ERROR_INVALID_VALUE);
            return 0;
          }) == 0);
}

TEST_CASE("sharing: memory imported in its own process is the same memory and is released as often") {
  REQUIRE(on_device({}, [] {
            const CUmemGenericAllocationHandle handle = create(2 * kMiB);
            const CUdeviceptr first = map(handle, 2 * kMiB);
            const int descriptor = export_of(handle);
            CUmemGenericAllocationHandle again = 0;
            OK(import_of(&again, descriptor));
            ::close(descriptor);
            const CUdeviceptr second = map(again, 2 * kMiB);
            OK(cuMemsetD32(first, 7, 1));
            OK(cuCtxSynchronize());
            EXPECT(first_word(second) == 7);
            OK(cuMemRelease(handle));
            OK(cuMemUnmap(first, 2 * kMiB));
            EXPECT(first_word(second) == 7);
            OK(cuMemUnmap(second, 2 * kMiB));
            EXPECT(used() == 2 * kMiB);
            OK(cuMemRelease(again));
            EXPECT(used() == 0);
            return 0;
          }) == 0);
}

TEST_CASE("sharing: an IPC handle opens a plain allocation of another process") {
  Processes processes;
  const pid_t owner = processes.start(0, [](int socket) {
    CUdeviceptr filler = 0;
    CUdeviceptr address = 0;
    OK(cuMemAlloc(&filler, 4096));
    OK(cuMemAlloc(&address, 4096));
    OK(cuMemsetD32(address, 41, 1024));
    OK(cuCtxSynchronize());
    CUipcMemHandle handle{};
    OK(cuIpcGetMemHandle(&handle, address));
    EXPECT_RESULT(cuIpcOpenMemHandle(&filler, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
                  CUDA_ERROR_INVALID_CONTEXT);
    EXPECT(::write(socket, &handle, sizeof handle) == sizeof handle);
    EXPECT(heard(socket));
    EXPECT(first_word(address) == 42);
    OK(cuMemFree(address));
    say(socket);
    heard(socket);
  });
  const pid_t user = processes.start(1, [](int socket) {
    CUipcMemHandle handle{};
    EXPECT(::read(socket, &handle, sizeof handle) == sizeof handle);
    CUdeviceptr address = 0;
    CUdeviceptr again = 0;
    EXPECT_RESULT(cuIpcOpenMemHandle(&address, handle, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuIpcOpenMemHandle(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    OK(cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    EXPECT(again == address);
    EXPECT(first_word(address) == 41);
    std::size_t size = 0;
    OK(cuMemGetAddressRange(nullptr, &size, address));
    EXPECT(size == 4096);
    EXPECT_RESULT(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemsetD32(address, 42, 1));
    OK(cuCtxSynchronize());
    OK(cuIpcCloseMemHandle(address));
    EXPECT(first_word(address) == 42);
    OK(cuIpcCloseMemHandle(address));
    EXPECT_RESULT(cuIpcCloseMemHandle(address), CUDA_ERROR_INVALID_VALUE);
    say(socket);
    EXPECT(heard(socket));
    CUipcMemHandle other{};
    EXPECT_RESULT(cuIpcOpenMemHandle(&address, other, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
                  CUDA_ERROR_INVALID_VALUE);
  });
  REQUIRE(ended(user) == 0);
  REQUIRE(ended(owner) == 0);
}

TEST_CASE("sharing: processes that come and go by the hundred leave nothing behind") {
  Processes processes;
  for (int round = 0; round < 150; ++round) {
    const bool kill = round % 3 == 0;
    const pid_t child = processes.start(0, [kill](int) {
      const CUdeviceptr address = map(create(40 * kMiB), 40 * kMiB);
      OK(cuMemsetD32(address, 1, 1));
      if (kill) ::raise(SIGKILL);
    });
    REQUIRE(ended(child) == (kill ? -SIGKILL : 0));
  }
  REQUIRE(processes.machine().process_count.load() == 150);
  REQUIRE(processes.machine().memory[0].use.peak.load() <= 64 * kMiB);
}

TEST_CASE("sharing: memory that is opened again while its last close waits stays open") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    INFO("seed " << seed);
    Processes processes(small_machine(seed));
    const pid_t owner = processes.start(0, [](int socket) {
      CUdeviceptr address = 0;
      OK(cuMemAlloc(&address, 4 * kMiB));
      OK(cuMemsetD8(address, 7, 4 * kMiB));
      OK(cuCtxSynchronize());
      CUipcMemHandle handle{};
      OK(cuIpcGetMemHandle(&handle, address));
      EXPECT(::write(socket, &handle, sizeof handle) == sizeof handle);
      heard(socket);
    });
    const pid_t user = processes.start(1, [](int socket) {
      enum Phase { kOpen, kClosing, kOpenAgain };
      static std::atomic<Phase> phase{kOpen};
      ::alarm(20);
      CUipcMemHandle handle{};
      EXPECT(::read(socket, &handle, sizeof handle) == sizeof handle);
      CUcontext context = nullptr;
      CUdeviceptr address = 0;
      CUdeviceptr again = 0;
      OK(cuCtxGetCurrent(&context));
      OK(cuIpcOpenMemHandle(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
      std::thread other([&] {
        while (phase != kClosing) std::this_thread::yield();
        OK(cuCtxSetCurrent(context));
        OK(cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        phase = kOpenAgain;
      });
      CUstream stream = nullptr;
      OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
      const auto wait = [](void*) {
        phase = kClosing;
        while (phase != kOpenAgain) std::this_thread::yield();
      };
      OK(cuLaunchHostFunc(stream, wait, nullptr));
      OK(cuIpcCloseMemHandle(address));
      other.join();
      EXPECT(first_word(again) == 0x07070707);
      OK(cuIpcCloseMemHandle(again));
      EXPECT_RESULT(cuIpcCloseMemHandle(again), CUDA_ERROR_INVALID_VALUE);
    });
    REQUIRE(ended(user) == 0);
    REQUIRE(ended(owner) == 0);
  }
}

TEST_CASE("sharing: who waits for the event of a process does not hold that process up") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    INFO("seed " << seed);
    Processes processes(small_machine(seed));
    const auto begin = std::chrono::steady_clock::now();
    const pid_t recorder = processes.start(0, [](int socket) {
      CUevent event = nullptr;
      CUipcEventHandle handle{};
      CUdeviceptr address = 0;
      CUstream streams[2] = {};
      OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
      OK(cuIpcGetEventHandle(&handle, event));
      OK(cuMemAlloc(&address, kMiB));
      for (CUstream& stream : streams) OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
      OK(cuEventRecord(event, streams[0]));
      EXPECT(::write(socket, &handle, sizeof handle) == sizeof handle);
      EXPECT(heard(socket));
      for (int i = 0; i < 20; ++i) {
        OK(cuMemsetD8Async(address, 1, kMiB, streams[1]));
        OK(cuStreamSynchronize(streams[1]));
      }
    });
    const pid_t waiter = processes.start(1, [](int socket) {
      CUipcEventHandle handle{};
      CUevent event = nullptr;
      EXPECT(::read(socket, &handle, sizeof handle) == sizeof handle);
      OK(cuIpcOpenEventHandle(&event, handle));
      say(socket);
      OK(cuEventSynchronize(event));
    });
    REQUIRE(ended(waiter) == 0);
    REQUIRE(ended(recorder) == 0);
    // It stood for 20 s. Escapes are not counted here: a slow machine has some at the start of a process.
    REQUIRE(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
  }
}
