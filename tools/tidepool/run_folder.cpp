#include "tools/tidepool/run_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace tidepool::tools {

namespace fs = std::filesystem;

RunFolder::RunFolder() : is_private_(true) {
  const char* const candidates[] = {std::getenv("XDG_RUNTIME_DIR"), std::getenv("TMPDIR"), "/tmp"};
  for (const char* const parent : candidates) {
    if (parent == nullptr || parent[0] != '/') continue;
    std::string path = std::string(parent) + "/tidepool-run-XXXXXX";
    if (mkdtemp(path.data()) != nullptr) {
      path_ = path;
      return;
    }
  }
  problem_ = std::string("no folder for the run could be made in /tmp: ") + std::strerror(errno);
}

RunFolder::RunFolder(const std::string& path) {
  std::error_code error;
  const mode_t before = umask(077);
  fs::create_directories(path, error);
  umask(before);
  const fs::path real = error ? fs::path() : fs::canonical(path, error);
  if (!error && !fs::is_directory(real)) error = std::make_error_code(std::errc::not_a_directory);
  if (!error && access(real.c_str(), W_OK | X_OK) != 0) error.assign(errno, std::system_category());
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
