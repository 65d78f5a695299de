#include "tools/tidepool/run_record.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>

namespace tidepool::tools {
namespace {

std::string path_of(const std::string& folder, const std::string& run_id) {
  return folder + "/run." + run_id;
}

}  // namespace

// Renamed into place: who reads meanwhile sees one record or the other.
bool write_run_record(const std::string& folder, const std::string& run_id, const RunRecord& record) {
  std::string text = std::string("mode ") + (record.is_watched ? "observe" : "manage") + "\n";
  if (record.ending) {
    text += "pid " + std::to_string(record.ending->pid) + "\nexit_code " +
            std::to_string(record.ending->exit_code) + "\nsignal " + std::to_string(record.ending->signal) +
            "\ntook_ns " + std::to_string(record.took.count()) + "\n";
  }
  const std::string path = path_of(folder, run_id);
  const std::string made = path + ".new";
  const int fd = open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  const bool is_whole = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  if (is_whole && rename(made.c_str(), path.c_str()) == 0) return true;
  unlink(made.c_str());
  return false;
}

bool has_run_record(const std::string& folder, const std::string& run_id) {
  return access(path_of(folder, run_id).c_str(), F_OK) == 0;
}

RunRecord read_run_record(const std::string& folder, const std::string& run_id) {
  RunRecord record;
  if (run_id.empty() || run_id.find('/') != run_id.npos) return record;
  const std::string path = path_of(folder, run_id);
  std::error_code ignored;  // a pipe would be waited for
  if (!std::filesystem::is_regular_file(path, ignored)) return record;
  std::ifstream file(path);
  std::map<std::string, long long> numbers;
  std::string key;
  while (file >> key) {
    if (key == "mode") {
      std::string mode;
      file >> mode;
      record.is_watched = mode == "observe";
    } else {
      file >> numbers[key];
    }
  }
  if (numbers.count("pid") == 0 || numbers.count("took_ns") == 0) return record;
  record.ending.emplace();
  record.ending->pid = static_cast<int>(numbers["pid"]);
  record.ending->exit_code = static_cast<int>(numbers["exit_code"]);
  record.ending->signal = static_cast<int>(numbers["signal"]);
  record.took = Nanos(numbers["took_ns"]);
  return record;
}

}  // namespace tidepool::tools
