#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/simgpu/digest/access.h"

/// The role file: which memory a kernel reads and which it writes, by the kernel's name. roles.txt, beside
/// this header, is the one that is shipped, and its head describes the format.
namespace simgpu::digest {

/// A byte of a kernel's parameters: "2@16" is byte 16 of parameter 2, "2@-16" the sixteenth from its end.
struct Place {
  std::uint32_t param = 0;
  std::uint32_t offset = 0;
  bool from_end = false;

  /// The offset in a parameter of this size; a place before its start lies behind its end.
  [[nodiscard]] std::uint32_t in(std::uint32_t size) const { return from_end ? size - offset : offset; }
};

/// How many words an array of pointers has in one launch.
struct Count {
  enum class Kind : std::uint8_t {
    kNumber,  ///< `number`
    kGridX,   ///< the grid's extent
    kGridY,
    kGridZ,
    kU32,    ///< an unsigned number in the parameters
    kU64,    ///< the same, of eight bytes
    kMax8,   ///< 1 + the largest of the first grid.x unsigned bytes at `place`
    kMax16,  ///< the same of unsigned 16-bit numbers
    kAll,    ///< to the end of the parameter, or of the memory
  };
  Kind kind = Kind::kNumber;
  std::uint32_t number = 0;
  Place place;
};

/// One statement about a kernel's parameters.
struct RoleLine {
  enum class Kind : std::uint8_t {
    kPointers,  ///< a whole parameter: its n-th live pointer has the n-th role, later ones the last
    kWords,     ///< `count` words from `place` on are pointers with one role; others of the parameter are not
                ///< used
    kTensorLists,  ///< lists of tensors as in tensor_lists.h, `count.number` of them, with a role each
    kTable,        ///< a pointer to device memory that holds `count` pointers with one role
    kValue,        ///< `bytes` bytes that decide what the kernel computes
    kAddresses,    ///< the kernel writes from + i * step into the memory that `place` points to
  };
  Kind kind = Kind::kPointers;
  Place place;
  Count count;
  std::vector<Access> roles;
  std::uint32_t bytes = 0;  ///< of a value; 0: the whole parameter
  Place from;
  Place step;
  std::uint32_t line = 0;  ///< in its file, for messages

  /// The largest number of a parameter that it names.
  [[nodiscard]] std::uint32_t last_param() const;
};

/// What is known of the kernels whose names match a pattern.
struct Rule {
  struct ParamSize {
    std::uint32_t param = 0;
    std::uint32_t bytes = 0;
  };
  std::string pattern;
  std::uint32_t line = 0;  ///< in its file, for messages
  std::vector<ParamSize> sizes;
  std::optional<std::uint32_t> param_count;
  std::vector<RoleLine> lines;
  std::optional<Access> other;          ///< role of pointers in parameters that no line names
  std::optional<Access> mutable_means;  ///< role of `T*` where the type is known; `const T*` is read
  bool packed = false;                  ///< pointers in parameters may lie at multiples of four
  bool needs_body = false;  ///< only a CPU body will do: a digest would be believed where it must not
};

struct RoleFile {
  std::vector<Rule> rules;

  /// The first rule that matches one of the names of a kernel and its parameters; null if none does.
  [[nodiscard]] const Rule* find(std::string_view plain_name, std::string_view mangled_name,
                                 const std::vector<Slot>& layout) const;
};

/// Either a role file or one line that says what is wrong, where, and what to do.
struct ParsedRoles {
  RoleFile file;
  std::string error;  ///< empty: the file is good
};

/// Reads the text of a role file; `name` is used in messages only.
ParsedRoles parse_roles(std::string_view text, const std::string& name);

/// Reads a role file. A file that cannot be read is an error of the same form.
ParsedRoles load_roles(const std::string& path);

/// True if the text matches a pattern in which * stands for any text and ? for any one character.
bool matches(std::string_view pattern, std::string_view text);

}  // namespace simgpu::digest
