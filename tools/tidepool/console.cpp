#include "tools/tidepool/console.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <string>

namespace tidepool::tools {
namespace {

int g_console = -1;

}  // namespace

void open_console() {
  constexpr int kAboveStandard = 10;
  g_console = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, kAboveStandard);
  // Too few descriptors for a number that high: then stderr itself, if there is one.
  if (g_console < 0 && errno != EBADF) g_console = STDERR_FILENO;
}

void say(const char* format, ...) {
  if (g_console < 0) return;
  va_list args;
  va_start(args, format);
  va_list again;
  va_copy(again, args);
  const int length = std::vsnprintf(nullptr, 0, format, args);
  va_end(args);
  std::string text(static_cast<std::size_t>(length < 0 ? 0 : length), '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  // Names and values are anybody's: none may begin a line of its own, or steer a terminal.
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
  const std::string line = "tidepool: " + text + "\n";
  // One call, so that the program's own lines do not come in between. What cannot be written is lost.
  [[maybe_unused]] const ssize_t written = write(g_console, line.data(), line.size());
}

}  // namespace tidepool::tools
