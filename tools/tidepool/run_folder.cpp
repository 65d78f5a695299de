#include "tools/tidepool/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
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

constexpr char kPrivatePrefix[] = "tidepool-run-";
constexpr char kOwnerFile[] = "owner";

/// A new private folder and the lock that says it is in use: -1, and errno, if there is none. The lock ends
/// with this process, however that ends; who can take it knows that nobody needs the folder.
int make_private(std::string& path) {
  if (mkdtemp(path.data()) == nullptr) return -1;
  const std::string owner = path + "/" + kOwnerFile;
  const int fd = open(owner.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  struct stat file;
  // A sweep of another run may have come between: then its lock was first and the folder is gone.
  if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &file) == 0 && file.st_nlink > 0) return fd;
  const int problem = errno;
  if (fd >= 0) close(fd);
  std::error_code ignored;
  fs::remove_all(path, ignored);
  errno = problem;
  return -1;
}

/// Removes what runs left in `parent` that were ended by SIGKILL. Only this user's folders, and only those
/// whose owner holds its lock no more.
void sweep(const std::string& parent) {
  std::error_code error;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error)) {
    const fs::path folder = entry->path();
    struct stat file;
    if (!folder.filename().string().starts_with(kPrivatePrefix) || lstat(folder.c_str(), &file) != 0 ||
        !S_ISDIR(file.st_mode) || file.st_uid != geteuid()) {
      continue;
    }
    const int fd = open((folder / kOwnerFile).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) continue;  // of another kind, or just being made
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
      std::error_code ignored;
      fs::remove_all(folder, ignored);
    }
    close(fd);
  }
}

}  // namespace

RunFolder::RunFolder() : is_private_(true) {
  const char* const candidates[] = {std::getenv("XDG_RUNTIME_DIR"), std::getenv("TMPDIR"), "/tmp"};
  for (const char* const parent : candidates) {
    if (parent == nullptr || parent[0] != '/') continue;
    sweep(parent);
    std::string path = std::string(parent) + "/" + kPrivatePrefix + "XXXXXX";
    const int owner = make_private(path);
    if (owner < 0) {
      problem_ = std::strerror(errno);
      continue;
    }
    const int problem = try_folder(path);
    if (problem == 0) {
      path_ = path;
      owner_ = owner;
      return;
    }
    problem_ = std::strerror(problem);
    close(owner);
    std::error_code ignored;
    fs::remove_all(path, ignored);
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
  if (owner_ >= 0) close(owner_);
}

}  // namespace tidepool::tools
