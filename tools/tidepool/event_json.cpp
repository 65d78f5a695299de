#include "tools/tidepool/event_json.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string_view>

#include "allocator/support/message.h"
#include "allocator/support/options.h"
#include "tools/tidepool/json_text.h"

namespace tidepool::tools {
namespace {

std::string word_of(std::string_view words, std::uint64_t index) {
  for (; index > 0; --index) {
    const std::size_t bar = words.find('|');
    if (bar == words.npos) return "";
    words.remove_prefix(bar + 1);
  }
  return std::string(words.substr(0, words.find('|')));
}

std::string value_json(const EventField& field, std::uint64_t value) {
  char text[32];
  switch (field.kind) {
    case FieldKind::kAddress:
      std::snprintf(text, sizeof text, "\"0x%llx\"", static_cast<unsigned long long>(value));
      return text;
    case FieldKind::kCode:
      return json_quoted(value < message_rows().size() ? message_rows()[value].code : "");
    case FieldKind::kWord:
      return json_quoted(word_of(field.note, value));
    default:
      return std::to_string(value);
  }
}

/// "2026-11-27T20:45:01.287Z"
std::string utc(std::int64_t unix_ns) {
  const std::time_t second = unix_ns / 1'000'000'000;
  std::tm parts{};
  gmtime_r(&second, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  char millis[8];
  std::snprintf(millis, sizeof millis, ".%03dZ", static_cast<int>(unix_ns / 1'000'000 % 1000));
  return std::string(text) + millis;
}

}  // namespace

std::string event_json(const EventSeen& event) {
  const EventRow& row = *event.row;
  char start[64];
  std::snprintf(start, sizeof start, "{\"t\":%.6f,\"lvl\":\"%c\"", static_cast<double>(event.time_ns) / 1e9,
                static_cast<char>(level_name(row.level)[0] - 'a' + 'A'));
  std::string line = std::string(start) + ",\"sub\":\"" + subsystem_row(row.subsystem).name + "\",\"ev\":\"" +
                     row.name + "\",\"tid\":" + std::to_string(event.thread);
  std::size_t value = 0;
  for (const EventField& field : row.fields) {
    line += std::string(",\"") + field.name + "\":";
    line +=
        field.kind == FieldKind::kText ? json_quoted(event.text) : value_json(field, event.values[value++]);
  }
  return line + "}";
}

std::string kernel_driver_of(std::string_view told) {
  const std::string_view before = "Kernel Module";
  std::size_t at = told.find(before);
  if (at == told.npos) return "";
  told.remove_prefix(at + before.size());
  // "  580.159.04  Release Build", in open modules "for x86_64  580.159.04  Release Build".
  while (!told.empty() && told.front() != '\n') {
    const std::size_t end = std::min(told.find_first_of(" \n"), told.size());
    const std::string_view word = told.substr(0, end);
    if (!word.empty() && word.find_first_not_of("0123456789.") == word.npos) return std::string(word);
    told.remove_prefix(std::min(told.size(), std::max<std::size_t>(end, 1)));
  }
  return "";
}

std::string log_header_json(const EventSource& source, const std::string& run, const std::string& options) {
  char host[HOST_NAME_MAX + 1] = {};
  gethostname(host, sizeof host - 1);
  std::string line = "{\"schema\":\"tidepool.log/1\",\"run\":" + json_quoted(run) +
                     ",\"start\":" + json_quoted(utc(source.start_unix_ns)) +
                     ",\"host\":" + json_quoted(host) + ",\"pid\":" + std::to_string(source.pid);
  if (source.rank >= 0) line += ",\"rank\":" + std::to_string(source.rank);
  line += ",\"version\":" + json_quoted(TP_VERSION);
  std::ifstream file("/proc/driver/nvidia/version");
  const std::string told(std::istreambuf_iterator<char>(file), {});
  const std::string driver = kernel_driver_of(told);
  if (!driver.empty()) line += ",\"driver\":" + json_quoted(driver);
  line += ",\"argv\":[";
  for (const std::string& word : source.arguments) {
    line += (&word == &source.arguments.front() ? "" : ",") + json_quoted(word);
  }
  return line + "],\"options\":" + options + "}";
}

std::string set_options_json() {
  std::string text = "{";
  for (const OptionRow& row : option_rows()) {
    const char* const value = std::getenv(row.variable);
    if (value == nullptr || std::string_view(value) == row.default_text) continue;
    text += (text.size() > 1 ? "," : "") + json_quoted(row.name) + ":" + json_quoted(value);
  }
  return text + "}";
}

}  // namespace tidepool::tools
