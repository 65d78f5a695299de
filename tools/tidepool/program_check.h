#pragma once

#include <string>

namespace tidepool::tools {

/// The outcome of looking at a program before it is started.
struct ProgramCheck {
  std::string path;       ///< the file to execute
  int exit_code = 0;      ///< 0, or what the command should return
  std::string complaint;  ///< one line, if exit_code is not 0
};

/// Finds a program as execvp(3) does: a name with a slash is a path, any other is looked for along PATH. A
/// missing file gives 127, one that cannot be executed 126.
ProgramCheck find_program(const char* name);

/// The file that the kernel executes for this program: its interpreter, where it is a script ("#!").
std::string executed_file(const std::string& path);

/// Can a library be preloaded into this program? Follows "#!" lines to the interpreter. Refuses (125)
/// programs that are linked statically, that run with other rights than the caller (set-uid, set-gid, file
/// capabilities: the loader ignores LD_PRELOAD for them), and that are for another machine than `library`.
ProgramCheck check_preloadable(const std::string& path, const std::string& library);

}  // namespace tidepool::tools
