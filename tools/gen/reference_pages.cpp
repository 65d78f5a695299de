#include <string>
#include <string_view>

#include "allocator/support/message.h"
#include "allocator/support/options.h"
#include "allocator/support/stats_page.h"
#include "tools/gen/page.h"
#include "tools/tidepool/command_table.h"
#include "tools/tidepool/explain.h"
#include "tools/tidepool/option_flags.h"

namespace tidepool::gen {
namespace {

/// Under the title: where the page comes from.
std::string note(std::string_view table) {
  return "<!-- Written by tidepool-gen from " + std::string(table) +
         "; change that and run it again. -->\n\n";
}

std::string code(std::string_view text) {
  return text.empty() ? "" : "`" + std::string(text) + "`";
}

/// Text for a table's cell.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

Page variables_page() {
  std::string text = "# Variables and options\n\n" + note("allocator/support/options.def");
  text += tools::wrapped(
      "Each option is a variable, which the library reads when a program starts, and a flag of tidepool run, "
      "which sets "
      "the variable for the program. A flag wins over a variable.",
      0, 120);
  text +=
      "\nBytes are a number with K, KiB, M, MiB, G, GiB, T or TiB, all powers of 1024, and fractions may be "
      "given; some "
      "options\ntake a share such as `50%`. Yes and no are 1/0, on/off, yes/no or true/false. `tidepool env` "
      "shows "
      "the values here and now.\n";
  std::string group;
  for (const OptionRow& row : option_rows()) {
    if (group != row.group) {
      group = row.group;
      text +=
          "\n## " + group + "\n\n| variable | flag | default | values | meaning |\n|---|---|---|---|---|\n";
    }
    text += "| " + code(row.variable) + " | " + code(tools::flag_of(row)) + " | " + code(row.default_text) +
            " | " + cell(tools::range_of(row)) + " | " + cell(row.help) + " |\n";
  }
  text +=
      "\n## Other variables that matter\n\n"
      "| variable | what it does |\n|---|---|\n";
  for (const tools::OtherVariable& row : tools::other_variables()) {
    std::string names(row.names);
    for (std::size_t at = 0; (at = names.find(", ", at)) != names.npos; at += 4) names.replace(at, 2, "`, `");
    text += "| " + code(names) + " | " + row.help + " |\n";
  }
  return {"docs/reference/variables.md", text};
}

Page command_page() {
  std::string text =
      "# Command line\n\n" + note("tools/tidepool/commands.def and allocator/support/options.def");
  text += "```\n" + tools::overview_text() + "```\n";
  for (const tools::CommandRow& row : tools::command_rows()) {
    text += "\n## tidepool " + std::string(row.name) + "\n\n```\n" + tools::usage_text(row) + "```\n";
  }
  text +=
      "\n## Exit codes\n\n"
      "`tidepool run` ends as the program ended: with its exit code, or by the same signal. Otherwise:\n\n"
      "| code | meaning |\n|---|---|\n"
      "| 0 | done |\n"
      "| 1 | `tidepool env`: a variable is refused; `tidepool doctor`: `tidepool run` would refuse; "
      "`tidepool set`: "
      "not all is as asked, or not yet |\n"
      "| 125 | the command was used wrongly, or could not do its part |\n"
      "| 126 | the program is there but cannot be executed |\n"
      "| 127 | there is no such program |\n";
  return {"docs/reference/command-line.md", text};
}

Page messages_page() {
  std::string text = "# Messages\n\n" + note("allocator/support/messages.def");
  text +=
      "A line on stderr is `tidepool <seconds since the start> <E|W|I> <code> <what happened>. <what that "
      "does to the "
      "job>. <what\nto do>`. E is an error, W a warning, I information; `--quiet` leaves errors. A message "
      "is printed "
      "five times in a process,\nthen only counted. `tidepool explain CODE` prints the same as this page.\n";
  for (const MessageRow& row : message_rows()) {
    text += "\n## " + std::string(row.code) + "\n\n" + tools::severity_word(row.severity) + ": " +
            tools::message_pattern(row.format) + "\n\n" + row.cause + "\n";
    if (row.remedy[0] != '\0') text += "\n**What to do:** " + std::string(row.remedy) + "\n";
  }
  return {"docs/reference/messages.md", text};
}

Page metrics_page() {
  constexpr const char* kKinds[] = {"gauge", "counter", "peak"};
  std::string text = "# Numbers\n\n" + note("allocator/support/metrics.def");
  text +=
      "Each process with the library keeps these in a file of its own, `stats.PID` in the run folder, so "
      "that they "
      "outlive it\nhowever it ends. The summary of `tidepool run` comes from them. A gauge goes up and down, "
      "a counter "
      "only up; a peak is the\nhighest value of a gauge.\n\n"
      "The file, version " +
      std::to_string(kStatsPageVersion) +
      ", in the byte order of the host: 8 bytes `tdpoolst`, u32 version, u32 how many numbers, i64 process "
      "id, i64 "
      "start\n(nanoseconds since 1970), 64 bytes name of the program, 32 bytes which run it belongs to, "
      "padded to a multiple of 64; then a u64 "
      "for each "
      "number, in this\norder, each at the start of 64 bytes of its own.\n\n"
      "Beside them `tidepool run` keeps `run.ID` for each run that used the folder, lines of a key and a "
      "value: "
      "`mode` (`manage` or\n`observe`), and once the program has ended `pid`, `exit_code`, `signal` (0: "
      "none) "
      "and `took_ns`.\n\n"
      "| name | kind | unit | meaning |\n|---|---|---|---|\n";
  for (const MetricRow& row : metric_rows()) {
    text += "| " + code(row.name) + " | " + kKinds[static_cast<std::size_t>(row.kind)] + " | " + row.unit +
            " | " + cell(row.help) + " |\n";
  }
  return {"docs/reference/metrics.md", text};
}

}  // namespace

std::vector<Page> reference_pages() {
  return {variables_page(), command_page(), messages_page(), metrics_page()};
}

}  // namespace tidepool::gen
