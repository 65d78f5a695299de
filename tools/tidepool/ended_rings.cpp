#include "tools/tidepool/ended_rings.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <utility>

#include "tools/tidepool/event_reader.h"

namespace tidepool::tools {
namespace {

/// A file that is closed at the end of the scope.
struct OpenFile {
  int fd;
  OpenFile(const std::string& path, int how)
      : fd(open(path.c_str(), how | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {}
  ~OpenFile() {
    if (fd >= 0) close(fd);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
};

}  // namespace

// A process number says nothing across containers, nor once it is used again. A lease for reading is granted
// only where no open file can write, and a mapping keeps its file open (fcntl(2), F_SETLEASE).
std::optional<bool> is_written(const std::string& path) {
  const OpenFile file(path, O_RDONLY);
  if (file.fd < 0) return std::nullopt;
  // Whoever opens it for writing while the lease is held has this process told so. The usual signal would end
  // it.
  if (fcntl(file.fd, F_SETSIG, SIGURG) != 0) return std::nullopt;
  if (fcntl(file.fd, F_SETLEASE, F_RDLCK) != 0) return errno == EAGAIN ? std::optional(true) : std::nullopt;
  (void)fcntl(file.fd, F_SETLEASE, F_UNLCK);
  return false;
}

bool is_written_by_nobody(const std::string& path) {
  return is_written(path) == false;
}

void give_back_unused_room(const std::string& path) {
  const std::optional<EventReader> reader = EventReader::open(path);
  if (!reader) return;
  const std::uint64_t used = std::min<std::uint64_t>(reader->written(), kEventRecordCount);
  constexpr std::size_t kPage = 4096;
  const std::size_t first = offsetof(EventRingLayout, records) + used * sizeof(EventRecord);
  const std::size_t begin = (first + kPage - 1) / kPage * kPage;
  if (begin >= sizeof(EventRingLayout)) return;
  const OpenFile file(path, O_RDWR);
  if (file.fd < 0) return;
  (void)fallocate(file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
                  static_cast<off_t>(sizeof(EventRingLayout) - begin));
}

EndedRings::EndedRings(std::string folder, std::string run_id, bool is_read)
    : folder_(std::move(folder)), run_id_(std::move(run_id)), is_read_(is_read) {}

void EndedRings::sweep() {
  for (const std::string& ring : list_event_rings(folder_)) {
    if (done_.contains(ring)) continue;
    const std::string path = folder_ + "/" + ring;
    const std::optional<EventReader> reader = EventReader::open(path);
    if (!reader) continue;  // not complete yet, or of another version
    const bool is_ours = reader->source().run_id == run_id_;
    if (is_ours && !is_written_by_nobody(path)) continue;
    if (is_ours && is_read_) give_back_unused_room(path);
    if (is_ours && !is_read_) unlink(path.c_str());
    if (is_read_ || !is_ours) done_.insert(ring);
  }
}

}  // namespace tidepool::tools
