#include <algorithm>
#include <cctype>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "allocator/support/edit_distance.h"
#include "allocator/support/events.h"
#include "allocator/support/message.h"
#include "allocator/support/options.h"
#include "allocator/support/stats_page.h"
#include "tools/tidepool/command_table.h"
#include "tools/tidepool/commands.h"
#include "tools/tidepool/console.h"
#include "tools/tidepool/explain.h"
#include "tools/tidepool/option_flags.h"

namespace tidepool::tools {
namespace {

/// One name for each way to write an option, a metric or a code: "--Min-Block" is "min_block".
std::string plain_name(std::string_view word) {
  std::string name(word.substr(std::min(word.find_first_not_of('-'), word.size())));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return c == '-' ? '_' : static_cast<char>(std::tolower(c)); });
  constexpr std::string_view kPrefix = "tidepool_";
  return name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
}

struct Topic {
  std::string name;   ///< as plain_name() writes it
  std::string shown;  ///< as the user knows it
  std::string text;
};

std::string part(const char* title, std::string_view text) {
  return text.empty() ? "" : std::string(title) + "\n" + wrapped(text, 4);
}

Topic topic_of(const OptionRow& row) {
  std::string text = std::string(row.variable) + " · " + flag_of(row) + "\n" + wrapped(row.help, 4);
  text += "    Values: " + range_of(row) +
          ". Default: " + (row.default_text[0] == '\0' ? "none" : row.default_text) + ".\n";
  text += row.scope == OptionScope::kLive ? "    May change while the program runs.\n"
                                          : "    Read when the program starts.\n";
  return {row.name, row.variable, text};
}

Topic topic_of(const MetricRow& row) {
  constexpr const char* kKinds[] = {"a gauge (goes up and down)", "a counter (only goes up)",
                                    "the highest value of a gauge"};
  const std::string unit = row.unit[0] == '\0' ? "a plain number" : std::string("in ") + row.unit;
  return {row.name, row.name,
          std::string(row.name) + "\n" + wrapped(row.help, 4) + "    " +
              kKinds[static_cast<std::size_t>(row.kind)] + ", " + unit + "\n"};
}

Topic topic_of(const MessageRow& row) {
  return {plain_name(row.code), row.code,
          std::string(row.code) + " · " + severity_word(row.severity) + "\n" +
              wrapped(message_pattern(row.format), 4) + part("Cause", row.cause) +
              part("What to do", row.remedy)};
}

Topic topic_of(const EventRow& row) {
  std::string text = std::string(row.name) + " · event, " + std::string(level_name(row.level)) + " of " +
                     subsystem_row(row.subsystem).name + "\n" + wrapped(row.help, 4);
  for (const EventField& field : row.fields) {
    std::string note = field.note;
    std::replace(note.begin(), note.end(), '|', ' ');
    text += wrapped(std::string(field.name) + ": " + note, 8);
  }
  return {row.name, row.name, text};
}

// One of several names: the help is of them all.
std::vector<Topic> topics_of_other_variables() {
  std::vector<Topic> topics;
  for (const OtherVariable& row : other_variables()) {
    std::string help = row.help;
    std::erase(help, '`');
    std::string_view names = row.names;
    while (!names.empty()) {
      const std::string name(names.substr(0, names.find(", ")));
      names.remove_prefix(std::min(names.size(), name.size() + 2));
      topics.push_back({plain_name(name), name, std::string(row.names) + " · variable\n" + wrapped(help, 4)});
    }
  }
  return topics;
}

/// Of the flags that are no options: what each command takes it for.
std::vector<Topic> topics_of_flags() {
  std::vector<Topic> topics;
  for (const CommandRow& command : command_rows()) {
    for (const FlagRow& flag : flags_of(command.name)) {
      const std::string shown(flag.flag);
      const std::string value = flag.value.empty() ? "" : " " + std::string(flag.value);
      const std::string text =
          shown + value + " · tidepool " + std::string(command.name) + "\n" + wrapped(flag.help, 4);
      const auto same = std::find_if(topics.begin(), topics.end(),
                                     [&](const Topic& topic) { return topic.shown == shown; });
      if (flag.flag == "--help") continue;
      if (same == topics.end()) {
        topics.push_back({plain_name(shown), shown, text});
      } else {
        same->text += text;
      }
    }
  }
  return topics;
}

std::vector<Topic> all_topics() {
  std::vector<Topic> topics;
  for (const MessageRow& row : message_rows()) topics.push_back(topic_of(row));
  for (const OptionRow& row : option_rows()) topics.push_back(topic_of(row));
  for (const MetricRow& row : metric_rows()) topics.push_back(topic_of(row));
  for (const EventRow& row : event_rows()) topics.push_back(topic_of(row));
  for (Topic& topic : topics_of_flags()) topics.push_back(std::move(topic));
  for (Topic& topic : topics_of_other_variables()) topics.push_back(std::move(topic));
  topics.push_back(
      {"events_lost", "events_lost",
       "events_lost · in logs and reports\n" +
           wrapped("Events came faster than they could be written: `count` of them are not in the log. "
                   "Fewer come with a lower TIDEPOOL_LOG.",
                   4)});
  return topics;
}

}  // namespace

std::span<const OtherVariable> other_variables() {
  static constexpr OtherVariable kRows[] = {
      {"LD_PRELOAD",
       "`tidepool run` puts the library in front of what is there; run-time libraries of sanitizers stay "
       "first"},
      {"TIDEPOOL_RUN_ID",
       "set by `tidepool run` for what it starts: which run a process belongs to, where several share a "
       "folder"},
      {"XDG_RUNTIME_DIR, TMPDIR",
       "where `tidepool run` makes its private folder, unless `TIDEPOOL_RUN_DIR` names one. The program sees "
       "its path in `TIDEPOOL_RUN_DIR`; it is gone when the run has ended"},
  };
  return kRows;
}

const char* severity_word(Severity severity) {
  switch (severity) {
    case Severity::E:
      return "error";
    case Severity::W:
      return "warning";
    case Severity::I:
      return "information";
  }
  return "";
}

std::string message_pattern(std::string_view format) {
  std::string text;
  while (!format.empty()) {
    if (format.starts_with("%%")) {
      text += '%';
      format.remove_prefix(2);
    } else if (format[0] == '%') {
      text += "…";
      const std::size_t end = format.find_first_of("sdiuxXpcfgeG");
      format.remove_prefix(end == format.npos ? format.size() : end + 1);
    } else {
      text += format[0];
      format.remove_prefix(1);
    }
  }
  return text;
}

int explain_command(std::span<char*> words) {
  // A flag is what is to be explained here, not an option of this command.
  const std::string wanted = words.empty() ? "" : words[0];
  const bool is_topic = words.size() == 1 && wanted != "--help" && wanted != "-h";
  CommandWords got;
  if (!is_topic) {
    if (const auto code = begin_command("explain", words, 1, got)) return *code;
  }
  if (words.empty()) {
    for (const MessageRow& row : message_rows()) {
      std::printf("%s %c %s\n", row.code, static_cast<char>(row.severity),
                  message_pattern(row.format).c_str());
    }
    return 0;
  }
  const std::vector<Topic> topics = all_topics();
  const std::string name = plain_name(wanted);
  for (const Topic& topic : topics) {
    if (topic.name == name) return std::fputs(topic.text.c_str(), stdout), 0;
  }
  const Topic* const meant =
      nearest_item(name, topics, [](const Topic& t) -> std::string_view { return t.name; });
  say("explain: there is no '%s'%s", wanted.c_str(),
      meant != nullptr ? (" (did you mean " + meant->shown + "?)").c_str()
                       : "; tidepool explain lists the messages, tidepool env the options");
  return kExitRefused;
}

}  // namespace tidepool::tools
