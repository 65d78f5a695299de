#include "planner/plan/trace_writer.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>

#include "allocator/support/text_writer.h"
#include "planner/plan/trace_codec.h"

namespace tidepool::plan {

/// What a thread writes with. Only its owner touches it, but for `taken`.
struct alignas(128) TraceWriter::Slot {
  std::atomic<bool> taken{false};
  std::uint32_t number = 0;
  std::uint32_t thread = 0;        ///< the owner
  std::uint32_t told_thread = 0;   ///< whom the chunk says that it is
  std::uint32_t until_anchor = 0;  ///< records left until the clocks are read
  ChunkHeader* chunk = nullptr;    ///< null: none yet
  std::uint8_t* at = nullptr;
  std::uint8_t* end = nullptr;
  CodecState state;
};

namespace {

constexpr std::uint64_t kPiece = std::uint64_t{4} << 20;  // what the file grows by
constexpr unsigned kMostFilesPerPid = 1000;
constexpr std::uint32_t kRecordsPerAnchor = 1024;

// initial-exec: no allocation and no call into the dynamic linker on access.
struct ThreadEntry {
  std::uint64_t writer = 0;  // TraceWriter::id_
  void* slot = nullptr;
  std::atomic<bool>* taken = nullptr;
};
__attribute__((tls_model("initial-exec"))) thread_local ThreadEntry t_entry;

pthread_key_t g_exit_key;
bool g_have_key = false;
pthread_once_t g_exit_once = PTHREAD_ONCE_INIT;
std::atomic<std::uint64_t> g_last_id{0};

void give_back(void* taken) {
  t_entry = {};
  static_cast<std::atomic<bool>*>(taken)->store(false, std::memory_order_release);
}

std::uint64_t ticks() noexcept {
  return __rdtsc() >> kTickShift;
}

TraceAnchor anchor_now() noexcept {
  return {ticks(), monotonic_now().count()};
}

/// A new file for this process, or -1 and errno. It is made without following links and only for this user.
int create_file(const char* folder, char* path, std::size_t size) noexcept {
  for (unsigned attempt = 0; attempt <= kMostFilesPerPid; ++attempt) {
    TextWriter out(path, size);
    out.put(folder).put("/trace");
    if (attempt > 0) out.put(".").put_number(static_cast<std::uint64_t>(getpid()));
    if (attempt > 1) out.put(".").put_number(attempt - 1);
    out.put(".tptrace");
    const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

/// Gives the file room on the disk. A store through the mapping must not find a full disk (SIGBUS), nor the
/// call a size limit (SIGXFSZ).
int reserve_room(int fd, std::uint64_t from, std::uint64_t to) noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < to)
    return EFBIG;
  int result = 0;
  do {
    result = posix_fallocate(fd, static_cast<off_t>(from), static_cast<off_t>(to - from));
  } while (result == EINTR);
  return result;
}

}  // namespace

TraceWriter::~TraceWriter() {
  on_.store(false, std::memory_order_relaxed);
  unmap();
}

void TraceWriter::unmap() noexcept {
  if (header_ != nullptr) munmap(header_, most_bytes_);
  header_ = nullptr;
}

int TraceWriter::open(const char* folder, Bytes most) noexcept {
  if (opened_) return 0;
  opened_ = true;
  const int saved_errno = errno;
  // The program may change its folder later.
  char real_folder[PATH_MAX];
  if (realpath(folder, real_folder) == nullptr) return errno;
  most_bytes_ = std::max(most, kLeastSize).count();
  const int fd = create_file(real_folder, path_, sizeof path_);
  if (fd < 0) return errno;
  struct stat file {};
  int problem = fstat(fd, &file) == 0 ? 0 : errno;
  file_device_ = file.st_dev;
  file_inode_ = file.st_ino;
  const std::uint64_t first = std::min(kPiece, most_bytes_);
  if (problem == 0) problem = reserve_room(fd, 0, first);
  void* const slots =
      mmap(nullptr, sizeof(Slot) * kMaxThreads, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* const mapping = mmap(nullptr, most_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (problem == 0 && (slots == MAP_FAILED || mapping == MAP_FAILED)) problem = ENOMEM;
  ::close(fd);
  if (problem != 0) {
    if (mapping != MAP_FAILED) munmap(mapping, most_bytes_);
    if (slots != MAP_FAILED) munmap(slots, sizeof(Slot) * kMaxThreads);
    unlink(path_);
    return problem;
  }
  slots_ = static_cast<Slot*>(slots);
  for (std::uint32_t i = 0; i < kMaxThreads; ++i) new (&slots_[i]) Slot{};
  header_ = static_cast<TraceHeader*>(mapping);
  grown_.store(first, std::memory_order_relaxed);
  id_ = g_last_id.fetch_add(1, std::memory_order_relaxed) + 1;
  sequence_.store(0, std::memory_order_relaxed);

  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  header_->version = kTraceVersion;
  header_->header_bytes = kTraceHeaderBytes;
  header_->chunk_bytes = kChunkBytes;
  header_->chunk_header_bytes = sizeof(ChunkHeader);
  header_->tick_shift = kTickShift;
  header_->pid = getpid();
  header_->start_unix_ns = static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
  header_->max_bytes = most_bytes_;
  TextWriter(header_->program, sizeof header_->program).put(program_invocation_short_name);
  header_->start = header_->latest[0] = anchor_now();
  header_->magic.store(kTraceMagic, std::memory_order_release);
  on_.store(true, std::memory_order_release);
  errno = saved_errno;
  return 0;
}

TraceEnd TraceWriter::end() const noexcept {
  return header_ == nullptr ? TraceEnd::kClosed
                            : static_cast<TraceEnd>(header_->end.load(std::memory_order_acquire));
}

std::uint64_t TraceWriter::last_sequence() noexcept {
  return t_entry.writer == id_ ? static_cast<const Slot*>(t_entry.slot)->state.sequence : 0;
}

int TraceWriter::end_errno() const noexcept {
  return header_ == nullptr ? 0 : static_cast<int>(header_->end_errno.load(std::memory_order_relaxed));
}

void TraceWriter::end_with(TraceEnd end, int why) noexcept {
  auto running = static_cast<std::uint32_t>(TraceEnd::kRunning);
  if (why != 0) header_->end_errno.store(static_cast<std::uint32_t>(why), std::memory_order_relaxed);
  (void)header_->end.compare_exchange_strong(running, static_cast<std::uint32_t>(end),
                                             std::memory_order_acq_rel);
}

void TraceWriter::close() noexcept {
  if (header_ == nullptr || !on_.exchange(false)) return;
  set_anchor();
  end_with(TraceEnd::kClosed, 0);
}

void TraceWriter::abandon_after_fork() noexcept {
  on_.store(false, std::memory_order_relaxed);
  unmap();
  t_entry = {};
  if (g_have_key) (void)::pthread_setspecific(g_exit_key, nullptr);
  new (&grow_lock_) std::mutex;  // a thread of the parent may have held it
  anchor_busy_.store(false, std::memory_order_relaxed);
  opened_ = false;
}

void TraceWriter::drop() noexcept {
  if (end() == TraceEnd::kClosed) return;  // the process has said that nothing more counts
  header_->dropped.fetch_add(1, std::memory_order_relaxed);
}

TraceWriter::Slot* TraceWriter::take_slot() noexcept {
  ::pthread_once(&g_exit_once, [] { g_have_key = ::pthread_key_create(&g_exit_key, &give_back) == 0; });
  if (t_entry.taken != nullptr) t_entry.taken->store(false, std::memory_order_release);
  t_entry = {};
  for (std::uint32_t i = 0; i < kMaxThreads; ++i) {
    Slot& slot = slots_[i];
    bool free = false;
    if (!slot.taken.compare_exchange_strong(free, true, std::memory_order_acq_rel)) continue;
    slot.number = i;
    slot.thread = static_cast<std::uint32_t>(::syscall(SYS_gettid));
    // Without a key (a process has 1,024) slots are not given back, and threads beyond the last are not
    // recorded.
    if (g_have_key) ::pthread_setspecific(g_exit_key, &slot.taken);
    t_entry = {id_, &slot, &slot.taken};
    return &slot;
  }
  return nullptr;
}

TraceWriter::Slot* TraceWriter::slot_of_thread() noexcept {
  if (t_entry.writer == id_) [[likely]]
    return static_cast<Slot*>(t_entry.slot);
  return take_slot();
}

int TraceWriter::take_room(std::uint64_t from, std::uint64_t to) noexcept {
  const int fd = ::open(path_, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return errno;
  struct stat file {};
  int problem = fstat(fd, &file) == 0 ? 0 : errno;
  if (problem == 0 && (file.st_dev != file_device_ || file.st_ino != file_inode_)) problem = ESTALE;
  if (problem == 0) problem = reserve_room(fd, from, to);
  ::close(fd);
  return problem;
}

bool TraceWriter::grow_to(std::uint64_t bytes) noexcept {
  if (bytes <= grown_.load(std::memory_order_acquire)) return true;
  const std::lock_guard guard(grow_lock_);
  const std::uint64_t have = grown_.load(std::memory_order_acquire);
  if (bytes <= have) return true;
  const std::uint64_t want = std::min(have + kPiece, most_bytes_);
  const int saved_errno = errno;
  const int problem = take_room(have, want);
  errno = saved_errno;
  if (problem != 0) {
    end_with(TraceEnd::kNoSpace, problem);
    return false;
  }
  grown_.store(want, std::memory_order_release);
  return bytes <= want;
}

bool TraceWriter::next_chunk(Slot& slot, std::uint64_t sequence) noexcept {
  slot.chunk = nullptr;
  const std::uint64_t index = header_->chunks.fetch_add(1, std::memory_order_relaxed);
  const std::uint64_t begin = kTraceHeaderBytes + index * kChunkBytes;
  if (begin + kChunkBytes > most_bytes_) {
    end_with(TraceEnd::kFull, 0);
    on_.store(false, std::memory_order_relaxed);
    return false;
  }
  // Chunks are handed out in order, and several threads may be ahead of the file by one chunk each.
  while (begin + kChunkBytes > grown_.load(std::memory_order_acquire)) {
    if (grow_to(begin + kChunkBytes)) break;
    if (end() != TraceEnd::kRunning) {
      on_.store(false, std::memory_order_relaxed);
      return false;
    }
  }
  slot.chunk = reinterpret_cast<ChunkHeader*>(reinterpret_cast<std::uint8_t*>(header_) + begin);
  slot.at = reinterpret_cast<std::uint8_t*>(slot.chunk + 1);
  slot.end = slot.at + kChunkRoom;
  slot.state = {sequence, ticks(), 0, 0};
  slot.told_thread = slot.thread;
  slot.chunk->first_sequence = sequence;
  slot.chunk->first_tick = slot.state.tick;
  slot.chunk->writer = slot.number;
  slot.chunk->thread = slot.thread;
  slot.chunk->magic.store(kChunkMagic, std::memory_order_release);
  set_anchor();
  return true;
}

// Two places, so that a process killed in here leaves one that is whole.
void TraceWriter::set_anchor() noexcept {
  if (anchor_busy_.exchange(true, std::memory_order_acquire)) return;
  const std::uint32_t other = (header_->latest_index.load(std::memory_order_relaxed) + 1) % 2;
  header_->latest[other] = anchor_now();
  header_->latest_index.store(other, std::memory_order_release);
  anchor_busy_.store(false, std::memory_order_release);
}

template <class Record>
void TraceWriter::encode(Slot& slot, std::uint64_t sequence, const Record& record) noexcept {
  std::uint8_t* const begin = slot.at + 1;  // most records are shorter than 128 bytes: a length of one byte
  CodecState state = slot.state;  // a copy: the bytes written could be it, for all the compiler knows
  Encoder encoder(begin, state);
  encoder.number(Record::kKind);
  encoder.number(sequence - state.sequence);
  state.sequence = sequence;
  // Clocks of two cores may differ by a little; time does not run back in a trace.
  const std::uint64_t now = std::max(ticks(), state.tick);
  encoder.number(now - state.tick);
  state.tick = now;
  Record::fields(encoder, record);
  slot.state = state;
  auto size = static_cast<std::size_t>(encoder.at() - begin);
  std::size_t length_bytes = 1;
  if (size >= 0x80) [[unlikely]] {
    length_bytes = size < 0x4000 ? 2 : 3;
    std::memmove(slot.at + length_bytes, begin, size);
    for (std::size_t i = 0; i + 1 < length_bytes; ++i)
      slot.at[i] = static_cast<std::uint8_t>((size >> 7 * i) | 0x80);
  }
  slot.at[length_bytes - 1] = static_cast<std::uint8_t>(size >> 7 * (length_bytes - 1));
  slot.at += length_bytes + size;
  // The record is there before the length that covers it: also a process killed here leaves whole records.
  const auto used = static_cast<std::uint32_t>(slot.at - reinterpret_cast<std::uint8_t*>(slot.chunk + 1));
  slot.chunk->used.store(used, std::memory_order_release);
}

template <class Record>
bool TraceWriter::write(const Record& record) noexcept {
  if (!is_on()) {
    if (header_ != nullptr) drop();
    return false;
  }
  Slot* const slot = slot_of_thread();
  const std::size_t longest = longest_encoding(record) + longest_encoding(ThreadRecord());
  if (slot == nullptr || longest > kChunkRoom) {
    drop();
    return false;
  }
  std::uint64_t sequence = sequence_.fetch_add(1, std::memory_order_relaxed);
  if (slot->chunk == nullptr || static_cast<std::size_t>(slot->end - slot->at) < longest) [[unlikely]] {
    if (!next_chunk(*slot, sequence)) {
      drop();
      return false;
    }
  }
  if (slot->told_thread != slot->thread) [[unlikely]] {
    encode(*slot, sequence, ThreadRecord{slot->thread});
    slot->told_thread = slot->thread;
    sequence = sequence_.fetch_add(1, std::memory_order_relaxed);
  }
  encode(*slot, sequence, record);
  if (slot->until_anchor-- == 0) [[unlikely]] {
    slot->until_anchor = kRecordsPerAnchor;
    set_anchor();
  }
  return true;
}

template bool TraceWriter::write(const ThreadRecord&) noexcept;
template bool TraceWriter::write(const DeviceRecord&) noexcept;
template bool TraceWriter::write(const KernelRecord&) noexcept;
template bool TraceWriter::write(const ModuleRecord&) noexcept;
template bool TraceWriter::write(const StackRecord&) noexcept;
template bool TraceWriter::write(const AllocationRecord&) noexcept;
template bool TraceWriter::write(const FreeRecord&) noexcept;
template bool TraceWriter::write(const LaunchRecord&) noexcept;
template bool TraceWriter::write(const CopyRecord&) noexcept;
template bool TraceWriter::write(const MoveRecord&) noexcept;
template bool TraceWriter::write(const IterationRecord&) noexcept;
template bool TraceWriter::write(const DurationRecord&) noexcept;
template bool TraceWriter::write(const ProfileRecord&) noexcept;

}  // namespace tidepool::plan
