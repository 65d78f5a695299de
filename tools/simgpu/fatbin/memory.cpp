#include "tools/simgpu/fatbin/memory.h"

#include <elf.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "tools/simgpu/fatbin/elf.h"
#include "tools/simgpu/fatbin/format.h"

namespace simgpu::fatbin {
namespace {

constexpr std::uint64_t kPage = 4096;

/// Reads at an address that nobody vouches for.
template <class T>
bool fetch(const void* address, std::uint64_t offset, T* out) {
  const auto* from = static_cast<const std::byte*>(address) + offset;
  if (!readable(from, sizeof(T))) return false;
  std::memcpy(out, from, sizeof(T));
  return true;
}

Problem bounded(const void* image, std::uint64_t size, Bytes* out) {
  if (size > kLargestImage) return Problem::kTooLarge;
  if (!readable(image, size)) return Problem::kUnreadable;
  *out = Bytes(image, static_cast<std::size_t>(size));
  return Problem::kNone;
}

Problem container_extent(const void* image, Bytes* out) {
  ContainerHeader header;
  if (!fetch(image, 0, &header)) return Problem::kUnreadable;
  if (header.magic != kContainerMagic) return Problem::kNotAnImage;
  if (header.size > kLargestImage) return Problem::kTooLarge;
  return bounded(image, header.header_size + header.size, out);
}

Problem cubin_extent(const void* image, Bytes* out) {
  Elf64_Ehdr header;
  if (!fetch(image, 0, &header)) return Problem::kUnreadable;
  std::uint64_t end = sizeof header;
  const auto extend = [&end](std::uint64_t offset, std::uint64_t size) {
    if (offset > kLargestImage || size > kLargestImage) return false;
    end = std::max(end, offset + size);
    return true;
  };
  std::uint64_t sections = header.e_shnum;
  if (header.e_shoff > kLargestImage) return Problem::kTooLarge;
  if (sections == 0 && header.e_shoff != 0) {
    Elf64_Shdr first;  // more sections than the header can count
    if (!fetch(image, header.e_shoff, &first)) return Problem::kUnreadable;
    sections = first.sh_size;
  }
  if (sections > kLargestImage / sizeof(Elf64_Shdr)) return Problem::kTooLarge;
  if (!extend(header.e_shoff, sections * sizeof(Elf64_Shdr))) return Problem::kTooLarge;
  if (!extend(header.e_phoff, std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr))) return Problem::kTooLarge;
  Bytes tables;
  if (const Problem problem = bounded(image, end, &tables); problem != Problem::kNone) return problem;
  for (std::uint64_t i = 0; i < sections; ++i) {
    Elf64_Shdr section;
    if (!tables.read(header.e_shoff + i * sizeof section, &section)) return Problem::kTruncated;
    if (!holds_bytes(section.sh_type)) continue;
    if (!extend(section.sh_offset, section.sh_size)) return Problem::kTooLarge;
  }
  return bounded(image, end, out);
}

Problem ptx_extent(const void* image, Bytes* out) {
  const auto* text = static_cast<const char*>(image);
  const auto start = reinterpret_cast<std::uintptr_t>(image);
  std::uint64_t size = 0;
  while (size < kLargestPtx) {
    const std::uint64_t piece = kPage - (start + size) % kPage;
    if (!readable(text + size, piece)) return Problem::kUnreadable;
    if (const void* end = std::memchr(text + size, 0, piece); end != nullptr) {
      *out = Bytes(image, static_cast<std::size_t>(static_cast<const char*>(end) - text));
      return Problem::kNone;
    }
    size += piece;
  }
  return Problem::kTooLarge;
}

}  // namespace

bool readable(const void* address, std::uint64_t size) {
  if (size == 0) return true;
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  if (address == nullptr || size > UINTPTR_MAX - start) return false;
  const std::uintptr_t end = start + size;
  constexpr std::size_t kPieces = 512;
  std::array<char, kPieces> sink;
  std::array<iovec, kPieces> pieces;
  // One byte of each page.
  std::uintptr_t next = start;
  while (next < end) {
    std::size_t count = 0;
    for (; count < kPieces && next < end; ++count) {
      // The kernel reads what a sanitizer may know to be poisoned; the address is only handed on.
      pieces[count] = {reinterpret_cast<void*>(next), 1};
      next = (next / kPage + 1) * kPage;
    }
    iovec into{sink.data(), count};
    const int saved = errno;
    const ssize_t got = ::process_vm_readv(::getpid(), &into, 1, pieces.data(), count, 0);
    const bool refused = got < 0 && (errno == EPERM || errno == ENOSYS || errno == EACCES);
    errno = saved;
    if (refused) return true;
    if (got != static_cast<ssize_t>(count)) return false;
  }
  return true;
}

Problem find_extent(const void* image, Bytes* out) {
  std::uint32_t magic = 0;
  if (!fetch(image, 0, &magic)) return Problem::kUnreadable;
  if (magic == kWrapperMagic) {
    Wrapper wrapper;
    if (!fetch(image, 0, &wrapper)) return Problem::kUnreadable;
    return container_extent(wrapper.container, out);
  }
  if (magic == kContainerMagic) return container_extent(image, out);
  if (magic == kElfMagic) return cubin_extent(image, out);
  return ptx_extent(image, out);
}

}  // namespace simgpu::fatbin
