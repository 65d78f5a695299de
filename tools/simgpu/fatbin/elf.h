#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tools/simgpu/fatbin/arch.h"
#include "tools/simgpu/fatbin/bytes.h"
#include "tools/simgpu/fatbin/problem.h"

namespace simgpu::fatbin {

/// The longest name of a section or symbol that is read (mangled templates reach some 10,000 characters).
inline constexpr std::size_t kLongestName = 64 << 10;

struct Section {
  std::string_view name;
  std::uint32_t type = 0;
  std::uint32_t info = 0;
  std::uint64_t size = 0;
  std::uint64_t align = 0;
  Bytes bytes;  ///< empty where the file holds none (SHT_NOBITS)
};

struct Symbol {
  std::string_view name;
  std::uint8_t type = 0;   ///< STT_*
  std::uint8_t other = 0;  ///< st_other: CUDA's flags
  std::uint32_t section = 0;
  std::uint64_t value = 0;
  std::uint64_t size = 0;
};

/// Sections and symbols of a 64-bit cubin. All views point into the bytes given to parse.
class Elf {
 public:
  /// kRelocatable, with nothing read, for a cubin that still has to be linked.
  static Problem parse(Bytes file, Elf* out);

  [[nodiscard]] Arch arch() const { return arch_; }
  [[nodiscard]] const std::vector<Section>& sections() const { return sections_; }
  [[nodiscard]] const std::vector<Symbol>& symbols() const { return symbols_; }
  /// The first section of this name, or null.
  [[nodiscard]] const Section* find(std::string_view name) const;

 private:
  Problem read_sections(Bytes file);
  bool read_name(Bytes names, std::uint64_t offset, std::string_view* out);
  Problem read_symbols(Bytes table, Bytes names, Bytes far_sections);

  std::uint64_t names_left_ = 0;  ///< how much longer the names may be, all together
  std::uint64_t bytes_left_ = 0;  ///< the same for what sections hold
  Arch arch_;
  std::vector<Section> sections_;
  std::vector<Symbol> symbols_;
  std::unordered_map<std::string_view, std::uint32_t> by_name_;
};

/// True if the file holds the bytes of a section of this type (SHT_*); false for memory that starts as zero.
bool holds_bytes(std::uint32_t type);

/// What a bare cubin was compiled for, from its header and its compatibility section.
Problem cubin_arch(Bytes file, Arch* out);

}  // namespace simgpu::fatbin
