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
constexpr std::size_t kMostNames = 1000;

template <class T>
std::optional<T> read_at(std::istream& file, std::uint64_t offset) {
  T value{};
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(&value), sizeof value);
  if (!file) return std::nullopt;
  return value;
}

std::string read_bytes(std::istream& file, std::uint64_t offset, std::uint64_t size) {
  std::string bytes(static_cast<std::size_t>(std::min(size, kMostBytes)), '\0');
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return bytes;
}

/// The name at this place of a table of names; what is longer than a name can be is cut.
std::string text_at(const std::string& table, std::uint64_t offset) {
  constexpr std::size_t kLongestName = 255;
  if (offset >= table.size()) return "";
  const char* const start = table.data() + offset;
  return {start, strnlen(start, std::min<std::size_t>(table.size() - static_cast<std::size_t>(offset),
                                                      kLongestName))};
}

template <class Header, class Segment>
ElfFacts read_segments(std::istream& file, std::vector<Segment>& segments) {
  const Header header = read_at<Header>(file, 0).value_or(Header{});
  ElfFacts facts{header.e_ident[EI_CLASS], header.e_machine, false, {}, false, header.e_phnum != 0};
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    const auto segment = read_at<Segment>(file, header.e_phoff + std::uint64_t{i} * header.e_phentsize);
    if (!segment) facts.is_whole = false;
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

std::vector<std::string> needed_libraries(std::istream& file, const std::vector<Elf64_Phdr>& segments) {
  const auto dynamic = std::find_if(segments.begin(), segments.end(),
                                    [](const Elf64_Phdr& segment) { return segment.p_type == PT_DYNAMIC; });
  if (dynamic == segments.end()) return {};
  const std::string bytes = read_bytes(file, dynamic->p_offset, dynamic->p_filesz);
  std::vector<std::uint64_t> names;
  std::uint64_t table_address = 0;
  std::uint64_t table_bytes = 0;
  for (std::size_t at = 0; at + sizeof(Elf64_Dyn) <= bytes.size(); at += sizeof(Elf64_Dyn)) {
    Elf64_Dyn entry;
    std::memcpy(&entry, bytes.data() + at, sizeof entry);
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_NEEDED && names.size() < kMostNames) names.push_back(entry.d_un.d_val);
    if (entry.d_tag == DT_STRTAB) table_address = entry.d_un.d_ptr;
    if (entry.d_tag == DT_STRSZ) table_bytes = entry.d_un.d_val;
  }
  const auto table = offset_of(segments, table_address);
  if (!table) return {};
  const std::string text = read_bytes(file, *table, table_bytes);
  std::vector<std::string> libraries(names.size());
  std::transform(names.begin(), names.end(), libraries.begin(),
                 [&](std::uint64_t name) { return text_at(text, name); });
  return libraries;
}

bool has_section(std::istream& file, const Elf64_Ehdr& header, const char* name) {
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

std::optional<ElfFacts> read_elf(std::istream& file) {
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

std::optional<ElfFacts> elf_facts(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return read_elf(file);
}

}  // namespace tidepool::tools
