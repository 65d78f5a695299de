#include "tests/conformance/case.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <utility>

namespace conformance {
namespace {

constexpr long kNotSupported = 801;
/// Errors after which a context answers nothing else: from CUDA_ERROR_ILLEGAL_ADDRESS to
/// CUDA_ERROR_LAUNCH_FAILED.
constexpr std::array<long, 9> kBrokenContext{700, 702, 710, 714, 715, 716, 717, 718, 719};

int g_verdict_fd = STDOUT_FILENO;

std::vector<Case>& registry() {
  static std::vector<Case> all;
  return all;
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  constexpr std::size_t kLongest = 2000;
  if (text.size() > kLongest) text.resize(kLongest);
  return text;
}

std::mutex g_remarks_mutex;
/// "; what; what".
std::string& remarks() {
  static std::string all;
  return all;
}

std::string take_remarks() {
  const std::scoped_lock lock(g_remarks_mutex);
  return std::exchange(remarks(), {});
}

[[noreturn]] void end_with(const std::string& verdict, int status) {
  const std::string line = one_line(verdict) + "\n";
  // One write of a short line into a pipe: threads and children cannot mix theirs.
  const ssize_t written = ::write(g_verdict_fd, line.data(), line.size());
  ::_exit(written < 0 ? 2 : status);
}

}  // namespace

const std::vector<Case>& cases() {
  std::vector<Case>& all = registry();
  std::sort(all.begin(), all.end(),
            [](const Case& a, const Case& b) { return std::strcmp(a.name, b.name) < 0; });
  return all;
}

bool enroll(const char* name, const char* section, unsigned traits, void (*body)()) {
  registry().push_back(Case{name, section, traits, body});
  return true;
}

void run_case(const Case& chosen, int verdict_fd) {
  // A missing wait shows in some rounds only: the work that came in time in one is late in another.
  constexpr int kRounds = 8;
  g_verdict_fd = verdict_fd;
  const bool again = (chosen.traits & kOrder) != 0 && (chosen.traits & kOnce) == 0;
  for (int round = 0; round < (again ? kRounds : 1); ++round) {
    take_remarks();  // those of the last round are enough
    chosen.body();
  }
  const std::string said = take_remarks();
  end_with(said.empty() ? "pass" : "pass " + said.substr(2), 0);
}

void fail(const char* file, int line, const std::string& what) {
  const char* slash = std::strrchr(file, '/');
  end_with("fail " + std::string(slash == nullptr ? file : slash + 1) + ":" + std::to_string(line) + ": " +
               what + take_remarks(),
           1);
}

void skip(const std::string& why) {
  end_with("skip " + why, 0);
}

void remark(const std::string& what) {
  const std::scoped_lock lock(g_remarks_mutex);
  remarks() += "; " + what;
}

void check_result(long got, std::initializer_list<long> wanted, const char* call, const char* wanted_text,
                  const char* file, int line) {
  if (std::find(wanted.begin(), wanted.end(), got) != wanted.end()) return;
  fail(file, line, std::string(call) + " gives " + std::to_string(got) + ", not " + wanted_text);
}

void check_fails(long got, const char* call, const char* file, int line) {
  if (got == 0) fail(file, line, std::string(call) + " succeeds");
  if (got == kNotSupported) fail(file, line, std::string(call) + " is not supported");
  if (std::find(kBrokenContext.begin(), kBrokenContext.end(), got) != kBrokenContext.end())
    fail(file, line, std::string(call) + " broke the context: " + std::to_string(got));
}

}  // namespace conformance
