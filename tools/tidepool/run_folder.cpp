#include "tools/tidepool/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
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
/// The name while it is made: nobody may take it for one that was left, before its lock is held.
constexpr char kNewPrefix[] = "tidepool-new-";
constexpr char kOwnerFile[] = "owner";

/// A new private folder in `parent` and the lock that says it is in use: -1, and errno, if there is none. The
/// lock ends with this process, however that ends; who can take it knows that nobody needs the folder.
int make_private(const std::string& parent, std::string* path) {
  std::string made = parent + "/" + kNewPrefix + "XXXXXX";
  if (mkdtemp(made.data()) == nullptr) return -1;
  const int fd = open((made + "/" + kOwnerFile).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  *path = parent + "/" + kPrivatePrefix + made.substr(made.size() - 6);
  if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && rename(made.c_str(), path->c_str()) == 0) return fd;
  const int problem = errno;
  if (fd >= 0) close(fd);
  std::error_code ignored;
  fs::remove_all(made, ignored);
  errno = problem;
  return -1;
}

/// Could this be the folder of a run that ended without removing it?
bool may_be_left(const fs::path& folder) {
  constexpr std::time_t kMakingTakes = 60;  // seconds, by far
  struct stat file;
  if (lstat(folder.c_str(), &file) != 0 || !S_ISDIR(file.st_mode) || file.st_uid != geteuid()) return false;
  const std::string name = folder.filename().string();
  return name.starts_with(kPrivatePrefix) ||
         (name.starts_with(kNewPrefix) && std::time(nullptr) - file.st_mtime > kMakingTakes);
}

/// Removes what runs left in `parent` that were ended by SIGKILL. Only this user's folders, and only those
/// whose owner holds its lock no more.
void sweep(const std::string& parent) {
  std::error_code error;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error)) {
    if (!entry->path().filename().string().starts_with("tidepool-") || !may_be_left(entry->path())) continue;
    const int fd = open((entry->path() / kOwnerFile).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) continue;  // of another kind
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
      std::error_code ignored;
      fs::remove_all(entry->path(), ignored);
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
    std::string path;
    const int owner = make_private(parent, &path);
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
  for (fs::path part = fs::absolute(path, error).lexically_normal();
       !part.empty() && fs::symlink_status(part, error).type() == fs::file_type::not_found;
       part = part.parent_path())
    made_.push_back(part.string());
  const mode_t before = umask(077);
  fs::create_directories(path, error);
  umask(before);
  std::error_code ignored;
  const fs::path real = error ? fs::path() : fs::canonical(path, error);
  if (!error && !fs::is_directory(real)) error = std::make_error_code(std::errc::not_a_directory);
  if (!error) error.assign(try_folder(real.string()), std::system_category());
  if (error) {
    const bool leads_nowhere = fs::is_symlink(path, ignored) && !fs::exists(path, ignored);
    problem_ = "the folder " + path +
               " cannot be used: " + (leads_nowhere ? "it is a link to what is not there" : error.message());
    unmake();
  } else {
    path_ = real.string();
  }
}

void RunFolder::unmake() {
  std::error_code ignored;  // what is not empty stays
  for (const std::string& made : made_) fs::remove(made, ignored);
  made_.clear();
}

RunFolder::~RunFolder() {
  std::error_code ignored;  // a process that outlives the run may still add to it; then it stays
  if (is_private_ && !path_.empty()) fs::remove_all(path_, ignored);
  if (owner_ >= 0) close(owner_);
}

}  // namespace tidepool::tools
