#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <string>

#include "allocator/support/message.h"
#include "allocator/support/stats_page.h"
#include "tests/process/pattern.h"

namespace tidepool {
namespace {

/// What a child writes to its stderr while it runs `work`; the child must end with status 0.
template <class F>
std::string stderr_of(F work) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    work();
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char part[4096];
  for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;) text.append(part, static_cast<std::size_t>(n));
  close(ends[0]);
  int status = -1;
  waitpid(pid, &status, 0);
  CHECK(status == 0);
  return text;
}

std::size_t lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST_CASE("messages: one line with time, severity, code and text") {
  const std::string text = stderr_of([] {
    open_messages(false);
    report<Msg::TP1002>("cuFuncGetParamInfo", "Nothing is managed");
  });
  CHECK(test::matches(text, "tidepool #.%s W TP1002 the driver has no entry cuFuncGetParamInfo. *\n"));
}

TEST_CASE("messages: what is about a device says of which once there are several") {
  const std::string text = stderr_of([] {
    open_messages(false);
    report_on<Msg::TP2003>(1, "10 s");
    name_devices();
    report_on<Msg::TP2003>(1, "10 s");
    report<Msg::TP2003>("10 s");
  });
  CHECK(test::matches(text,
                      "tidepool #.#s W TP2003 a launch has *\n"
                      "tidepool #.#s W TP2003 device 1: a launch has *\n"
                      "tidepool #.#s W TP2003 a launch has *\n"));
}

TEST_CASE("messages: a message is printed five times and then counted") {
  const std::string text = stderr_of([] {
    open_messages(false);
    const std::uint64_t warnings = StatsPage::instance().get(Metric::warnings_total);
    for (int i = 0; i < 300; ++i) report<Msg::TP1010>();
    if (times_reported(Msg::TP1010) != 300) _exit(1);
    if (StatsPage::instance().get(Metric::warnings_total) != warnings + 300) _exit(2);
  });
  CHECK(lines(text) == 5);
  CHECK(text.find("(Further ones are only counted.)\n") == text.rfind('('));
}

TEST_CASE("messages: quiet leaves errors") {
  const std::string text = stderr_of([] {
    open_messages(true);
    report<Msg::TP1001>("not found");
    report<Msg::TP1010>();
    report<Msg::TP3002>("one and one");
  });
  CHECK(lines(text) == 1);
  CHECK(text.find(" E TP3002 an internal check failed: one and one.") != std::string::npos);
}

TEST_CASE("messages: a program that closes its stderr still gets them, and errno is kept") {
  const std::string text = stderr_of([] {
    open_messages(false);
    close(STDERR_FILENO);
    errno = EDOM;
    report<Msg::TP1010>();
    if (errno != EDOM) _exit(1);
  });
  CHECK(lines(text) == 1);
}

TEST_CASE("messages: the descriptor is 64 or above and is not inherited by exec") {
  stderr_of([] {
    std::array<bool, 1024> open_before{};
    for (int fd = 0; fd < 1024; ++fd) open_before[static_cast<std::size_t>(fd)] = fcntl(fd, F_GETFD) >= 0;
    open_messages(false);
    int found = 0;
    for (int fd = 0; fd < 1024; ++fd) {
      const int flags = fcntl(fd, F_GETFD);
      if (flags < 0 || open_before[static_cast<std::size_t>(fd)]) continue;
      ++found;
      if (fd < 64 || (flags & FD_CLOEXEC) == 0) _exit(1);
    }
    if (found != 1) _exit(2);
  });
}

TEST_CASE("messages: nothing is written into a file that took over the descriptor") {
  const std::string text = stderr_of([] {
    char path[] = "/tmp/tidepool-test-XXXXXX";
    const int file = mkstemp(path);
    unlink(path);
    open_messages(false);
    for (int fd = 0; fd < 1024; ++fd) {
      if (fd != file && fcntl(fd, F_GETFD) >= 0) dup2(file, fd);
    }
    report<Msg::TP1010>();
    if (lseek(file, 0, SEEK_END) != 0) _exit(1);
  });
  CHECK(text.empty());
}

TEST_CASE("messages: with stderr closed from the start nothing is written anywhere") {
  stderr_of([] {
    close(STDERR_FILENO);
    open_messages(false);
    int ends[2];
    if (pipe2(ends, O_NONBLOCK) != 0) _exit(1);  // takes number 2
    report<Msg::TP1010>();
    char c;
    if (read(ends[0], &c, 1) != -1 || errno != EAGAIN) _exit(2);
  });
}

TEST_CASE("messages: a reader that has gone does not kill the job") {
  stderr_of([] {
    int ends[2];
    if (pipe(ends) != 0) _exit(1);
    dup2(ends[1], STDERR_FILENO);
    open_messages(false);
    close(ends[0]);
    signal(SIGPIPE, SIG_DFL);
    report<Msg::TP1010>();
    sigset_t pending;
    sigpending(&pending);
    if (sigismember(&pending, SIGPIPE) != 0) _exit(2);
  });
}

TEST_CASE("messages: a reader that does not read does not stop the job") {
  stderr_of([] {
    int ends[2];
    if (pipe2(ends, 0) != 0) _exit(1);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    char block[4096] = {};
    while (write(ends[1], block, sizeof block) > 0) {
    }
    fcntl(ends[1], F_SETFL, 0);
    dup2(ends[1], STDERR_FILENO);
    open_messages(false);
    alarm(20);
    report<Msg::TP1010>();
  });
}

TEST_CASE("messages: a very long argument is cut and the line still ends") {
  const std::string text = stderr_of([] {
    open_messages(false);
    const std::string name(5000, 'n');
    report<Msg::TP1002>(name.c_str(), "Nothing is managed");
  });
  CHECK(lines(text) == 1);
  CHECK(text.back() == '\n');
  CHECK(text.size() <= 1024);
}

TEST_CASE("messages: rows are in order, each with its own code") {
  std::string before;
  for (const MessageRow& row : message_rows()) {
    CHECK(before < row.code);
    before = row.code;
  }
}

}  // namespace
}  // namespace tidepool
