#include "tools/tidepool/elf_file.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>

namespace tidepool::tools {
namespace {

/// More is not believed of a file: a damaged header must not make this read for ever.
constexpr std::uint64_t kMostBytes = 1 << 20;

template <class T>
std::optional<T> read_at(std::ifstream& file, std::uint64_t offset) {
  T value{};
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(&value), sizeof value);
  if (!file) return std::nullopt;
  return value;
}

std::string read_bytes(std::ifstream& file, std::uint64_t offset, std::uint64_t size) {
  std::string bytes(static_cast<std::size_t>(std::min(size, kMostBytes)), '\0');
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return bytes;
}

std::string text_at(const std::string& table, std::uint64_t offset) {
  return offset < table.size() ? std::string(table.c_str() + offset) : "";
}

template <class Header, class Segment>
ElfFacts read_segments(std::ifstream& file, std::vector<Segment>& segments) {
  const Header header = read_at<Header>(file, 0).value_or(Header{});
  ElfFacts facts{header.e_ident[EI_CLASS], header.e_machine, false, {}, false};
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    const auto segment = read_at<Segment>(file, header.e_phoff + std::uint64_t{i} * header.e_phentsize);
    if (!segment) break;
    if (segment->p_type == PT_INTERP) facts.has_interpreter = true;
    segments.push_back(*segment);
  }
  return facts;
}

/// Where an address lies in the file.
std::optional<std::uint64_t> offset_of(const std::vector<Elf64_Phdr>& segments, std::uint64_t address) {
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
        address - segment.p_vaddr < segment.p_filesz)
      return address - segment.p_vaddr + segment.p_offset;
  }
  return std::nullopt;
}

std::vector<std::string> needed_libraries(std::ifstream& file, const std::vector<Elf64_Phdr>& segments) {
  std::vector<std::uint64_t> names;
  std::optional<std::uint64_t> table;
  std::uint64_t table_bytes = 0;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_DYNAMIC) continue;
    const std::string bytes = read_bytes(file, segment.p_offset, segment.p_filesz);
    for (std::size_t at = 0; at + sizeof(Elf64_Dyn) <= bytes.size(); at += sizeof(Elf64_Dyn)) {
      Elf64_Dyn entry;
      std::memcpy(&entry, bytes.data() + at, sizeof entry);
      if (entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_NEEDED) names.push_back(entry.d_un.d_val);
      if (entry.d_tag == DT_STRTAB) table = offset_of(segments, entry.d_un.d_ptr);
      if (entry.d_tag == DT_STRSZ) table_bytes = entry.d_un.d_val;
    }
  }
  std::vector<std::string> libraries;
  if (!table) return libraries;
  const std::string text = read_bytes(file, *table, table_bytes);
  for (const std::uint64_t name : names) libraries.push_back(text_at(text, name));
  return libraries;
}

bool has_section(std::ifstream& file, const Elf64_Ehdr& header, const char* name) {
  const auto section = [&](unsigned i) {
    return read_at<Elf64_Shdr>(file, header.e_shoff + std::uint64_t{i} * header.e_shentsize);
  };
  const auto names = section(header.e_shstrndx);
  if (header.e_shoff == 0 || !names) return false;
  const std::string text = read_bytes(file, names->sh_offset, names->sh_size);
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const auto each = section(i);
    if (!each) return false;
    if (text_at(text, each->sh_name) == name) return true;
  }
  return false;
}

}  // namespace

std::optional<ElfFacts> elf_facts(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  unsigned char ident[EI_NIDENT] = {};
  file.read(reinterpret_cast<char*>(ident), sizeof ident);
  if (!file || std::memcmp(ident, ELFMAG, SELFMAG) != 0) return std::nullopt;
  if (ident[EI_CLASS] == ELFCLASS32) {
    std::vector<Elf32_Phdr> segments;
    return read_segments<Elf32_Ehdr>(file, segments);
  }
  std::vector<Elf64_Phdr> segments;
  ElfFacts facts = read_segments<Elf64_Ehdr>(file, segments);
  facts.needed = needed_libraries(file, segments);
  facts.has_device_code =
      has_section(file, read_at<Elf64_Ehdr>(file, 0).value_or(Elf64_Ehdr{}), ".nv_fatbin");
  return facts;
}

}  // namespace tidepool::tools
