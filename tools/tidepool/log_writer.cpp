#include "tools/tidepool/log_writer.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <optional>
#include <utility>

#include "tools/tidepool/ended_rings.h"
#include "tools/tidepool/event_json.h"
#include "tools/tidepool/path_template.h"

namespace tidepool::tools {

namespace {

constexpr Nanos kUsualPeriod = millis(100);
constexpr Nanos kBusyPeriod = millis(5);
/// A ring that filled this much since the last look may overflow until the next.
constexpr std::uint64_t kBusy = kEventRecordCount / 8;
constexpr std::size_t kPredecessors = 1;
/// Logs that are open at a time. A run may have more processes than a process may have files.
constexpr std::size_t kMostOpen = 64;
constexpr Nanos kLookPeriod = seconds(1);
/// Logs that could be that of the program whose end nobody has seen yet.
constexpr std::size_t kMostEnded = 16;

/// Logs hold command lines: like the rest of a run they are their owner's. The command has one thread.
class PrivateFiles {
 public:
  PrivateFiles() : before_(umask(077)) {}
  ~PrivateFiles() { umask(before_); }
  PrivateFiles(const PrivateFiles&) = delete;
  PrivateFiles& operator=(const PrivateFiles&) = delete;

 private:
  const mode_t before_;
};

/// "log.jsonl" and "-1" are "log-1.jsonl"; "log.1.jsonl" is the predecessor of a log.
std::string with_suffix(const std::string& path, const std::string& suffix) {
  const std::filesystem::path whole(path);
  return (whole.parent_path() / (whole.stem().string() + suffix + whole.extension().string())).string();
}

}  // namespace

/// The ring of one process and the log that it goes to.
struct LogWriter::Log {
  Log(EventReader from, std::string to, std::string first)
      : reader(std::move(from)),
        source(reader->source()),
        start_ns(monotonic_now().count() - reader->age()),
        path(std::move(to)),
        header(std::move(first)) {}

  std::optional<EventReader> reader;  ///< none once it was read to its end
  EventSource source;
  std::int64_t start_ns;  ///< monotonic_now() when the ring was made
  std::string path;
  std::string header;
  bool is_begun = false;                 ///< its header was written
  std::optional<spdlog::logger> logger;  ///< while it is open
  std::uint64_t lost_told = 0;
};

void LogWriter::open(Log& log) {
  if (is_stderr(name_)) {
    log.logger.emplace("log", std::make_shared<spdlog::sinks::stderr_sink_st>());
    log.logger->set_pattern("%v");
    if (!log.is_begun) log.logger->info("{}", log.header.substr(0, log.header.size() - 1));
    log.is_begun = true;
    return;
  }
  spdlog::file_event_handlers handlers;
  handlers.after_open = [&log](const spdlog::filename_t&, std::FILE* file) {
    // Again in each file that is begun anew, but not where the same log is opened once more.
    const bool is_empty = std::fseek(file, 0, SEEK_END) == 0 && std::ftell(file) == 0;
    if (!log.is_begun || is_empty) std::fputs(log.header.c_str(), file);
    log.is_begun = true;
  };
  // The sink counts what it is given, not the header.
  const std::size_t room = most_.count() - std::min<std::size_t>(log.header.size(), most_.count() / 2);
  auto sink =
      std::make_shared<spdlog::sinks::rotating_file_sink_st>(log.path, room, kPredecessors, false, handlers);
  sink->set_pattern("%v");
  log.logger.emplace("log", std::move(sink));
  log.logger->set_error_handler([this](const std::string& problem) { note_problem(problem); });
}

bool LogWriter::is_stderr(std::string_view name) {
  return name == "stderr" || name == "/dev/stderr";
}

LogWriter::LogWriter(std::string name, Bytes most, std::string folder, std::string run_id)
    : name_(std::move(name)),
      most_(most),
      folder_(std::move(folder)),
      run_id_(std::move(run_id)),
      options_(set_options_json()) {}

LogWriter::~LogWriter() = default;

void LogWriter::note_problem(const std::string& problem) {
  if (problem_.empty()) problem_ = problem;
}

void LogWriter::write(Log& log, const std::string& line) {
  try {
    if (!log.logger) open(log);
    log.logger->info("{}", line);
  } catch (const std::exception& error) {
    note_problem(error.what());
  }
}

std::string LogWriter::path_of(const std::string& ring, const EventSource& source) {
  TemplateValues values = template_values(source.program);
  values.pid = source.pid;
  if (source.rank >= 0) values.rank = std::to_string(source.rank);
  values.run_folder = folder_;
  std::string why;
  std::string path = fill_template(name_, values, &why);
  // A process that calls exec has a ring for each program, events.PID.1 and so on, and each a log.
  const std::string usual = "events." + std::to_string(source.pid) + ".";
  if (ring.starts_with(usual)) path = with_suffix(path, "-" + ring.substr(usual.size()));
  if (!paths_.insert(path).second) path = with_suffix(path, "-" + std::to_string(source.pid));
  return path;
}

void LogWriter::find_rings() {
  for (const std::string& ring : list_event_rings(folder_)) {
    if (not_ours_.contains(ring) || logs_.contains(ring)) continue;
    std::optional<EventReader> reader = EventReader::open(folder_ + "/" + ring);
    if (!reader) continue;  // not complete yet, or of another version
    if (reader->source().run_id != run_id_) {
      not_ours_.insert(ring);
      continue;
    }
    const std::string run = std::filesystem::path(folder_).filename().string();
    std::string header = log_header_json(reader->source(), run, options_) + "\n";
    std::string path = path_of(ring, reader->source());
    logs_.emplace(ring, std::make_unique<Log>(std::move(*reader), std::move(path), std::move(header)));
  }
}

std::uint64_t LogWriter::drain_all(bool is_last) {
  const PrivateFiles here;
  find_rings();
  std::uint64_t most = 0;
  std::size_t open = 0;
  for (const auto& entry : logs_) {
    Log& log = *entry.second;
    most = std::max(most, drain_one(log, is_last));
    if (log.logger && ++open > kMostOpen) log.logger.reset();
  }
  if (const Nanos now = monotonic_now(); now >= next_look_) {
    next_look_ = now + kLookPeriod;
    let_go_of_ended();
  }
  return most;
}

/// How many events came, and were lost, since the last time.
std::uint64_t LogWriter::drain_one(Log& log, bool is_last) {
  std::uint64_t seen = 0;
  log.reader->read(
      [&](const EventSeen& event) {
        ++seen;
        write(log, event_json(event));
      },
      is_last);
  const std::uint64_t lost = log.reader->lost() - log.lost_told;
  if (lost > 0) {
    write(log,
          "{\"lvl\":\"W\",\"sub\":\"log\",\"ev\":\"events_lost\",\"count\":" + std::to_string(lost) + "}");
    log.lost_told += lost;
  }
  if (log.logger) log.logger->flush();
  return seen + lost;
}

// A run may have any number of short processes. Of those that have ended the rings are unmapped, and the room
// in them goes back; what is in them stays for `tidepool report`.
void LogWriter::let_go_of_ended() {
  for (auto entry = logs_.begin(); entry != logs_.end();) {
    const std::string path = folder_ + "/" + entry->first;
    if (!is_written_by_nobody(path)) {
      ++entry;
      continue;
    }
    std::unique_ptr<Log> log = std::move(entry->second);
    (void)drain_one(*log, true);
    log->reader.reset();
    log->logger.reset();
    give_back_unused_room(path);
    not_ours_.insert(entry->first);
    entry = logs_.erase(entry);
    ended_.push_back(std::move(log));
    if (ended_.size() > kMostEnded) ended_.pop_front();
  }
}

Nanos LogWriter::drain() {
  return drain_all(false) > kBusy ? kBusyPeriod : kUsualPeriod;
}

void LogWriter::finish(std::int64_t pid, const Ending& ending, Nanos took) {
  const PrivateFiles here;
  drain_all(true);
  Log* last = nullptr;
  const auto look_at = [&](Log& log) {
    const EventSource& source = log.source;
    if (source.pid == pid && (last == nullptr || last->source.start_unix_ns < source.start_unix_ns))
      last = &log;
  };
  for (const auto& log : ended_) look_at(*log);
  for (const auto& [ring, log] : logs_) look_at(*log);
  if (last == nullptr) return let_go_of_ended();
  EventSeen end{};
  end.time_ns = monotonic_now().count() - last->start_ns;
  end.thread = static_cast<std::uint32_t>(pid);
  end.row = &event_rows()[static_cast<std::size_t>(Ev::run_end)];
  end.values[0] = static_cast<std::uint64_t>(ending.exit_code);
  end.values[1] = static_cast<std::uint64_t>(ending.signal);
  end.values[2] = static_cast<std::uint64_t>(took.count());
  write(*last, event_json(end));
  if (last->logger) last->logger->flush();
  let_go_of_ended();
}

}  // namespace tidepool::tools
