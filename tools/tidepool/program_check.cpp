#include "tools/tidepool/program_check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <vector>

#include "tools/tidepool/console.h"
#include "tools/tidepool/elf_file.h"

namespace tidepool::tools {
namespace {

/// The interpreter that a script's first line names, as the kernel reads it: a carriage return is of the
/// name. /bin/sh for a text without one, as execvp(3) does.
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
  return line.substr(first, line.find_first_of(" \t", first) - first);
}

/// Does the program end at once because gcc's AddressSanitizer is not the first of its libraries? Ours goes
/// behind one that LD_PRELOAD has already.
bool wants_to_be_first(const ElfFacts& program) {
  const auto is_asan = [](const std::string& library) { return library.starts_with("libasan.so"); };
  if (std::none_of(program.needed.begin(), program.needed.end(), is_asan)) return false;
  const auto has = [](const char* variable, const char* what) {
    const char* const value = std::getenv(variable);
    return value != nullptr && std::strstr(value, what) != nullptr;
  };
  return !has("LD_PRELOAD", "libasan.") && !has("ASAN_OPTIONS", "verify_asan_link_order=0");
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
    // A folder of that name ("tidepool run .") is nobody's program.
    if (S_ISDIR(file.st_mode) && path != wanted) continue;
    if (S_ISREG(file.st_mode) && access(path.c_str(), X_OK) == 0) return {path, 0, ""};
    unusable = path;
  }
  if (!unusable.empty()) return refuse(unusable, kExitNotExecutable, "cannot be executed");
  return {wanted, kExitNotFound, "there is no program '" + wanted + "'"};
}

std::string executed_file(const std::string& path) {
  constexpr int kMostScripts = 5;  // as many as the kernel follows
  std::string file = path;
  for (int depth = 0; depth < kMostScripts && !elf_facts(file); ++depth) {
    // An unreadable program may still be executable; what it is cannot be known then.
    if (access(file.c_str(), R_OK) != 0) break;
    file = interpreter_of(file);
  }
  return file;
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
      const std::string script = file;
      file = interpreter_of(script);
      const bool is_missing = access(file.c_str(), F_OK) != 0 && errno == ENOENT;
      if (is_missing && file.ends_with('\r')) {
        return refuse(script, kExitNotFound,
                      "is a script for " + file.substr(0, file.size() - 1) +
                          " and a carriage return, which is not there. Take that from the ends of its lines");
      }
      if (is_missing)
        return refuse(script, kExitNotFound,
                      "is a script for " + file + ", which is not there. Correct its first line");
      continue;
    }
    const std::optional<ElfFacts> ours = elf_facts(library);
    if (ours && (ours->machine != program->machine || ours->word_size != program->word_size)) {
      return refuse(file, kExitRefused,
                    "is built for another machine than Tidepool (32 bits, or another processor)");
    }
    if (!program->is_whole)
      return refuse(file, kExitNotExecutable, "is damaged: it ends before the headers of a program do");
    if (!program->has_interpreter) {
      return refuse(file, kExitRefused,
                    "is linked statically, so no library can be put in front of it. Link it dynamically");
    }
    if (wants_to_be_first(*program)) {
      return refuse(
          file, kExitRefused,
          "is built with AddressSanitizer, whose library must come before Tidepool's. Start it with "
          "LD_PRELOAD=$(gcc -print-file-name=libasan.so)");
    }
    return {path, 0, ""};
  }
  return {path, 0, ""};
}

}  // namespace tidepool::tools
