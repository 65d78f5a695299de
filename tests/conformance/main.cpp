#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/case.h"
#include "tests/conformance/spawn.h"

namespace {

using namespace conformance;

constexpr const char* kUsage =
    "usage: conformance [--list] [--filter REGEX] [--order-only] [--json] [--jobs N] [--seconds N]\n"
    "\n"
    "Asks the CUDA driver and runtime that the system finds whether they keep the promises of the "
    "documentation.\n"
    "\n"
    "  --list          names, sections and traits of the cases; nothing runs\n"
    "  --filter REGEX  cases whose name has a match\n"
    "  --order-only    cases that depend on the order of work\n"
    "  --json          a JSON object a line (README.md), in place of text\n"
    "  --jobs N        cases at once (default 1)\n"
    "  --seconds N     time for one case (default 20)\n"
    "\n"
    "Exit status: 0 if no case failed, 1 if one did, 2 if it was called wrongly.\n";

struct Options {
  std::string filter;
  std::string run;
  bool list = false;
  bool json = false;
  bool order_only = false;
  int jobs = 1;
  int seconds = 20;
};

[[noreturn]] void usage_error(const std::string& what) {
  std::fprintf(stderr, "conformance: %s (--help lists the options)\n", what.c_str());
  std::exit(2);
}

int parse_count(const std::string& option, const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 1 || value > 10000)
    usage_error(option + " " + text + ": want a number from 1 to 10000");
  return value;
}

Options parse(const std::vector<std::string>& words) {
  Options o;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const auto value = [&] {
      if (i + 1 == words.size()) usage_error(word + " needs a value");
      return words[++i];
    };
    if (word == "--help" || word == "-h") {
      std::fputs(kUsage, stdout);
      std::exit(0);
    }
    if (word == "--list") {
      o.list = true;
    } else if (word == "--json") {
      o.json = true;
    } else if (word == "--order-only") {
      o.order_only = true;
    } else if (word == "--filter") {
      o.filter = value();
    } else if (word == "--run") {
      o.run = value();
    } else if (word == "--jobs") {
      o.jobs = parse_count(word, value());
    } else if (word == "--seconds") {
      o.seconds = parse_count(word, value());
    } else {
      usage_error("unknown option '" + word + "'");
    }
  }
  return o;
}

std::vector<Case> choose(const Options& o) {
  std::vector<Case> chosen;
  try {
    const std::regex pattern(o.filter);
    for (const Case& c : cases()) {
      if (o.order_only && (c.traits & kOrder) == 0) continue;
      if (std::regex_search(c.name, pattern)) chosen.push_back(c);
    }
  } catch (const std::regex_error&) {
    usage_error("--filter " + o.filter + ": is no regular expression");
  }
  return chosen;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) {
      out += '?';
    } else {
      out += c;
    }
  }
  return out + "\"";
}

void print_list(const std::vector<Case>& chosen, bool json) {
  for (const Case& c : chosen) {
    const char* traits = (c.traits & kOrder) != 0 ? "order" : (c.traits & kAlone) != 0 ? "alone" : "plain";
    if (json) {
      std::printf(R"({"case": %s, "section": %s, "traits": "%s"})"
                  "\n",
                  quoted(c.name).c_str(), quoted(c.section).c_str(), traits);
    } else {
      std::printf("%s  [%s]  %s\n", c.name, traits, c.section);
    }
  }
}

/// Runs cases and prints each as it ends.
class Run {
 public:
  explicit Run(const Options& options) : options_(options) {}

  void all(const std::vector<Case>& chosen) {
    std::vector<Case> together;
    std::vector<Case> alone;
    for (const Case& c : chosen) ((c.traits & kAlone) != 0 ? alone : together).push_back(c);
    some(together, options_.jobs);
    some(alone, 1);
  }

  int failed() const { return failed_; }

  void print_sum() const { std::printf("%d passed, %d failed, %d skipped\n", passed_, failed_, skipped_); }

 private:
  void some(const std::vector<Case>& chosen, int jobs) {
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
      for (std::size_t i = next++; i < chosen.size(); i = next++) {
        print(chosen[i], run_apart(chosen[i], options_.seconds));
      }
    };
    std::vector<std::thread> threads;
    for (int i = 1; i < jobs; ++i) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
  }

  void print(const Case& c, const Outcome& outcome) {
    const std::scoped_lock lock(mutex_);
    (outcome.verdict == "pass" ? passed_ : outcome.verdict == "skipped" ? skipped_ : failed_) += 1;
    if (options_.json) {
      std::printf(R"({"schema": "tidepool.conformance/1", "case": %s, "section": %s, "verdict": "%s", )"
                  R"("detail": %s, "milliseconds": %ld})"
                  "\n",
                  quoted(c.name).c_str(), quoted(c.section).c_str(), outcome.verdict.c_str(),
                  quoted(outcome.detail).c_str(), outcome.milliseconds);
    } else {
      std::printf("%-7s %s%s%s\n", outcome.verdict.c_str(), c.name, outcome.detail.empty() ? "" : ": ",
                  outcome.detail.c_str());
    }
    std::fflush(stdout);
  }

  const Options& options_;
  std::mutex mutex_;
  int passed_ = 0;
  int failed_ = 0;
  int skipped_ = 0;
};

[[noreturn]] void run_named(const std::string& name) {
  for (const Case& c : cases()) {
    if (name == c.name) run_case(c, kVerdictFd);
  }
  usage_error("--run " + name + ": there is no such case");
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(std::vector<std::string>(argv + 1, argv + argc));
  if (!options.run.empty()) run_named(options.run);
  const std::vector<Case> chosen = choose(options);
  if (options.list) return print_list(chosen, options.json), 0;
  if (chosen.empty()) usage_error("no case has that name");
  Run run(options);
  run.all(chosen);
  if (!options.json) run.print_sum();
  return run.failed() == 0 ? 0 : 1;
}
