#pragma once

#include <cstdint>

/// How fat binaries lie in memory: nvcc 11 to 13, found by reading what they write and the vendor's
/// libraries. Only what simgpu uses has a name.
namespace simgpu::fatbin {

inline constexpr std::uint32_t kWrapperMagic = 0x466243b1;
inline constexpr std::uint32_t kContainerMagic = 0xba55ed50;
inline constexpr std::uint32_t kElfMagic = 0x464c457f;

/// What nvcc's start-up code hands to __cudaRegisterFatBinary. Version 2 (-rdc=true) uses the last word for a
/// list of the relocatable parts; the linked container is `container` in both.
struct Wrapper {
  std::uint32_t magic;
  std::uint32_t version;
  const void* container;
  const void* parts;
};
static_assert(sizeof(Wrapper) == 24);

struct ContainerHeader {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t header_size;  ///< bytes before the first entry
  std::uint64_t size;         ///< bytes of all entries
};
static_assert(sizeof(ContainerHeader) == 16);

/// The first 64 bytes of an entry; options may follow inside its header, then comes the payload.
struct EntryHeader {
  std::uint16_t kind;
  std::uint16_t version;
  std::uint32_t header_size;
  std::uint64_t padded_size;      ///< from the end of the header to the next entry
  std::uint32_t compressed_size;  ///< bytes of the payload if it is compressed; else 0
  std::uint32_t options_offset;
  std::uint16_t code_minor;  ///< of PTX: its language version
  std::uint16_t code_major;
  std::uint32_t arch;
  std::uint32_t name_offset;
  std::uint32_t name_size;
  std::uint64_t flags;
  std::uint64_t reserved;
  std::uint64_t inflated_size;  ///< bytes when inflated; 0 if it is not compressed
};
static_assert(sizeof(EntryHeader) == 64);

inline constexpr std::uint16_t kKindPtx = 1;
inline constexpr std::uint16_t kKindElf = 2;

inline constexpr std::uint64_t kFlagLz4 = 0x2000;
inline constexpr std::uint64_t kFlagZstd = 0x8000;
inline constexpr std::uint64_t kFlagArchSpecific = 0x100000;
inline constexpr std::uint64_t kFlagFamilySpecific = 0x200000;

}  // namespace simgpu::fatbin
