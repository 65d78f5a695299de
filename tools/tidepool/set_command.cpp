#include <time.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "allocator/support/options.h"
#include "allocator/support/units.h"
#include "tools/tidepool/command_table.h"
#include "tools/tidepool/commands.h"
#include "tools/tidepool/console.h"
#include "tools/tidepool/live_page.h"

namespace tidepool::tools {
namespace {

/// Not everything is as asked, or not yet.
constexpr int kExitNotYet = 1;
constexpr std::string_view kDefaultWait = "5";
constexpr unsigned kLongestWait = 3600;

/// One process that was asked.
struct Asked {
  LivePage page;
  BudgetRequest request;
  bool ended = false;
};

std::optional<unsigned> number_in(std::string_view text) {
  unsigned n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

/// The value of --device-budget, checked as `tidepool run` checks it.
std::optional<Amount> read_budget(const CommandWords& got, std::string* error) {
  const OptionRow& row = *find_option("TIDEPOOL_DEVICE_BUDGET");
  const auto scratch = std::make_unique<Options>(default_options());
  const std::string value(got.value_of("--device-budget"));
  const OptionVerdict verdict = set_option(*scratch, row, value);
  if (verdict.ok()) return scratch->device_budget;
  char text[1024];
  describe_refusal(text, sizeof text, row, ("--device-budget " + value).c_str(), verdict);
  *error = text;
  return std::nullopt;
}

/// A number is a process; a folder with such a name is meant by ./NAME.
std::vector<LivePage> find_pages(std::string_view word, std::string* problem) {
  if (std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c) != 0; })) {
    const std::optional<unsigned> pid = number_in(word);
    if (pid && *pid > 0 && *pid < (1U << 30)) return live_pages_of(static_cast<pid_t>(*pid), problem);
    *problem = "there is no process " + std::string(word);
    return {};
  }
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::canonical(word, error);
  if (error || !std::filesystem::is_directory(folder, error)) {
    *problem = std::string(word) + " is no folder";
    return {};
  }
  return live_pages_in(folder.string(), problem);
}

/// The answers of the devices that a process uses.
std::vector<const BudgetAnswer*> answers_of(const Asked& asked) {
  std::vector<const BudgetAnswer*> answers;
  for (const BudgetAnswer& answer : asked.page.budget().answers) {
    if (answer.owned.load(std::memory_order_acquire) == BudgetAnswer::kAnswers) answers.push_back(&answer);
  }
  return answers;
}

/// All of its memory is left to the driver: no device of it will ever take a budget.
bool is_only_watched(const Asked& asked) {
  return answers_of(asked).empty() && asked.page.get(Metric::allocated_bytes_peak) > 0 &&
         asked.page.get(Metric::blocks_managed_total) == 0;
}

/// Has the device done what was asked last?
bool has_taken(const Asked& asked, const BudgetAnswer& answer) {
  return answer.taken.load(std::memory_order_acquire) ==
         asked.page.budget().asked.load(std::memory_order_relaxed);
}

bool is_done(const Asked& asked) {
  if (asked.ended) return true;
  const auto answers = answers_of(asked);
  return std::all_of(answers.begin(), answers.end(), [&](const BudgetAnswer* answer) {
    const BudgetOutcome outcome = answer->outcome();
    return has_taken(asked, *answer) && outcome.held <= outcome.capacity;
  });
}

void wait_for_all(std::vector<Asked>& all, Nanos patience) {
  constexpr timespec kNap{0, 5'000'000};
  constexpr int kNapsPerLook = 20;  // into /proc, whether they still run
  const Nanos deadline = monotonic_now() + patience;
  for (int nap = 1;; ++nap) {
    if (std::all_of(all.begin(), all.end(), is_done)) return;
    const bool is_over = monotonic_now() >= deadline;
    for (Asked& asked : all) {
      if ((is_over || nap % kNapsPerLook == 0) && !is_done(asked)) asked.ended = !asked.page.is_live();
    }
    if (is_over) return;
    nanosleep(&kNap, nullptr);
  }
}

/// "may hold 8.0 GiB (was 12.0 GiB), the least that a budget may be; holds 7.9 GiB".
std::string outcome_text(const BudgetOutcome& outcome) {
  const auto why = [&] {
    switch (outcome.limit) {
      case BudgetLimit::kAsked:
        break;
      case BudgetLimit::kLeast:
        return ", the least that a budget may be";
      case BudgetLimit::kDevice:
        return ", all that the device has less its reserve";
      case BudgetLimit::kNeeded:
        return ", which is what the program needs at once and what never moves";
    }
    return "";
  };
  const bool is_above = outcome.held > outcome.capacity;
  return std::string("may hold ") + BytesText(outcome.capacity).c_str() + " (was " +
         BytesText(outcome.before).c_str() + ")" + why() + (is_above ? "; still holds " : "; holds ") +
         BytesText(outcome.held).c_str() + (is_above ? ", what is in use leaves at later launches" : "");
}

/// Prints what became of one process; true if it is as asked.
bool print_outcome(const Asked& asked) {
  const std::string process =
      "process " + std::to_string(asked.page.pid()) + " (" + asked.page.program() + ")";
  if (asked.ended) return std::puts((process + ": ended before it took it").c_str()), false;
  if (is_only_watched(asked)) {
    std::puts(
        (process + ": keeps no budget, since its memory is only watched. Run it with --mode manage").c_str());
    return false;
  }
  const std::vector<const BudgetAnswer*> answers = answers_of(asked);
  bool is_as_asked = true;
  for (const BudgetAnswer* answer : answers) {
    const std::string device = std::to_string(answer->device.load(std::memory_order_relaxed));
    const std::string who = process + (answers.size() > 1 ? ", device " + device : "") + ": ";
    if (!has_taken(asked, *answer)) {
      std::puts((who + "has not taken it yet; it will at its next launch, copy or allocation" +
                 (answers.size() > 1 ? " there" : ""))
                    .c_str());
      is_as_asked = false;
      continue;
    }
    const BudgetOutcome outcome = answer->outcome();
    const bool is_other = answer->taken.load(std::memory_order_relaxed) != asked.request.raw();
    std::puts((who + outcome_text(outcome) + (is_other ? ", as another command asked since" : "")).c_str());
    is_as_asked =
        is_as_asked && !is_other && outcome.held <= outcome.capacity && outcome.limit != BudgetLimit::kNeeded;
  }
  return is_as_asked;
}

/// Of those that have not used a device: they take it when they do.
void print_idle(const std::vector<Asked>& all) {
  std::vector<const Asked*> idle;
  for (const Asked& asked : all) {
    if (!asked.ended && answers_of(asked).empty() && !is_only_watched(asked)) idle.push_back(&asked);
  }
  if (idle.empty()) return;
  if (idle.size() < all.size() || idle.size() > 1) {
    std::printf("%zu %s not used device memory yet and will start with it\n", idle.size(),
                idle.size() == 1 ? "process has" : "processes have");
  } else {
    std::printf("process %d (%s): has not used device memory yet and will start with it\n",
                static_cast<int>(idle[0]->page.pid()), idle[0]->page.program().c_str());
  }
}

int refuse(const std::string& why) {
  say("set: %s", why.c_str());
  return kExitRefused;
}

}  // namespace

int set_command(std::span<char*> words) {
  CommandWords got;
  if (const auto code = begin_command("set", words, 1, got)) return *code;
  if (!got.has("--device-budget")) return refuse("say what to set: --device-budget VALUE");
  if (got.words.empty()) return refuse("name the folder of a run, its --run-dir, or a process id");
  std::string error;
  const std::optional<Amount> budget = read_budget(got, &error);
  if (!budget) return refuse(error);
  const std::string wait(got.has("--wait") ? got.value_of("--wait") : kDefaultWait);
  const std::optional<unsigned> seconds = number_in(wait);
  if (!seconds || *seconds > kLongestWait)
    return refuse("--wait " + wait + " is out of range 0.." + std::to_string(kLongestWait));

  std::vector<LivePage> pages = find_pages(got.words[0], &error);
  if (pages.empty()) return refuse(error);
  if (got.has("--pid")) {
    const std::string wanted(got.value_of("--pid"));
    std::vector<LivePage> chosen;
    for (LivePage& page : pages) {
      if (std::to_string(page.pid()) == wanted) chosen.push_back(std::move(page));
    }
    if (chosen.empty()) return refuse("no process " + wanted + " of " + std::string(got.words[0]) + " runs");
    pages =
        std::vector<LivePage>(std::make_move_iterator(chosen.begin()), std::make_move_iterator(chosen.end()));
  }

  std::vector<Asked> all;
  for (LivePage& page : pages) {
    const BudgetRequest request = page.budget().ask(*budget);
    all.push_back({std::move(page), request});
  }
  wait_for_all(all, tidepool::seconds(static_cast<std::int64_t>(*seconds)));
  bool is_as_asked = true;
  for (const Asked& asked : all) is_as_asked = print_outcome(asked) && is_as_asked;
  print_idle(all);
  return is_as_asked ? 0 : kExitNotYet;
}

}  // namespace tidepool::tools
