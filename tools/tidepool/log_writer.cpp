#include "tools/tidepool/log_writer.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/rotating_file_sink.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <optional>
#include <utility>

#include "tools/tidepool/event_json.h"
#include "tools/tidepool/path_template.h"

namespace tidepool::tools {

namespace {

constexpr Nanos kUsualPeriod = millis(100);
constexpr Nanos kBusyPeriod = millis(5);
/// A ring that filled this much since the last look may overflow until the next.
constexpr std::uint64_t kBusy = kEventRecordCount / 8;
constexpr std::size_t kPredecessors = 1;

/// "log.jsonl" and ".1" are "log.1.jsonl".
std::string with_suffix(const std::string& path, const std::string& suffix) {
  const std::filesystem::path whole(path);
  return (whole.parent_path() / (whole.stem().string() + suffix + whole.extension().string())).string();
}

}  // namespace

/// The ring of one process and the log that it goes to.
struct LogWriter::Log {
  explicit Log(EventReader from) : reader(std::move(from)) {}

  EventReader reader;
  std::optional<spdlog::logger> logger;
  std::uint64_t lost_told = 0;
};

LogWriter::LogWriter(std::string name, Bytes most, std::string folder, std::set<std::string> except)
    : name_(std::move(name)),
      most_(most),
      folder_(std::move(folder)),
      except_(std::move(except)),
      options_(set_options_json()) {}

LogWriter::~LogWriter() = default;

void LogWriter::find_rings() {
  for (const std::string& ring : list_event_rings(folder_)) {
    if (except_.contains(ring) || logs_.contains(ring)) continue;
    std::optional<EventReader> reader = EventReader::open(folder_ + "/" + ring);
    if (!reader) continue;  // not complete yet, or of another version
    const auto log = logs_.emplace(ring, std::make_unique<Log>(std::move(*reader))).first->second.get();
    const EventSource& source = log->reader.source();
    TemplateValues values = template_values(source.program);
    values.pid = source.pid;
    if (source.rank >= 0) values.rank = std::to_string(source.rank);
    values.run_folder = folder_;
    std::string why;
    std::string path = fill_template(name_, values, &why);
    // A process that calls exec has a ring for each program, and each a log.
    const std::string usual = "events." + std::to_string(source.pid);
    if (ring.size() > usual.size() && ring.starts_with(usual))
      path = with_suffix(path, ring.substr(usual.size()));
    if (!paths_.insert(path).second) path = with_suffix(path, "." + std::to_string(source.pid));
    const std::string run = std::filesystem::path(folder_).filename().string();
    const std::string header = log_header_json(source, run, options_) + "\n";
    spdlog::file_event_handlers handlers;
    handlers.after_open = [header](const spdlog::filename_t&, std::FILE* file) {
      std::fputs(header.c_str(), file);
    };
    // The sink counts what it is given, not the header.
    const std::size_t most = most_.count() - std::min<std::size_t>(header.size(), most_.count() / 2);
    try {
      auto sink =
          std::make_shared<spdlog::sinks::rotating_file_sink_st>(path, most, kPredecessors, false, handlers);
      sink->set_pattern("%v");
      log->logger.emplace("log", std::move(sink));
      log->logger->set_level(spdlog::level::trace);
      log->logger->set_error_handler([this](const std::string& problem) {
        if (problem_.empty()) problem_ = problem;
      });
    } catch (const std::exception& error) {
      if (problem_.empty()) problem_ = error.what();
    }
  }
}

std::uint64_t LogWriter::drain_all(bool is_last) {
  find_rings();
  std::uint64_t most = 0;
  for (const auto& [ring, log] : logs_) {
    std::uint64_t seen = 0;
    const auto write = [&, target = log.get()](const EventSeen& event) {
      ++seen;
      if (target->logger) target->logger->info("{}", event_json(event));
    };
    log->reader.read(write, is_last);
    const std::uint64_t lost = log->reader.lost() - log->lost_told;
    if (lost > 0 && log->logger) {
      log->logger->info("{{\"lvl\":\"W\",\"sub\":\"log\",\"ev\":\"events_lost\",\"count\":{}}}", lost);
      log->lost_told += lost;
    }
    if (log->logger && seen > 0) log->logger->flush();
    most = std::max(most, seen + lost);
  }
  return most;
}

Nanos LogWriter::drain() {
  return drain_all(false) > kBusy ? kBusyPeriod : kUsualPeriod;
}

void LogWriter::finish(std::int64_t pid, const Ending& ending, Nanos took) {
  drain_all(true);
  Log* last = nullptr;
  for (const auto& [ring, log] : logs_) {
    const EventSource& source = log->reader.source();
    if (source.pid == pid && (last == nullptr || last->reader.source().start_unix_ns < source.start_unix_ns))
      last = log.get();
  }
  if (last == nullptr || !last->logger) return;
  EventSeen end{0,  0, static_cast<std::uint32_t>(pid), &event_rows()[static_cast<std::size_t>(Ev::run_end)],
                {}, {}};
  end.time_ns = last->reader.age();
  end.values[0] = static_cast<std::uint64_t>(ending.exit_code);
  end.values[1] = static_cast<std::uint64_t>(ending.signal);
  end.values[2] = static_cast<std::uint64_t>(took.count());
  last->logger->info("{}", event_json(end));
  last->logger->flush();
}

}  // namespace tidepool::tools
