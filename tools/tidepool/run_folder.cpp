#include "tools/tidepool/run_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "allocator/support/stats_page.h"

namespace tidepool::tools {

namespace fs = std::filesystem;

namespace {

/// Can a process of the run keep its numbers here? 0, or why not.
int try_folder(const std::string& path) {
  const std::string name = path + "/probe." + std::to_string(getpid());
  const int fd = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  const int problem = posix_fallocate(fd, 0, sizeof(StatsPageLayout));
  close(fd);
  unlink(name.c_str());
  return problem;
}

}  // namespace

RunFolder::RunFolder() : is_private_(true) {
  const char* const candidates[] = {std::getenv("XDG_RUNTIME_DIR"), std::getenv("TMPDIR"), "/tmp"};
  for (const char* const parent : candidates) {
    if (parent == nullptr || parent[0] != '/') continue;
    std::string path = std::string(parent) + "/tidepool-run-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) {
      problem_ = std::strerror(errno);
      continue;
    }
    const int problem = try_folder(path);
    if (problem == 0) {
      path_ = path;
      return;
    }
    problem_ = std::strerror(problem);
    rmdir(path.c_str());
  }
  problem_ = "no folder for the run could be made in XDG_RUNTIME_DIR, TMPDIR or /tmp: " + problem_ +
             ". Make room there, or name one with --run-dir";
}

RunFolder::RunFolder(const std::string& path) {
  std::error_code error;
  const mode_t before = umask(077);
  fs::create_directories(path, error);
  umask(before);
  const fs::path real = error ? fs::path() : fs::canonical(path, error);
  if (!error && !fs::is_directory(real)) error = std::make_error_code(std::errc::not_a_directory);
  if (!error) error.assign(try_folder(real.string()), std::system_category());
  if (error) {
    problem_ = "the folder " + path + " cannot be used: " + error.message();
  } else {
    path_ = real.string();
  }
}

RunFolder::~RunFolder() {
  std::error_code ignored;  // a process that outlives the run may still add to it; then it stays
  if (is_private_ && !path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace tidepool::tools
