#include "tools/tidepool/completion.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <vector>

#include "allocator/support/message.h"
#include "allocator/support/options.h"
#include "tools/tidepool/command_table.h"
#include "tools/tidepool/commands.h"
#include "tools/tidepool/console.h"
#include "tools/tidepool/option_flags.h"

namespace tidepool::tools {
namespace {

constexpr std::string_view kShells = "bash zsh fish";

/// A flag with what a shell needs to know of it.
struct Completed {
  std::string flag;
  std::string letter;
  std::string help;
  bool takes_value = false;
  bool takes_path = false;
  std::string words;  ///< values to offer, separated by spaces
};

/// What --log can begin with.
std::string levels() {
  std::string words;
  for (int i = 0; i <= static_cast<int>(EventLevel::kTrace); ++i)
    words += std::string(i == 0 ? "" : " ") + std::string(level_name(static_cast<EventLevel>(i)));
  return words;
}

std::vector<Completed> flags_to_complete(std::string_view command) {
  std::vector<Completed> all;
  for (const FlagRow& row : flags_of(command)) {
    all.push_back({std::string(row.flag), std::string(row.letter), std::string(row.help), !row.value.empty(),
                   row.value == "FILE", ""});
  }
  if (command != "run") return all;
  for (const OptionRow& row : option_rows()) {
    std::string words = is_word(row.kind) ? row.low : "";
    std::replace(words.begin(), words.end(), '|', ' ');
    if (row.kind == OptionKind::kLogLevels) words = levels();
    all.push_back({flag_of(row), std::string_view(row.name) == "quiet" ? "-q" : "", row.help,
                   row.kind != OptionKind::kBool, row.kind == OptionKind::kPath, words});
  }
  return all;
}

/// What a command's own arguments may be.
std::string words_of(std::string_view command) {
  if (command == "completion") return std::string(kShells);
  if (command == "bench") return "link";
  if (command != "explain") return "";
  std::string words;
  for (const MessageRow& row : message_rows()) words += std::string(words.empty() ? "" : " ") + row.code;
  for (const OptionRow& row : option_rows()) words += std::string(" ") + row.variable;
  return words;
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

std::string command_names() {
  std::vector<std::string> names;
  for (const CommandRow& row : command_rows()) names.emplace_back(row.name);
  return joined(names, " ");
}

/// The first sentence, without what a shell's quotes or zsh's brackets would take amiss.
std::string short_help(std::string_view help) {
  std::string text(help.substr(0, std::min(help.find(". "), help.size())));
  if (text.ends_with('.')) text.pop_back();
  std::erase_if(text, [](char c) { return c == '\'' || c == '[' || c == ']' || c == ':' || c == '`'; });
  return text;
}

}  // namespace

std::string bash_completion() {
  std::string valued;
  std::string choices;
  std::string flags;
  for (const CommandRow& command : command_rows()) {
    std::vector<std::string> names;
    for (const Completed& each : flags_to_complete(command.name)) {
      names.push_back(each.flag);
      if (!each.letter.empty()) names.push_back(each.letter);
      if (!each.takes_value) continue;
      valued += (valued.empty() ? "" : " | ") + each.flag;
      if (!each.words.empty()) {
        choices +=
            "    " + each.flag + ") COMPREPLY=($(compgen -W '" + each.words + "' -- \"$cur\")); return ;;\n";
      } else if (each.takes_path) {
        choices += "    " + each.flag + ") COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n";
      } else {
        choices += "    " + each.flag + ") return ;;\n";
      }
    }
    // Those of run are what is to be explained.
    if (command.name == "explain") {
      for (const Completed& each : flags_to_complete("run")) names.push_back(each.flag);
    }
    flags += "    " + std::string(command.name) + ") words='" + joined(names, " ");
    const std::string own = words_of(command.name);
    flags += "'; own='" + own + "' ;;\n";
  }
  return "# bash completion for tidepool. Written by tidepool completion bash.\n"
         "# Of what can begin a command, programs: words of the shell's own language are none.\n"
         "_tidepool_programs() {\n"
         "  local word keywords\n"
         "  keywords=\" $(compgen -k | tr '\\n' ' ') \"\n"
         "  while IFS= read -r word; do\n"
         "    if [[ $keywords == *\" $word \"* ]] && ! type -P -- \"$word\" >/dev/null; then continue; fi\n"
         "    COMPREPLY+=(\"$word\")\n"
         "  done < <(compgen -c -- \"$1\")\n"
         "}\n"
         "_tidepool() {\n"
         "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} words= own= i\n"
         "  COMPREPLY=()\n"
         "  if ((COMP_CWORD == 1)); then\n"
         "    COMPREPLY=($(compgen -W '" +
         command_names() +
         " --help --version' -- \"$cur\"))\n"
         "    return\n"
         "  fi\n"
         "  # bash takes '=' for a word of its own.\n"
         "  if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; "
         "fi\n"
         "  if [[ ${COMP_WORDS[1]} == run ]]; then\n"
         "    # Behind the options comes the program, which has a completion of its own.\n"
         "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
         "      case ${COMP_WORDS[i]} in\n"
         "        --) ((i++)); break ;;\n"
         "        " +
         (valued.empty() ? "-" : valued) +
         ") if [[ ${COMP_WORDS[i + 1]} == = ]]; then ((i += 2)); else ((i++)); fi ;;\n"
         "        -*) ;;\n"
         "        *) break ;;\n"
         "      esac\n"
         "    done\n"
         "    if ((i < COMP_CWORD)); then\n"
         "      if declare -F _command_offset >/dev/null; then _command_offset \"$i\"; else "
         "COMPREPLY=($(compgen -f -- "
         "\"$cur\")); fi\n"
         "      return\n"
         "    fi\n"
         "    if ((i == COMP_CWORD)) && [[ $cur != -* && ${COMP_WORDS[COMP_CWORD - 1]} == -- ]]; then\n"
         "      _tidepool_programs \"$cur\"\n"
         "      return\n"
         "    fi\n"
         "  fi\n"
         "  case $prev in\n" +
         choices +
         "  esac\n"
         "  case ${COMP_WORDS[1]} in\n" +
         flags +
         "  esac\n"
         "  if [[ $cur == -* ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
         "  elif [[ ${COMP_WORDS[1]} == run ]]; then\n"
         "    _tidepool_programs \"$cur\"\n"
         "  else\n"
         "    COMPREPLY=($(compgen -W \"$own\" -- \"$cur\") $(compgen -f -- \"$cur\"))\n"
         "  fi\n"
         "}\n"
         "complete -F _tidepool tidepool\n";
}

std::string zsh_completion() {
  std::string text =
      "#compdef tidepool\n# zsh completion for tidepool. Written by tidepool completion zsh.\n\n"
      "local -a commands\ncommands=(\n";
  for (const CommandRow& row : command_rows()) {
    text += "  '" + std::string(row.name) + ":" + short_help(row.summary) + "'\n";
  }
  text += ")\nif ((CURRENT == 2)); then\n  _describe command commands\n  return\nfi\ncase $words[2] in\n";
  for (const CommandRow& row : command_rows()) {
    text += "  " + std::string(row.name) + ")\n    shift words\n    ((CURRENT--))\n    _arguments -S";
    for (const Completed& each : flags_to_complete(row.name)) {
      std::string action;
      if (each.takes_value) {
        action = each.takes_path      ? ":path:_files"
                 : each.words.empty() ? ":value: "
                                      : ":value:(" + each.words + ")";
      }
      const std::string about = "[" + short_help(each.help) + "]" + action;
      text += " \\\n      '" + each.flag + (each.takes_value ? "=" : "") + about + "'";
      if (!each.letter.empty()) text += " \\\n      '" + each.letter + about + "'";
    }
    const std::string own = words_of(row.name);
    if (row.name == "run") text += " \\\n      '(-)1:program:_command_names -e' '*::arguments:_normal'";
    if (!own.empty()) text += " \\\n      '1:what:(" + own + ")'";
    text += "\n    ;;\n";
  }
  return text + "esac\n";
}

std::string fish_completion() {
  std::string text =
      "# fish completion for tidepool. Written by tidepool completion fish.\n"
      "complete -c tidepool -f\n";
  for (const CommandRow& row : command_rows()) {
    text += "complete -c tidepool -n __fish_use_subcommand -a " + std::string(row.name) + " -d '" +
            short_help(row.summary) + "'\n";
  }
  for (const CommandRow& row : command_rows()) {
    const std::string start =
        "complete -c tidepool -n '__fish_seen_subcommand_from " + std::string(row.name) + "'";
    for (const Completed& each : flags_to_complete(row.name)) {
      text += start + " -l " + each.flag.substr(2);
      if (!each.letter.empty()) text += " -s " + each.letter.substr(1);
      if (each.takes_value) text += each.takes_path ? " -r -F" : " -x";
      if (!each.words.empty()) text += " -a '" + each.words + "'";
      text += " -d '" + short_help(each.help) + "'\n";
    }
    const std::string own = words_of(row.name);
    if (!own.empty()) text.append(start).append(" -a '").append(own).append("'\n");
    if (row.name == "run") text.append(start).append(" -a '(__fish_complete_subcommand --fcs-skip=2)'\n");
  }
  return text;
}

int completion_command(std::span<char*> words) {
  CommandWords got;
  if (const auto code = begin_command("completion", words, 1, got)) return *code;
  const std::string_view shell = got.words.empty() ? "" : got.words[0];
  const std::string text = shell == "bash"   ? bash_completion()
                           : shell == "zsh"  ? zsh_completion()
                           : shell == "fish" ? fish_completion()
                                             : "";
  if (text.empty()) {
    say("completion: name the shell: bash, zsh or fish");
    return kExitRefused;
  }
  return std::fputs(text.c_str(), stdout), 0;
}

}  // namespace tidepool::tools
