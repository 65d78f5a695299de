// The commands that only print: explain, version, help.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "allocator/support/events.h"
#include "allocator/support/message.h"
#include "allocator/support/options.h"
#include "allocator/support/stats_page.h"
#include "tests/process/child_process.h"
#include "tests/process/pattern.h"

namespace tidepool::test {
namespace {

const std::string kTidepool = built("tests/stand_in/bin/tidepool");

Outcome call(std::vector<std::string> words) {
  words.insert(words.begin(), kTidepool);
  return run({words, "", {}, false, false});
}

/// Expects exactly this line on stderr, nothing on stdout, and 125.
void refused(const Outcome& got, const std::string& line) {
  CHECK(got.code() == 125);
  CHECK(got.out.empty());
  CHECK(got.err == "tidepool: " + line + "\n");
}

TEST_CASE("explain: a message has its text, its cause and what to do") {
  const Outcome got = call({"explain", "TP2003"});
  CHECK(got.code() == 0);
  CHECK(got.err.empty());
  CHECK(got.out ==
        "TP2003 · warning\n"
        "    a launch has waited … for GPU work to end so that memory can move. The job\n"
        "    goes on when it ends. Work that waits for the program meanwhile never ends:\n"
        "    raise --device-budget until this line stays away.\n"
        "Cause\n"
        "    Memory is moved only after the GPU work that uses it has ended; a kernel\n"
        "    that waits for a later launch, or a very long kernel, delays that. Where\n"
        "    that work waits for the launching thread (for a value that it writes later,\n"
        "    or in a host function for a lock that it holds), neither goes on.\n"
        "What to do\n"
        "    If the job hangs with Tidepool only (TIDEPOOL_DISABLE=1 tells), raise\n"
        "    --device-budget: room for that work and the launch together is enough.\n");
  CHECK(call({"explain", "tp2003"}).out == got.out);
}

TEST_CASE("explain: an option by variable, flag or name") {
  const std::string text =
      "TIDEPOOL_MIN_BLOCK · --min-block\n"
      "    Allocations smaller than this, as the program asks for them, are never\n"
      "    moved; nor are those of up to 1MiB.\n"
      "    Values: 1MiB..1GiB. Default: 1MiB.\n"
      "    Read when the program starts.\n";
  for (const char* name : {"TIDEPOOL_MIN_BLOCK", "--min-block", "min_block", "min-block", "Min_Block"}) {
    CHECK(call({"explain", name}).out == text);
  }
}

TEST_CASE("explain: a flag that is no option, with each command that takes it") {
  CHECK(call({"explain", "--progress"}).out.find("--progress · tidepool run\n    ") == 0);
  const std::string config = call({"explain", "config"}).out;
  CHECK(config.find("--config FILE · tidepool run\n    ") == 0);
  CHECK(config.find("\n--config FILE · tidepool env\n    ") != std::string::npos);
  // Where it is an option as well, that is told.
  CHECK(call({"explain", "--device-budget"}).out.find("TIDEPOOL_DEVICE_BUDGET · --device-budget\n") == 0);
  CHECK(call({"explain", "--dry-rum"}).err ==
        "tidepool: explain: there is no '--dry-rum' (did you mean --dry-run?)\n");
}

TEST_CASE("explain: knows every message, option, number and event") {
  CHECK(call({"explain", "block_out"}).out ==
        "block_out · event, debug of swap\n    A copy of a block to host memory was started.\n"
        "        block: where it begins\n        bytes: its size\n");
  for (const EventRow& row : event_rows()) CHECK(call({"explain", row.name}).code() == 0);
  for (const MessageRow& row : message_rows()) {
    const Outcome got = call({"explain", row.code});
    INFO(row.code);
    CHECK(got.code() == 0);
    CHECK(got.out.find(row.code) == 0);
    CHECK((row.severity == Severity::I || got.out.find("What to do\n") != std::string::npos));
    CHECK(got.out.find("%s") == std::string::npos);
    CHECK(got.out.find("%d") == std::string::npos);
  }
  for (const OptionRow& row : option_rows()) CHECK(call({"explain", row.variable}).code() == 0);
  for (const MetricRow& row : metric_rows()) CHECK(call({"explain", row.name}).out.find(row.name) == 0);
}

TEST_CASE("explain: knows what the reference has beside the tables") {
  CHECK(call({"explain", "TIDEPOOL_RUN_ID"}).out ==
        "TIDEPOOL_RUN_ID · variable\n    set by tidepool run for what it starts: which run a process belongs "
        "to,\n    where several share a folder\n");
  CHECK(call({"explain", "TMPDIR"}).out == call({"explain", "XDG_RUNTIME_DIR"}).out);
  CHECK(call({"explain", "xdg_runtime_dir"}).out.find("XDG_RUNTIME_DIR, TMPDIR · variable\n") == 0);
  CHECK(call({"explain", "events_lost"}).out.find("events_lost · in logs and reports\n    Events came") == 0);
}

TEST_CASE("explain: what is not there is refused, with what was meant") {
  refused(call({"explain", "TP20003"}), "explain: there is no 'TP20003' (did you mean TP2003?)");
  refused(call({"explain", "--min-blok"}),
          "explain: there is no '--min-blok' (did you mean TIDEPOOL_MIN_BLOCK?)");
  refused(call({"explain", "everything"}),
          "explain: there is no 'everything'; tidepool explain lists the messages, tidepool env the options");
  refused(call({"explain", ""}),
          "explain: there is no ''; tidepool explain lists the messages, tidepool env the options");
  refused(call({"explain", "TP2003", "TP2001"}), "explain: there is one argument too many: 'TP2001'");
  const Outcome all = call({"explain"});
  CHECK(all.code() == 0);
  CHECK(static_cast<std::size_t>(std::count(all.out.begin(), all.out.end(), '\n')) == message_rows().size());
}

TEST_CASE("version: one line, more with -v, an object with --json") {
  CHECK(call({"version"}).out == "tidepool " TP_TEST_VERSION "\n");
  const Outcome more = call({"version", "-v"});
  CHECK(matches(
      more.out,
      "tidepool " TP_TEST_VERSION
      "\ncommit: *\nbuild: *\ncompiler: *\nglibc_needed: 2.36\nglibc_here: *\ndriver_needed: CUDA 12.4\n"
      "library: *libtidepool.so\nlibrary_readable: yes\nstats_page: #\n"));
  const Outcome json = call({"version", "--json"});
  CHECK(json.out.find("{\"version\": \"" TP_TEST_VERSION "\", \"commit\": \"") == 0);
  CHECK(json.out.find("\"library_readable\": true") != std::string::npos);
  const Job reader{
      {"/usr/bin/python3", "-c", "import json,sys; print(type(json.load(sys.stdin)['stats_page']).__name__)"},
      json.out,
      {},
      false,
      false};
  if (std::filesystem::exists("/usr/bin/python3")) CHECK(run(reader).out == "int\n");
  CHECK(call({"version", "-vh"}).out == call({"help", "version"}).out);
  refused(call({"version", "-vv="}), "version: unknown option -vv");
  refused(call({"version", "now"}), "version: takes no arguments");
  refused(call({"version", "--jsn"}), "version: unknown option --jsn (did you mean --json?)");
  refused(call({"version", "--json=yes"}), "version: --json takes no value");
}

TEST_CASE("help: every command has one, and the overview names them all") {
  const Outcome overview = call({"--help"});
  CHECK(overview.code() == 0);
  for (const char* name : {"run", "env", "explain", "version"}) {
    CHECK(overview.out.find("\n  " + std::string(name) + " ") != std::string::npos);
    const Outcome help = call({name, "--help"});
    CHECK(help.code() == 0);
    CHECK(help.err.empty());
    CHECK(help.out.find("usage: tidepool " + std::string(name)) == 0);
    CHECK(call({name, "-h"}).out == help.out);
    CHECK(call({"help", name}).out == help.out);
  }
}

}  // namespace
}  // namespace tidepool::test
