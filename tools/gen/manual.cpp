// Manual pages in mdoc(7): one macro a line, text lines escaped.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "allocator/support/options.h"
#include "tools/gen/page.h"
#include "tools/tidepool/command_table.h"
#include "tools/tidepool/completion.h"
#include "tools/tidepool/option_flags.h"

namespace tidepool::gen {
namespace {

/// The date in the foot of the pages: when their form last changed. A date of the build would make each build
/// another.
constexpr char kDate[] = "November 28, 2026";

/// Text for a line of its own: nothing in it is taken for a macro or an escape.
std::string plain(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i == 0 && (text[i] == '.' || text[i] == '\'')) out += "\\&";
    out += text[i] == '\\'  ? std::string("\\e")
           : text[i] == '-' ? std::string("\\-")
                            : std::string(1, text[i]);
  }
  return out;
}

/// Sentences on lines of their own, as mdoc wants them.
std::string paragraph(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    std::size_t end = text.find(". ");
    end = end == text.npos ? text.size() : end + 1;
    out += plain(text.substr(0, end)) + "\n";
    text.remove_prefix(end == text.size() ? end : end + 1);
  }
  return out;
}

std::string head(std::string_view name, int section, std::string_view summary) {
  std::string title;
  for (const char c : name) title += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return "."
         "\\\" Written by tidepool-gen; do not change it.\n.Dd " +
         std::string(kDate) + "\n.Dt " + title + " " + std::to_string(section) +
         "\n.Os Tidepool\n.Sh NAME\n.Nm " + std::string(name) + "\n.Nd " + plain(summary) + "\n";
}

/// ".It" for a flag and its argument.
std::string item(std::string_view letter, std::string_view flag, std::string_view value) {
  std::string text = ".It ";
  if (!letter.empty()) text += "Fl " + std::string(letter.substr(1)) + " , ";
  text += "Fl " + std::string(flag.substr(1));
  if (!value.empty()) text += " Ar " + std::string(value);
  return text + "\n";
}

std::string option_items() {
  std::string text;
  for (const OptionRow& row : option_rows()) {
    const bool is_switch = row.kind == OptionKind::kBool;
    text += item(std::string_view(row.name) == "quiet" ? "-q" : "", tools::shown_flag(row),
                 is_switch ? "" : "value");
    text += paragraph(row.help);
    if (!is_switch) {
      text +=
          paragraph("Values: " + tools::range_of(row) + "." +
                    (row.default_text[0] == '\0' ? "" : std::string(" Default: ") + row.default_text + "."));
    }
  }
  return text;
}

std::string see_also(std::string_view self) {
  std::vector<std::string> pages;
  if (self != "tidepool") pages.emplace_back("tidepool 1");
  for (const tools::CommandRow& row : tools::command_rows()) {
    const std::string name = "tidepool-" + std::string(row.name);
    if (name != self) pages.push_back(name + " 1");
  }
  std::sort(pages.begin(), pages.end());  // as mdoc wants them
  pages.emplace_back("tidepool 7");
  std::string text = ".Sh SEE ALSO\n";
  for (const std::string& page : pages) text += ".Xr " + page + (&page == &pages.back() ? "\n" : " ,\n");
  return text;
}

constexpr char kExit[] =
    ".Sh EXIT STATUS\n"
    "That of the program, or its signal.\n"
    "Otherwise:\n"
    ".Bl -tag -width 4n\n"
    ".It 125\nThe command was used wrongly, or could not do its part.\n"
    ".It 126\nThe program cannot be executed.\n"
    ".It 127\nThere is no such program.\n"
    ".El\n";

Page command_manual(const tools::CommandRow& row) {
  const std::string name = "tidepool-" + std::string(row.name);
  std::string text = head(name, 1, row.summary);
  text += ".Sh SYNOPSIS\n.Nm tidepool " + std::string(row.name) + "\n";
  if (!row.arguments.empty()) text += plain(row.arguments) + "\n";
  text += ".Sh DESCRIPTION\n" + paragraph(row.about) + ".Pp\nThe options are:\n.Bl -tag -width Ds\n";
  for (const tools::FlagRow& flag : tools::flags_of(row.name)) {
    text += item(flag.letter, flag.flag, flag.value) + paragraph(flag.help);
  }
  if (row.name == "run") text += option_items();
  text += ".El\n";
  if (row.name == "run") text += kExit;
  return {"man/man1/" + name + ".1", text + see_also(name)};
}

Page overview_manual() {
  std::string text = head("tidepool", 1, "run CUDA programs in less GPU memory than they ask for");
  text +=
      ".Sh SYNOPSIS\n.Nm\n.Ar command\n.Op Ar argument ...\n.Sh DESCRIPTION\nThe commands are:\n.Bl -tag "
      "-width Ds\n";
  for (const tools::CommandRow& row : tools::command_rows()) {
    text += ".It Xr tidepool-" + std::string(row.name) + " 1\n" + paragraph(row.summary);
  }
  return {"man/man1/tidepool.1", text + ".El\n" + see_also("tidepool")};
}

Page variables_manual() {
  std::string text = head("tidepool", 7, "variables that Tidepool reads");
  text +=
      ".Sh DESCRIPTION\nThe library reads these when a program starts.\n.Xr tidepool-run 1\nhas each as a "
      "flag, which wins.\n"
      ".Bl -tag -width Ds\n";
  for (const OptionRow& row : option_rows()) {
    text += ".It Ev " + std::string(row.variable) + "\n" + paragraph(row.help);
    text +=
        paragraph("Values: " + tools::range_of(row) + "." +
                  (row.default_text[0] == '\0' ? "" : std::string(" Default: ") + row.default_text + "."));
  }
  return {"man/man7/tidepool.7", text + ".El\n.Sh SEE ALSO\n.Xr tidepool 1\n"};
}

}  // namespace

std::vector<Page> manual_pages() {
  std::vector<Page> pages = {overview_manual(), variables_manual()};
  for (const tools::CommandRow& row : tools::command_rows()) pages.push_back(command_manual(row));
  return pages;
}

std::vector<Page> completion_pages() {
  return {{"completions/tidepool.bash", tools::bash_completion()},
          {"completions/_tidepool", tools::zsh_completion()},
          {"completions/tidepool.fish", tools::fish_completion()}};
}

}  // namespace tidepool::gen
