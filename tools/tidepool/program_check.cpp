#include "tools/tidepool/program_check.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <vector>

#include "tools/tidepool/console.h"

namespace tidepool::tools {
namespace {

/// What matters of an ELF header.
struct ElfFacts {
  unsigned char word_size;  ///< ELFCLASS32 or ELFCLASS64
  unsigned machine;
  bool has_interpreter;  ///< false: linked statically
};

template <class Header, class Segment>
ElfFacts read_elf(std::ifstream& file) {
  Header header{};
  file.seekg(0);
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  ElfFacts facts{header.e_ident[EI_CLASS], header.e_machine, false};
  for (unsigned i = 0; i < header.e_phnum && file; ++i) {
    Segment segment{};
    file.seekg(static_cast<std::streamoff>(header.e_phoff + std::size_t{i} * header.e_phentsize));
    file.read(reinterpret_cast<char*>(&segment), sizeof segment);
    if (file && segment.p_type == PT_INTERP) facts.has_interpreter = true;
  }
  return facts;
}

/// Empty if the file is no ELF file of this machine's byte order.
std::optional<ElfFacts> elf_facts(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  unsigned char ident[EI_NIDENT] = {};
  file.read(reinterpret_cast<char*>(ident), sizeof ident);
  if (!file || std::memcmp(ident, ELFMAG, SELFMAG) != 0) return std::nullopt;
  return ident[EI_CLASS] == ELFCLASS32 ? read_elf<Elf32_Ehdr, Elf32_Phdr>(file)
                                       : read_elf<Elf64_Ehdr, Elf64_Phdr>(file);
}

/// The interpreter that a script's first line names; /bin/sh for a text without one, as execvp(3) does.
std::string interpreter_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char text[256] = {};
  file.read(text, sizeof text - 1);
  const std::string start(text, static_cast<std::size_t>(file.gcount()));
  if (start.compare(0, 2, "#!") != 0) return "/bin/sh";
  const std::string line =
      start.substr(2, start.find('\n') == start.npos ? start.npos : start.find('\n') - 2);
  const std::size_t first = line.find_first_not_of(" \t");
  if (first == line.npos) return "/bin/sh";
  return line.substr(first, line.find_first_of(" \t\r", first) - first);
}

bool changes_rights(const std::string& path) {
  struct stat file;
  if (stat(path.c_str(), &file) != 0) return false;
  if ((file.st_mode & S_ISUID) != 0 && file.st_uid != getuid()) return true;
  if ((file.st_mode & S_ISGID) != 0 && file.st_gid != getgid()) return true;
  return getuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
}

ProgramCheck refuse(const std::string& path, int exit_code, const std::string& why) {
  return {path, exit_code, path + " " + why};
}

}  // namespace

ProgramCheck find_program(const char* name) {
  const std::string wanted = name;
  std::vector<std::string> candidates;
  if (wanted.find('/') != wanted.npos) {
    candidates.push_back(wanted);
  } else if (!wanted.empty()) {
    const char* const set = std::getenv("PATH");
    const std::string list = set != nullptr ? set : "/bin:/usr/bin";
    for (std::size_t start = 0; start <= list.size();) {
      const std::size_t end = std::min(list.find(':', start), list.size());
      const std::string folder = list.substr(start, end - start);
      candidates.push_back((folder.empty() ? "." : folder) + "/" + wanted);
      start = end + 1;
    }
  }
  std::string unusable;
  for (const std::string& path : candidates) {
    struct stat file;
    if (stat(path.c_str(), &file) != 0) {
      if (errno == EACCES) unusable = path;
      continue;
    }
    if (S_ISREG(file.st_mode) && access(path.c_str(), X_OK) == 0) return {path, 0, ""};
    unusable = path;
  }
  if (!unusable.empty()) return refuse(unusable, kExitNotExecutable, "cannot be executed");
  return {wanted, kExitNotFound, "there is no program '" + wanted + "'"};
}

ProgramCheck check_preloadable(const std::string& path, const std::string& library) {
  constexpr int kMostScripts = 5;  // as many as the kernel follows
  std::string file = path;
  for (int depth = 0; depth < kMostScripts; ++depth) {
    if (changes_rights(file)) {
      return refuse(
          file, kExitRefused,
          "runs with rights other than yours (set-uid or capabilities), so no library can be put in "
          "front of it. Start the program inside it with tidepool run instead");
    }
    const std::optional<ElfFacts> program = elf_facts(file);
    if (!program) {
      // An unreadable program may still be executable; what it is cannot be known then.
      if (access(file.c_str(), R_OK) != 0) return {path, 0, ""};
      file = interpreter_of(file);
      continue;
    }
    const std::optional<ElfFacts> ours = elf_facts(library);
    if (ours && (ours->machine != program->machine || ours->word_size != program->word_size)) {
      return refuse(file, kExitRefused,
                    "is built for another machine than Tidepool (32 bits, or another processor)");
    }
    if (!program->has_interpreter) {
      return refuse(file, kExitRefused,
                    "is linked statically, so no library can be put in front of it. Link it dynamically");
    }
    return {path, 0, ""};
  }
  return {path, 0, ""};
}

}  // namespace tidepool::tools
