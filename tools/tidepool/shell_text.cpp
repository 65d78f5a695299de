#include "tools/tidepool/shell_text.h"

namespace tidepool::tools {

std::string shell_quoted(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:@_";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return std::string(word);
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string shell_assignment(std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == assignment.npos) return shell_quoted(assignment);
  return std::string(assignment.substr(0, equals + 1)) + shell_quoted(assignment.substr(equals + 1));
}

}  // namespace tidepool::tools
