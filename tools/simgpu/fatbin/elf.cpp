#include "tools/simgpu/fatbin/elf.h"

#include <elf.h>

#include "tools/simgpu/fatbin/attributes.h"
#include "tools/simgpu/fatbin/format.h"

namespace simgpu::fatbin {
namespace {

constexpr std::uint16_t kMachineCuda = 190;
constexpr int kAbiOfCuda13 = 8;
/// How many times the bytes of a file may be used by its sections, and in names.
constexpr std::uint64_t kSharing = 4;
/// e_flags up to ABI version 7 (nvcc 12): the number in the low byte, and a bit for the suffix 'a'.
constexpr std::uint32_t kOldSpecific = 0x800;

/// .nv.compat of ABI version 8: a byte that says whether the code is for one device alone.
constexpr std::uint8_t kCompatSpecific = 9;

Arch arch_of(const Elf64_Ehdr& header, const Elf& elf) {
  Arch arch;
  if (header.e_ident[EI_ABIVERSION] < kAbiOfCuda13) {
    arch.number = static_cast<int>(header.e_flags & 0xff);
    if ((header.e_flags & kOldSpecific) != 0) arch.suffix = 'a';
    return arch;
  }
  arch.number = static_cast<int>((header.e_flags >> 8) & 0xff);
  if (const Section* compat = elf.find(".nv.compat"); compat != nullptr) {
    Attribute attribute;
    for (AttributeReader reader(compat->bytes); reader.next(&attribute);) {
      if (attribute.kind == kCompatSpecific && (attribute.immediate & 0xff) == 1) arch.suffix = 'a';
    }
  }
  return arch;
}

}  // namespace

Problem Elf::parse(Bytes file, Elf* out) {
  *out = Elf();
  Elf64_Ehdr header;
  if (!file.read(0, &header)) return Problem::kTruncated;
  std::uint32_t magic = 0;
  static_cast<void>(file.read(0, &magic));
  if (magic != kElfMagic || header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kMachineCuda) {
    return Problem::kNotAnImage;
  }
  if (header.e_type == ET_REL) return Problem::kRelocatable;
  if (header.e_type != ET_EXEC) return Problem::kCorrupt;
  if (const Problem problem = out->read_sections(file); problem != Problem::kNone) return problem;
  out->arch_ = arch_of(header, *out);
  return Problem::kNone;
}

Problem Elf::read_sections(Bytes file) {
  Elf64_Ehdr header;
  Elf64_Shdr first{};
  if (!file.read(0, &header)) return Problem::kTruncated;
  if (header.e_shoff == 0) return Problem::kNone;
  if (header.e_shentsize != sizeof first) return Problem::kCorrupt;
  if (!file.read(header.e_shoff, &first)) return Problem::kTruncated;
  // What the header's 16 bits cannot hold stands in the first entry.
  const std::uint64_t count = header.e_shnum != 0 ? header.e_shnum : first.sh_size;
  const std::uint64_t names_at = header.e_shstrndx != SHN_XINDEX ? header.e_shstrndx : first.sh_link;
  Bytes table;
  if (count > file.size() / sizeof first) return Problem::kTruncated;
  if (!file.slice(header.e_shoff, count * sizeof first, &table)) return Problem::kTruncated;
  if (names_at >= count) return Problem::kCorrupt;

  const auto entry = [&table](std::uint64_t i) {
    Elf64_Shdr section{};
    static_cast<void>(table.read(i * sizeof section, &section));
    return section;
  };
  const auto contents = [&file](const Elf64_Shdr& section, Bytes* out) {
    return !holds_bytes(section.sh_type) || file.slice(section.sh_offset, section.sh_size, out);
  };
  Bytes names;
  if (!contents(entry(names_at), &names)) return Problem::kTruncated;
  Bytes symbols;
  Bytes symbol_names;
  Bytes far_sections;
  // A few sections share their bytes in sound files. Without a limit, a small file could be read for hours.
  names_left_ = bytes_left_ = kSharing * file.size() + kLongestName;
  sections_.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const Elf64_Shdr raw = entry(i);
    Section section;
    section.type = raw.sh_type;
    section.info = raw.sh_info;
    section.size = raw.sh_type == SHT_NULL ? 0 : raw.sh_size;
    section.align = raw.sh_addralign;
    if (!contents(raw, &section.bytes)) return Problem::kTruncated;
    if (raw.sh_type != SHT_NULL && !read_name(names, raw.sh_name, &section.name)) return Problem::kCorrupt;
    if (section.bytes.size() > bytes_left_) return Problem::kCorrupt;
    bytes_left_ -= section.bytes.size();
    if (raw.sh_type == SHT_SYMTAB) {
      if (raw.sh_link >= count || raw.sh_entsize != sizeof(Elf64_Sym)) return Problem::kCorrupt;
      symbols = section.bytes;
      if (!contents(entry(raw.sh_link), &symbol_names)) return Problem::kTruncated;
    }
    if (raw.sh_type == SHT_SYMTAB_SHNDX) far_sections = section.bytes;
    by_name_.emplace(section.name, static_cast<std::uint32_t>(i));
    sections_.push_back(section);
  }
  return read_symbols(symbols, symbol_names, far_sections);
}

bool Elf::read_name(Bytes names, std::uint64_t offset, std::string_view* out) {
  if (!names.text(offset, kLongestName, out) || out->size() > names_left_) return false;
  names_left_ -= out->size();
  return true;
}

Problem Elf::read_symbols(Bytes table, Bytes names, Bytes far_sections) {
  const std::uint64_t count = table.size() / sizeof(Elf64_Sym);
  symbols_.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    Elf64_Sym raw{};
    static_cast<void>(table.read(i * sizeof raw, &raw));
    Symbol symbol;
    if (i > 0 && !read_name(names, raw.st_name, &symbol.name)) return Problem::kCorrupt;
    symbol.type = ELF64_ST_TYPE(raw.st_info);
    symbol.other = raw.st_other;
    symbol.section = raw.st_shndx;
    if (raw.st_shndx == SHN_XINDEX && !far_sections.read(i * sizeof symbol.section, &symbol.section)) {
      return Problem::kCorrupt;
    }
    symbol.value = raw.st_value;
    symbol.size = raw.st_size;
    symbols_.push_back(symbol);
  }
  return Problem::kNone;
}

const Section* Elf::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &sections_[found->second];
}

bool holds_bytes(std::uint32_t type) {
  constexpr std::uint32_t kGlobal = SHT_LOPROC + 0x7;
  constexpr std::uint32_t kLocal = SHT_LOPROC + 0x9;
  constexpr std::uint32_t kShared = SHT_LOPROC + 0xa;
  constexpr std::uint32_t kReservedShared = SHT_LOPROC + 0x15;
  return type != SHT_NULL && type != SHT_NOBITS && type != kGlobal && type != kLocal && type != kShared &&
         type != kReservedShared;
}

Problem cubin_arch(Bytes file, Arch* out) {
  Elf elf;
  if (const Problem problem = Elf::parse(file, &elf); problem != Problem::kNone) return problem;
  *out = elf.arch();
  return Problem::kNone;
}

}  // namespace simgpu::fatbin
