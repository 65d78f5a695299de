// Memory and events shared between processes: descriptors of handles, and the older IPC handles.

#include <fcntl.h>
#include <unistd.h>

#include "tests/conformance/device.h"

#define VMM "CUDA Driver API, Virtual Memory Management: "
#define IPC "CUDA Driver API, Memory Management: "
#define IPC_EVENT "CUDA Driver API, Event Management: "

namespace conformance {
namespace {

constexpr auto kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

std::size_t prepare() {
  use_device();
  need(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, "export of memory as a descriptor");
  return granularity();
}

int export_memory(CUmemGenericAllocationHandle handle) {
  int fd = -1;
  OK(CU(cuMemExportToShareableHandle)(&fd, handle, kDescriptor, 0));
  return fd;
}

CUmemGenericAllocationHandle import_memory(int fd) {
  CUmemGenericAllocationHandle handle = 0;
  OK(CU(cuMemImportFromShareableHandle)(&handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
                                        kDescriptor));
  return handle;
}

CUdeviceptr mapped(CUmemGenericAllocationHandle handle, std::size_t bytes) {
  const CUdeviceptr base = reserve(bytes);
  map_memory(base, bytes, handle);
  return base;
}

void need_ipc() {
  use_device();
  need(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, "IPC handles");
}

CUipcMemHandle handle_of(CUdeviceptr memory) {
  CUipcMemHandle handle{};
  OK(CU(cuIpcGetMemHandle)(&handle, memory));
  return handle;
}

CUdeviceptr open_memory(const CUipcMemHandle& handle) {
  CUdeviceptr base = 0;
  OK(CU(cuIpcOpenMemHandle)(&base, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  return base;
}

}  // namespace

CASE("share.export_must_have_been_asked_for", VMM "cuMemExportToShareableHandle, cuMemCreate") {
  const std::size_t unit = prepare();
  int fd = -1;
  REFUSES(CU(cuMemExportToShareableHandle)(&fd, create_memory(unit), kDescriptor, 0),
          CUDA_ERROR_INVALID_VALUE);
}

CASE("share.export_flags_must_be_zero", VMM "cuMemExportToShareableHandle") {
  const std::size_t unit = prepare();
  int fd = -1;
  REFUSES(CU(cuMemExportToShareableHandle)(&fd, create_memory(unit, true), kDescriptor, 1),
          CUDA_ERROR_INVALID_VALUE);
}

CASE("share.import_in_the_same_process_is_the_same_memory", VMM "cuMemImportFromShareableHandle") {
  const std::size_t unit = prepare();
  const auto handle = create_memory(unit, true);
  const CUdeviceptr one = mapped(handle, unit);
  const int fd = export_memory(handle);
  const auto imported = import_memory(fd);
  OK(::close(fd));
  const CUdeviceptr two = mapped(imported, unit);
  fill(one, 64, 3);
  EXPECT_WORDS(two, 64, 3);
}

CASE("share.an_import_needs_a_release_of_its_own", VMM "cuMemRelease") {
  const std::size_t unit = prepare();
  const auto handle = create_memory(unit, true);
  const int fd = export_memory(handle);
  const auto imported = import_memory(fd);
  OK(::close(fd));
  OK(CU(cuMemRelease)(handle));
  const CUdeviceptr base = mapped(imported, unit);
  OK(CU(cuMemRelease)(imported));
  fill(base, 64, 5);
  EXPECT_WORDS(base, 64, 5);
}

CASE("share.an_import_starts_without_access", VMM "cuMemImportFromShareableHandle") {
  const std::size_t unit = prepare();
  const auto handle = create_memory(unit, true);
  mapped(handle, unit);
  const auto imported = import_memory(export_memory(handle));
  const CUdeviceptr base = reserve(unit);
  OK(CU(cuMemMap)(base, unit, 0, imported, 0));
  const CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  unsigned long long access = 99;
  OK(CU(cuMemGetAccess)(&access, &here, base));
  EXPECT_EQ(access, 0ull);
}

CASE("share.another_file_is_not_imported", VMM "cuMemImportFromShareableHandle") {
  prepare();
  CUmemGenericAllocationHandle handle = 0;
  const std::intptr_t fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  FAILS(CU(cuMemImportFromShareableHandle)(&handle, reinterpret_cast<void*>(fd), kDescriptor));
  FAILS(CU(cuMemImportFromShareableHandle)(&handle, reinterpret_cast<void*>(std::intptr_t{-1}), kDescriptor));
}

CASE("share.another_process_sees_the_bytes", VMM "cuMemExportToShareableHandle") {
  Partner partner([](const Partner::Channel& channel) {
    const std::size_t unit = prepare();
    const CUdeviceptr base = mapped(import_memory(channel.receive_descriptor()), unit);
    EXPECT_WORDS(base, 1000, 7);
    fill(base, 1000, 8);
    OK(CU(cuCtxSynchronize)());
    channel.send(1);
  });
  const std::size_t unit = prepare();
  const auto handle = create_memory(unit, true);
  const CUdeviceptr base = mapped(handle, unit);
  fill(base, 1000, 7);
  OK(CU(cuCtxSynchronize)());
  partner.channel().send_descriptor(export_memory(handle));
  partner.channel().receive<int>();
  EXPECT_WORDS(base, 1000, 8);
  partner.join();
}

CASE("share.imported_memory_outlives_its_exporter", VMM "cuMemRelease, shareable counterparts") {
  Partner partner([](const Partner::Channel& channel) {
    const std::size_t unit = prepare();
    const auto handle = create_memory(unit, true);
    fill(mapped(handle, unit), 1000, 9);
    OK(CU(cuCtxSynchronize)());
    channel.send_descriptor(export_memory(handle));
    channel.receive<int>();
  });
  const std::size_t unit = prepare();
  const auto handle = import_memory(partner.channel().receive_descriptor());
  partner.kill();
  const CUdeviceptr base = mapped(handle, unit);
  EXPECT_WORDS(base, 1000, 9);
  fill(base, 1000, 10);
  EXPECT_WORDS(base, 1000, 10);
}

CASE_ALONE("share.imported_memory_is_freed_with_its_last_holder",
           VMM "cuMemRelease, shareable counterparts") {
  Partner partner([](const Partner::Channel& channel) {
    const std::size_t bytes = 32 * prepare();
    const auto handle = create_memory(bytes, true);
    channel.send_descriptor(export_memory(handle));
    channel.receive<int>();
  });
  const std::size_t bytes = 32 * prepare();
  const int fd = partner.channel().receive_descriptor();
  const auto handle = import_memory(fd);
  OK(::close(fd));
  partner.kill();
  const std::size_t held = free_bytes();
  OK(CU(cuMemRelease)(handle));
  EXPECT(free_bytes() >= held + bytes);
}

CASE("ipc.another_process_opens_plain_memory", IPC "cuIpcGetMemHandle, cuIpcOpenMemHandle") {
  Partner partner([](const Partner::Channel& channel) {
    need_ipc();
    const CUdeviceptr base = open_memory(channel.receive<CUipcMemHandle>());
    EXPECT_WORDS(base, 1000, 17);
    fill(base, 1000, 18);
    OK(CU(cuCtxSynchronize)());
    OK(CU(cuIpcCloseMemHandle)(base));
    channel.send(1);
  });
  need_ipc();
  const CUdeviceptr base = allocate(4 * kMiB);
  fill(base, 1000, 17);
  OK(CU(cuCtxSynchronize)());
  partner.channel().send(handle_of(base));
  partner.channel().receive<int>();
  EXPECT_WORDS(base, 1000, 18);
  partner.join();
}

CASE("ipc.opening_twice_counts_and_gives_one_address", IPC "cuIpcOpenMemHandle, cuIpcCloseMemHandle") {
  Partner partner([](const Partner::Channel& channel) {
    need_ipc();
    const auto handle = channel.receive<CUipcMemHandle>();
    const CUdeviceptr one = open_memory(handle);
    EXPECT_EQ(open_memory(handle), one);
    OK(CU(cuIpcCloseMemHandle)(one));
    EXPECT_WORDS(one, 64, 19);
    OK(CU(cuIpcCloseMemHandle)(one));
    FAILS(CU(cuIpcCloseMemHandle)(one));
    channel.send(1);
  });
  need_ipc();
  const CUdeviceptr base = allocate(4 * kMiB);
  fill(base, 64, 19);
  OK(CU(cuCtxSynchronize)());
  partner.channel().send(handle_of(base));
  partner.channel().receive<int>();
  EXPECT_WORDS(base, 64, 19);
  partner.join();
}

CASE("ipc.flags_of_opening_are_prescribed", IPC "cuIpcOpenMemHandle") {
  Partner partner([](const Partner::Channel& channel) {
    need_ipc();
    CUdeviceptr base = 0;
    FAILS(CU(cuIpcOpenMemHandle)(&base, channel.receive<CUipcMemHandle>(), 0x100));
    channel.send(1);
  });
  need_ipc();
  partner.channel().send(handle_of(allocate(4 * kMiB)));
  partner.channel().receive<int>();
  partner.join();
}

CASE("ipc.new_memory_at_an_old_address_has_a_new_handle", IPC "cuIpcGetMemHandle") {
  need_ipc();
  const CUdeviceptr first = allocate(4 * kMiB);
  const CUipcMemHandle old_handle = handle_of(first);
  OK(CU(cuMemFree)(first));
  const CUipcMemHandle new_handle = handle_of(allocate(4 * kMiB));
  EXPECT(std::string(old_handle.reserved, sizeof old_handle) !=
         std::string(new_handle.reserved, sizeof new_handle));
}

CASE("ipc.mapped_handles_have_no_ipc_handle",
     "CUDA C++ Programming Guide, Virtual Memory Management, Allocating Physical Memory") {
  need_ipc();
  const std::size_t unit = granularity();
  CUipcMemHandle handle{};
  FAILS(CU(cuIpcGetMemHandle)(&handle, mapped(create_memory(unit), unit)));
}

CASE_ORDER_ONCE("ipc.an_event_orders_work_of_two_processes",
                IPC_EVENT "cuIpcGetEventHandle, cuIpcOpenEventHandle") {
  Partner partner([](const Partner::Channel& channel) {
    need_ipc();
    CUevent event = nullptr;
    OK(CU(cuIpcOpenEventHandle)(&event, channel.receive<CUipcEventHandle>()));
    const CUdeviceptr base = open_memory(channel.receive<CUipcMemHandle>());
    OK(CU(cuEventSynchronize)(event));
    OK(CU(cuEventQuery)(event));
    EXPECT_WORDS(base, 1000, 23);
    OK(CU(cuIpcCloseMemHandle)(base));
    OK(CU(cuEventDestroy)(event));
    channel.send(1);
  });
  need_ipc();
  const CUevent event = make_event(CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
  CUipcEventHandle handle{};
  OK(CU(cuIpcGetEventHandle)(&handle, event));
  const CUdeviceptr base = allocate(4 * kMiB);
  const CUstream stream = make_stream();
  slow_fill(base, 1000, 23, stream);
  OK(CU(cuEventRecord)(event, stream));
  partner.channel().send(handle);
  partner.channel().send(handle_of(base));
  partner.channel().receive<int>();
  partner.join();
}

CASE("ipc.only_interprocess_events_have_a_handle", IPC_EVENT "cuIpcGetEventHandle") {
  need_ipc();
  CUipcEventHandle handle{};
  FAILS(CU(cuIpcGetEventHandle)(&handle, make_event()));
}

CASE("ipc.an_interprocess_event_has_no_timing", IPC_EVENT "cuEventCreate") {
  use_device();
  CUevent event = nullptr;
  REFUSES(CU(cuEventCreate)(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace conformance
