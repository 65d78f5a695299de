#include "tools/simgpu/fatbin/entries.h"

#include <algorithm>

#include "tools/simgpu/fatbin/elf.h"
#include "tools/simgpu/fatbin/format.h"
#include "tools/simgpu/fatbin/ptx.h"

namespace simgpu::fatbin {
namespace {

char suffix_of(std::uint64_t flags) {
  if ((flags & kFlagArchSpecific) != 0) return 'a';
  return (flags & kFlagFamilySpecific) != 0 ? 'f' : '\0';
}

Compression compression_of(std::uint64_t flags) {
  if ((flags & kFlagZstd) != 0) return Compression::kZstd;
  return (flags & kFlagLz4) != 0 ? Compression::kLz4 : Compression::kNone;
}

Kind kind_of(std::uint16_t kind) {
  if (kind == kKindPtx) return Kind::kPtx;
  return kind == kKindElf ? Kind::kCubin : Kind::kOther;
}

Problem read_entry(Bytes entries, std::uint64_t offset, Entry* out, std::uint64_t* next) {
  EntryHeader header;
  if (!entries.read(offset, &header)) return Problem::kTruncated;
  if (header.header_size < sizeof header) return Problem::kCorrupt;
  Bytes padded;
  if (!entries.slice(offset + header.header_size, header.padded_size, &padded)) return Problem::kTruncated;
  out->kind = kind_of(header.kind);
  out->flags = header.flags;
  // Three digits for every device so far; anything else would only overflow further on.
  if (header.arch > 9999) return Problem::kCorrupt;
  out->arch = {static_cast<int>(header.arch), suffix_of(header.flags)};
  out->compression = compression_of(header.flags);
  if (out->kind == Kind::kPtx) {
    out->ptx_major = header.code_major;
    out->ptx_minor = header.code_minor;
  }
  if (out->compression == Compression::kNone) {
    out->stored = padded;
    out->inflated_size = padded.size();
  } else {
    // The padding must not reach the decompressor: LZ4 has no end mark.
    if (!padded.slice(0, header.compressed_size, &out->stored)) return Problem::kCorrupt;
    out->inflated_size = header.inflated_size;
  }
  *next = offset + header.header_size + header.padded_size;
  return Problem::kNone;
}

Problem list_container(Bytes image, std::vector<Entry>* out) {
  ContainerHeader header;
  if (!image.read(0, &header)) return Problem::kTruncated;
  if (header.header_size < sizeof header) return Problem::kCorrupt;
  Bytes entries;
  if (!image.slice(header.header_size, header.size, &entries)) return Problem::kTruncated;
  std::uint64_t offset = 0;
  while (offset < entries.size()) {
    Entry entry;
    if (const Problem problem = read_entry(entries, offset, &entry, &offset); problem != Problem::kNone) {
      return problem;
    }
    out->push_back(entry);
  }
  return Problem::kNone;
}

}  // namespace

Problem list_entries(Bytes image, std::vector<Entry>* out) {
  std::uint32_t magic = 0;
  if (image.read(0, &magic) && magic == kContainerMagic) return list_container(image, out);
  Entry entry;
  entry.stored = image;
  entry.inflated_size = image.size();
  if (magic == kElfMagic) {
    entry.kind = Kind::kCubin;
    if (const Problem problem = cubin_arch(image, &entry.arch); problem != Problem::kNone) return problem;
  } else {
    entry.kind = Kind::kPtx;
    if (!ptx_target(image.as_text(), &entry)) return Problem::kNotAnImage;
  }
  out->push_back(entry);
  return Problem::kNone;
}

std::vector<Entry> usable_entries(std::span<const Entry> entries, Capability device) {
  std::vector<Entry> usable;
  for (const Entry& entry : entries) {
    const bool runs = entry.kind == Kind::kCubin
                          ? sass_runs_on(entry.arch, device)
                          : entry.kind == Kind::kPtx && ptx_runs_on(entry.arch, device);
    if (runs) usable.push_back(entry);
  }
  std::stable_sort(usable.begin(), usable.end(), [](const Entry& a, const Entry& b) {
    if (a.kind != b.kind) return a.kind == Kind::kCubin;
    return suits_better(a.arch, b.arch);
  });
  return usable;
}

}  // namespace simgpu::fatbin
