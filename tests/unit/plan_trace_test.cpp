#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstring>
#include <fstream>

#include "planner/plan/trace_writer.h"
#include "tests/process/child_process.h"
#include "tests/unit/trace_samples.h"

namespace tidepool::plan {
namespace {

using test::draw_sample;
using test::read_all;
using test::ReadTrace;
using test::Sample;
using test::ScratchFolder;
using test::text_of;
using test::trace_in;

bool write_any(TraceWriter& writer, const AnyRecord& record) {
  return std::visit([&](const auto& typed) { return writer.write(typed); }, record);
}

std::vector<std::uint8_t> bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<std::uint8_t> bytes(std::filesystem::file_size(path));
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

/// A small trace: its bytes up to the last record, and the records.
struct SmallTrace {
  std::vector<std::uint8_t> bytes;
  std::vector<std::string> texts;
};
SmallTrace small_trace(std::uint64_t seed, unsigned records) {
  const ScratchFolder folder;
  SmallTrace trace;
  {
    TraceWriter writer;
    REQUIRE(writer.open(folder.path().c_str(), MiB(1)) == 0);
    std::mt19937_64 random(seed);
    for (unsigned i = 0; i < records; ++i) {
      const Sample sample = draw_sample(random);
      REQUIRE(write_any(writer, sample.record));
      trace.texts.push_back(text_of(sample.record));
    }
    writer.close();
  }
  trace.bytes = bytes_of(trace_in(folder.path()));
  return trace;
}

/// A file whose only chunk has these bytes as records.
std::vector<std::uint8_t> image_of(const std::vector<std::uint8_t>& records) {
  std::vector<std::uint8_t> bytes = small_trace(1, 1).bytes;
  bytes.resize(kTraceHeaderBytes + kChunkBytes);
  std::uint8_t* const chunk = bytes.data() + kTraceHeaderBytes;
  std::memcpy(chunk + sizeof(ChunkHeader), records.data(), records.size());
  const auto used = static_cast<std::uint32_t>(records.size());
  std::memcpy(chunk + offsetof(ChunkHeader, used), &used, sizeof used);
  return bytes;
}

TEST_CASE("trace: what is written comes back, in order, with its time and thread") {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    const ScratchFolder folder;
    std::mt19937_64 random(seed);
    std::vector<std::string> texts;
    {
      TraceWriter writer;
      REQUIRE(writer.open(folder.path().c_str(), MiB(16)) == 0);
      for (std::uint64_t i = 0, n = 1 + random() % 400; i < n; ++i) {
        const Sample sample = draw_sample(random);
        REQUIRE(write_any(writer, sample.record));
        texts.push_back(text_of(sample.record));
      }
      writer.close();
      CHECK_FALSE(writer.write(ThreadRecord{}));
    }
    const ReadTrace trace = read_all(trace_in(folder.path()));
    REQUIRE(trace.texts == texts);
    CHECK_FALSE(trace.damage.any());
    CHECK(trace.info.end == TraceEnd::kClosed);
    CHECK(trace.info.dropped == 0);  // what comes after the end is none of its business
    CHECK(trace.info.pid == getpid());
    CHECK(trace.info.program == "plan_trace_test");
    for (std::size_t i = 0; i < trace.heads.size(); ++i) {
      REQUIRE(trace.heads[i].sequence == i);
      REQUIRE((i == 0 || trace.heads[i].tick >= trace.heads[i - 1].tick));
    }
  }
}

TEST_CASE("trace: a launch of eight blocks takes at most 32 bytes") {
  const ScratchFolder folder;
  TraceWriter writer;
  REQUIRE(writer.open(folder.path().c_str(), MiB(1)) == 0);
  const std::uint32_t blocks[] = {301, 302, 17, 305, 1200, 1201, 40, 41};
  const auto used = [&] {
    std::uint32_t n = 0;
    const std::vector<std::uint8_t> bytes = bytes_of(trace_in(folder.path()));
    std::memcpy(&n, bytes.data() + kTraceHeaderBytes + offsetof(ChunkHeader, used), sizeof n);
    return n;
  };
  constexpr std::uint32_t kLaunches = 1000;
  const LaunchRecord launch{0x7f12'3456'7890, 77, {{432, 1, 1}, {256, 1, 1}}, 16384, false, blocks};
  REQUIRE(writer.write(launch));
  const std::uint32_t first = used();
  for (std::uint32_t i = 0; i < kLaunches; ++i) REQUIRE(writer.write(launch));
  CHECK((used() - first) / kLaunches <= 32);
}

/// From here on the kernel kills the process for any system call but its end and, where the clock is not in
/// the vDSO, reading it.
bool allow_exit_and_clock_only() {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(rules)), rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_CASE("trace: within a chunk a record needs no system call", "[plain]") {
  const ScratchFolder folder;
  const pid_t pid = fork();
  if (pid == 0) {
    TraceWriter writer;
    if (writer.open(folder.path().c_str(), MiB(1)) != 0) _exit(1);
    const std::uint32_t blocks[] = {1, 2, 3};
    (void)writer.write(LaunchRecord{1, 1, {}, 0, false, blocks});
    if (!allow_exit_and_clock_only()) _exit(2);
    bool all = true;
    for (int i = 0; i < 2000; ++i) all = writer.write(LaunchRecord{1, 1, {}, 0, false, blocks}) && all;
    syscall(SYS_exit, all ? 0 : 3);
  }
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  REQUIRE(status == 0);
  CHECK(read_all(trace_in(folder.path())).texts.size() == 2001);
}

TEST_CASE("trace: what reaches its largest size stops there and says how much is missing") {
  const ScratchFolder folder;
  std::uint64_t written = 0;
  std::uint64_t dropped = 0;
  {
    TraceWriter writer;
    REQUIRE(writer.open(folder.path().c_str(), MiB(1)) == 0);
    while (writer.write(KernelRecord{static_cast<std::uint32_t>(written), "a kernel"})) ++written;
    for (dropped = 1; dropped < 10; ++dropped) CHECK_FALSE(writer.write(ThreadRecord{}));
    CHECK_FALSE(writer.is_on());
    CHECK(writer.end() == TraceEnd::kFull);
  }
  const std::string path = trace_in(folder.path());
  CHECK(std::filesystem::file_size(path) <= MiB(1).count());
  const ReadTrace trace = read_all(path);
  CHECK(trace.info.end == TraceEnd::kFull);
  CHECK(trace.info.dropped == dropped);
  CHECK(trace.texts.size() == written);
  CHECK(written > MiB(1).count() / 20);
  CHECK_FALSE(trace.damage.any());
}

TEST_CASE("trace: no more room on the disk ends the recording, not the process") {
  const ScratchFolder folder;
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit limit{rlim_t{6} << 20, rlim_t{6} << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
    TraceWriter writer;
    if (writer.open(folder.path().c_str(), MiB(64)) != 0) _exit(1);
    std::uint32_t written = 0;
    while (writer.write(KernelRecord{written, "a kernel"})) ++written;
    _exit(writer.end() == TraceEnd::kNoSpace && writer.end_errno() == EFBIG ? 0 : 2);
  }
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  REQUIRE(status == 0);
  const ReadTrace trace = read_all(trace_in(folder.path()));
  CHECK(trace.info.end == TraceEnd::kNoSpace);
  CHECK(trace.info.end_errno == EFBIG);
  CHECK(trace.info.dropped == 1);
  CHECK(trace.texts.size() > (std::size_t{4} << 20) / 20);
  CHECK_FALSE(trace.damage.any());
}

TEST_CASE("trace: a file that was taken away is not written to, nor is one in its place") {
  const ScratchFolder folder;
  TraceWriter writer;
  REQUIRE(writer.open(folder.path().c_str(), MiB(64)) == 0);
  const std::string path = trace_in(folder.path());
  std::filesystem::remove(path);
  test::write_file(path, "other");
  while (writer.write(KernelRecord{1, "a kernel"})) {
  }
  CHECK(writer.end() == TraceEnd::kNoSpace);
  CHECK(writer.end_errno() == ESTALE);
  CHECK(std::filesystem::file_size(path) == 5);
}

TEST_CASE("trace: where no file can be made nothing is recorded") {
  const ScratchFolder folder;
  TraceWriter missing;
  CHECK(missing.open((folder / "missing").c_str(), MiB(1)) == ENOENT);
  CHECK_FALSE(missing.write(ThreadRecord{}));
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit limit{1 << 20, 1 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
    TraceWriter writer;
    _exit(writer.open(folder.path().c_str(), MiB(64)) == EFBIG && !writer.is_on() ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  CHECK(status == 0);
  CHECK(test::names_in(folder.path()).empty());
}

TEST_CASE("trace: processes of one run write files of their own") {
  const ScratchFolder folder;
  TraceWriter first;
  TraceWriter second;
  TraceWriter third;
  for (TraceWriter* writer : {&first, &second, &third})
    REQUIRE(writer->open(folder.path().c_str(), MiB(1)) == 0);
  const std::string pid = std::to_string(getpid());
  CHECK(test::names_in(folder.path()) == std::vector<std::string>{"trace." + pid + ".1.tptrace",
                                                                  "trace." + pid + ".tptrace",
                                                                  "trace.tptrace"});
}

TEST_CASE("trace: a forked child does not write into its parent's file and can have one") {
  const ScratchFolder folder;
  const ScratchFolder other;
  TraceWriter writer;
  REQUIRE(writer.open(folder.path().c_str(), MiB(1)) == 0);
  REQUIRE(writer.write(ThreadRecord{1}));
  const pid_t pid = fork();
  if (pid == 0) {
    writer.abandon_after_fork();
    if (writer.write(ThreadRecord{2})) _exit(1);
    if (writer.open(other.path().c_str(), MiB(1)) != 0) _exit(2);
    _exit(writer.write(ThreadRecord{3}) ? 0 : 3);
  }
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  REQUIRE(status == 0);
  REQUIRE(writer.write(ThreadRecord{4}));
  CHECK(read_all(trace_in(folder.path())).texts ==
        std::vector{text_of(ThreadRecord{1}), text_of(ThreadRecord{4})});
  CHECK(read_all(trace_in(other.path())).texts == std::vector{text_of(ThreadRecord{3})});
}

TEST_CASE("trace: a file cut anywhere gives the records before the cut, and says that it is cut") {
  const SmallTrace trace = small_trace(7, 60);
  std::uint32_t used = 0;
  std::memcpy(&used, trace.bytes.data() + kTraceHeaderBytes + offsetof(ChunkHeader, used), sizeof used);
  const std::size_t end = kTraceHeaderBytes + sizeof(ChunkHeader) + used;
  REQUIRE(used < kChunkRoom);
  std::size_t most = 0;
  for (std::size_t size = 0; size < end; ++size) {
    INFO("cut to " << size);
    const std::vector<std::uint8_t> cut(trace.bytes.begin(),
                                        trace.bytes.begin() + static_cast<std::ptrdiff_t>(size));
    const TraceBytes source(cut);
    const auto reader = TraceReader::open(source);
    REQUIRE(reader.ok() == (size >= kTraceHeaderBytes));
    if (!reader.ok()) continue;
    const ReadTrace got = read_all(source);
    REQUIRE(got.texts.size() < trace.texts.size());
    REQUIRE(got.texts.size() >= most);
    most = got.texts.size();
    REQUIRE(std::equal(got.texts.begin(), got.texts.end(), trace.texts.begin()));
    REQUIRE(got.damage.missing_bytes > 0);
  }
  CHECK(most == trace.texts.size() - 1);
}

TEST_CASE("trace: damaged bytes are read without harm") {
  const SmallTrace trace = small_trace(11, 100);
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    std::vector<std::uint8_t> bytes = trace.bytes;
    bytes.resize(kTraceHeaderBytes + kChunkBytes);
    for (std::uint64_t i = 0, n = 1 + random() % 8; i < n; ++i) {
      const std::size_t at =
          random() % 2 == 0 ? random() % (kTraceHeaderBytes + 4096) : random() % bytes.size();
      bytes[at] = static_cast<std::uint8_t>(random());
    }
    const ReadTrace got = read_all(TraceBytes(bytes));
    // A byte can turn a long record into several short ones, never into more than there are bytes for.
    REQUIRE(got.texts.size() < kChunkRoom / 3);
    REQUIRE(std::is_sorted(got.heads.begin(), got.heads.end(),
                           [](const auto& a, const auto& b) { return a.sequence < b.sequence; }));
  }
}

TEST_CASE("trace: records of an older and of a newer writer can be read") {
  // Length, kind, sequence, time, fields.
  const std::vector<std::uint8_t> records = {
      4, 10, 0, 0, 5,               // a move that ends behind its first field
      8, 1,  1, 0, 9,  1, 2, 3, 4,  // a thread with four fields more
      5, 99, 1, 0, 7,  7,           // a kind that does not exist yet
      4, 1,  1, 0, 11,              // and one that does
  };
  const std::vector<std::uint8_t> image = image_of(records);
  const ReadTrace trace = read_all(TraceBytes(image));
  CHECK(trace.texts == std::vector{text_of(MoveRecord{5, MoveKind::kOut, MoveCause::kDemand, 0}),
                                   text_of(ThreadRecord{9}), text_of(ThreadRecord{11})});
  CHECK(trace.damage.unknown_records == 1);
  CHECK(trace.damage.damaged_chunks == 0);
  CHECK(trace.heads.back().thread == 11);
}

TEST_CASE("trace: other files are refused with the reason") {
  std::vector<std::uint8_t> bytes = small_trace(3, 3).bytes;
  const auto refusal = [&] {
    const TraceBytes source(bytes);
    const auto reader = TraceReader::open(source);
    return reader.ok() ? std::string("taken") : reader.error();
  };
  CHECK(refusal() == "taken");
  bytes[offsetof(TraceHeader, chunk_bytes)] ^= 1;
  CHECK(refusal() == "is a trace with a damaged header");
  bytes[offsetof(TraceHeader, version)] = 9;
  CHECK(refusal() == "is a trace of version 9, and this reader knows version 1");
  bytes[0] = 0;
  CHECK(refusal() == "is no trace");
  bytes.clear();
  CHECK(refusal() == "is no trace");
  CHECK(TraceFile("/nonexistent").error() == ENOENT);
  CHECK(TraceFile("/tmp").error() == EISDIR);
}

TEST_CASE("trace: times follow the clock") {
  const ScratchFolder folder;
  TraceWriter writer;
  REQUIRE(writer.open(folder.path().c_str(), MiB(1)) == 0);
  const Nanos before = monotonic_now();
  REQUIRE(writer.write(ThreadRecord{1}));
  usleep(30'000);
  REQUIRE(writer.write(ThreadRecord{2}));
  const Nanos after = monotonic_now();
  writer.close();
  const TraceFile file(trace_in(folder.path()));
  auto reader = TraceReader::open(file);
  REQUIRE(reader.ok());
  RecordHead head[2];
  AnyRecord record;
  REQUIRE(reader->next(head[0], record));
  REQUIRE(reader->next(head[1], record));
  const Nanos took = reader->time_of(head[1].tick) - reader->time_of(head[0].tick);
  CHECK(took >= millis(30) - millis(1));
  CHECK(took <= after - before + millis(1));
}

}  // namespace
}  // namespace tidepool::plan
