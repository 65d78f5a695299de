#pragma once

#include <istream>
#include <optional>
#include <string>
#include <vector>

namespace tidepool::tools {

/// What matters of an ELF program or library.
struct ElfFacts {
  unsigned char word_size;  ///< ELFCLASS32 or ELFCLASS64
  unsigned machine;
  bool has_interpreter = false;     ///< false: linked statically (or a library)
  std::vector<std::string> needed;  ///< the libraries it names; of 64-bit files
  bool has_device_code = false;     ///< it has a section of CUDA's fat binaries; of 64-bit files
  bool is_whole = true;             ///< false: the file ends before its program headers do, or it has none
};

/// Reads a program's or library's headers from a seekable stream, whatever its bytes are.
std::optional<ElfFacts> read_elf(std::istream& file);

/// Reads a file's headers; empty if it is no ELF file of this machine's byte order. What is damaged in it is
/// left out.
std::optional<ElfFacts> elf_facts(const std::string& path);

}  // namespace tidepool::tools
