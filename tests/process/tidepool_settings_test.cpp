// Where the settings of a run come from: flags, variables, a file; and what --dry-run says of them.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/process/child_process.h"
#include "tests/process/pattern.h"

namespace tidepool::test {
namespace {

namespace fs = std::filesystem;

const std::string kTidepool = built("tests/stand_in/bin/tidepool");
const std::string kLibrary = built("tests/stand_in/lib/libtidepool.so");

/// Calls the command in this folder.
Outcome call_in(const std::string& folder, const std::string& words,
                std::vector<std::pair<std::string, std::string>> variables = {}) {
  return run({{"/bin/sh", "-c", "cd " + folder + " && exec " + kTidepool + " " + words},
              "",
              std::move(variables),
              false,
              false});
}

void refused(const Outcome& got, const std::string& line) {
  CHECK(got.code() == 125);
  CHECK(got.out.empty());
  CHECK(got.err == "tidepool: " + line + "\n");
}

TEST_CASE("config: ./tidepool.toml is read, a variable wins over it, and a flag over both") {
  ScratchFolder folder;
  write_file(folder / "tidepool.toml",
             "# a comment\ndevice_budget = \"48MiB\"\nmin-block = 4194304\nquiet = true\ncheck = 'cheap'\n");
  const std::string print =
      " printenv TIDEPOOL_DEVICE_BUDGET TIDEPOOL_MIN_BLOCK TIDEPOOL_QUIET TIDEPOOL_CHECK";
  CHECK(call_in(folder.path(), "run" + print).out == "48MiB\n4194304\n1\ncheap\n");
  CHECK(call_in(folder.path(), "run" + print, {{"TIDEPOOL_CHECK", "full"}}).out ==
        "48MiB\n4194304\n1\nfull\n");
  CHECK(call_in(folder.path(), "run --check off --quiet=no" + print, {{"TIDEPOOL_CHECK", "full"}}).out ==
        "48MiB\n4194304\nno\noff\n");
  // In another folder there is none; and it can be named from there.
  CHECK(call_in("/", "run printenv TIDEPOOL_CHECK").code() == 1);
  CHECK(call_in("/", "run --config " + (folder / "tidepool.toml") + " printenv TIDEPOOL_CHECK").out ==
        "cheap\n");
  write_file(folder / "other.toml", "");
  CHECK(call_in(folder.path(), "run --config=other.toml printenv TIDEPOOL_CHECK").code() == 1);
}

TEST_CASE("config: tidepool env shows which source won") {
  ScratchFolder folder;
  write_file(folder / "tidepool.toml", "check = \"cheap\"\nmin_block = \"4MiB\"\n");
  const Outcome got = call_in(folder.path(), "env", {{"TIDEPOOL_CHECK", "full"}});
  CHECK(got.code() == 0);
  const auto has = [&](const std::string& name, const std::string& value, const std::string& source) {
    const std::size_t at = got.out.find(name + "=" + value + "\n");
    return at != std::string::npos &&
           got.out.find("    from: " + source + " · ", at) < got.out.find("TIDEPOOL_", at + 1);
  };
  CHECK(has("TIDEPOOL_CHECK", "full", "environment"));
  CHECK(has("TIDEPOOL_MIN_BLOCK", "4MiB", "tidepool.toml"));
  CHECK(has("TIDEPOOL_HOST_BUDGET", "50%", "default"));
  CHECK(call_in("/", "env --config " + (folder / "tidepool.toml"))
            .out.find("from: " + (folder / "tidepool.toml")) != std::string::npos);
}

TEST_CASE("config: comments are in any language, and a file may begin with the mark of UTF-8") {
  ScratchFolder folder;
  write_file(
      folder / "tidepool.toml",
      "\xef\xbb\xbf# \xc3\xb6\xc3\x9f\ncheck = 'full' # \xe5\xa4\xa7 \"\nrun_dir = \"#\\\"#\" # \xff\n");
  const Outcome got = call_in(folder.path(), "env");
  INFO(got.err);
  CHECK(got.code() == 0);
  CHECK(got.out.find("TIDEPOOL_CHECK=full\n") != std::string::npos);
  CHECK(got.out.find("TIDEPOOL_RUN_DIR=#\"#\n") != std::string::npos);
}

TEST_CASE("config: a mistake is named with its line, and nothing starts") {
  ScratchFolder folder;
  const auto with = [&](const std::string& text) {
    write_file(folder / "tidepool.toml", text);
    return call_in(folder.path(), "run echo x");
  };
  refused(with("\n\ndevice_budgt = \"1GiB\"\n"),
          "run: tidepool.toml:3: there is no option device_budgt (did you mean device_budget?)");
  for (const char* key : {"DEVICE_BUDGET", "TIDEPOOL_DEVICE_BUDGET", "tidepool_device_budgt"}) {
    refused(
        with(std::string(key) + " = \"1GiB\"\n"),
        std::string("run: tidepool.toml:1: there is no option ") + key + " (did you mean device_budget?)");
  }
  refused(with("swimming = 1\n"), "run: tidepool.toml:1: there is no option swimming");
  refused(with("device_budget = \"1KiB\"\n"),
          "run: tidepool.toml:1: device_budget = 1KiB is out of range 16MiB..100%");
  refused(with("device_budget = 0.5\n"),
          "run: tidepool.toml:1: device_budget is not valid: its value is neither text, a whole number, true "
          "nor false");
  refused(with("[memory]\ndevice_budget = \"1GiB\"\n"), "run: tidepool.toml:1: there is no option memory");
  refused(with("min-block = \"2MiB\"\nmin_block = \"2MiB\"\n"),
          "run: tidepool.toml:2: min_block is there twice ('-' and '_' are the same)");
  // What toml++ asserts, and does not take well.
  refused(with("# one\n[+x]\n"), "run: tidepool.toml:2: is no TOML");
  refused(with("check = 'off'\nrun_dir = '\xc3\xa9'\n"),
          "run: tidepool.toml:2: has a character that is not ASCII outside of a comment");
  // The usual mistake.
  refused(with("quiet = true\ndevice_budget = 32MiB  # the card's\n"),
          "run: tidepool.toml:2: device_budget = 32MiB is not valid: write it in quotes, device_budget = "
          "\"32MiB\"");
  refused(with("check = full\n"),
          "run: tidepool.toml:1: check = full is not valid: write it in quotes, check = \"full\"");
  refused(with("run_dir = /tmp/x"),
          "run: tidepool.toml:1: run_dir = /tmp/x is not valid: write it in quotes, run_dir = \"/tmp/x\"");
  refused(with("clean = off\n"), "run: tidepool.toml:1: clean = off is not valid: write true or false");
  refused(with("quiet = yes\r\n"), "run: tidepool.toml:1: quiet = yes is not valid: write true or false");
  refused(with(std::string(70'000, '#')), "run: tidepool.toml is larger than 64 KiB");
  refused(with("check = \"\\u001b[2J\"\n"),
          "run: tidepool.toml:1: check = ?[2J is none of off, cheap, full, unmap");
  const Outcome syntax = with("check = \n");
  CHECK(syntax.code() == 125);
  CHECK(syntax.err.find("tidepool: run: tidepool.toml:1: ") == 0);
  CHECK(syntax.err.find('\n') == syntax.err.size() - 1);
  refused(call_in("/", "run --config /no/such.toml echo x"),
          "run: the file /no/such.toml cannot be read: No such file or directory");
  refused(call_in("/", "env --config /no/such.toml"),
          "env: the file /no/such.toml cannot be read: No such file or directory");
  refused(call_in("/", "run --config / echo x"), "run: the file / cannot be read: it is a folder");
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  fs::remove(folder / "tidepool.toml");
  fs::rename(folder / "pipe", folder / "tidepool.toml");
  refused(call_in(folder.path(), "run echo x"), "run: the file tidepool.toml cannot be read: it is no file");
  refused(call_in("/", "run --config"), "run: --config needs a value (FILE)");
}

TEST_CASE("dry run: prints what would be run, in a form that a shell runs, and starts nothing") {
  ScratchFolder folder;
  const Outcome got = call_in(
      folder.path(),
      "run --dry-run --device-budget 48MiB --run-dir runs/%e sh -c 'echo \"$0 $TIDEPOOL_RUN_DIR\"' \"it's\"");
  CHECK(got.code() == 0);
  CHECK(got.err.empty());
  const std::string first = preload_first().empty() ? "" : preload_first() + ":";
  CHECK(got.out == "LD_PRELOAD=" + first + kLibrary +
                       " \\\nTIDEPOOL_DEVICE_BUDGET=48MiB \\\nTIDEPOOL_RUN_DIR=runs/sh \\\n"
                       "sh -c 'echo \"$0 $TIDEPOOL_RUN_DIR\"' 'it'\\''s'\n");
  CHECK(names_in(folder.path()).empty());
  CHECK(run({{"/bin/sh", "-c", got.out}, "", {}, false, false}).out == "it's runs/sh\n");
  // Of a private folder nothing is known yet.
  const Outcome unnamed = call_in(folder.path(), "run --dry-run true");
  CHECK(unnamed.out ==
        "# TIDEPOOL_RUN_DIR will name a private folder that lasts as long as the run.\nLD_PRELOAD=" + first +
            kLibrary + " \\\ntrue\n");
  CHECK(run({{"/bin/sh", "-c", unnamed.out}, "", {}, false, false}).code() == 0);
  CHECK(call_in(folder.path(), "run --dry-run --disable true").out == "TIDEPOOL_DISABLE=1 \\\ntrue\n");
  // What would be refused is refused.
  CHECK(call_in(folder.path(), "run --dry-run no-such-program").code() == 127);
}

TEST_CASE("run folder: templates are filled in") {
  ScratchFolder folder;
  const Outcome got = call_in(
      folder.path(), "run --run-dir 'r/%e-%p-%r-%j-%q{WHO}-%%-%h-%t' sh -c 'basename $TIDEPOOL_RUN_DIR'",
      {{"WHO", "me"}, {"RANK", "3"}, {"SLURM_JOB_ID", "77"}});
  CHECK(got.code() == 0);
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  CHECK(got.out.find("-3-77-me-%-" + std::string(host) + "-") != std::string::npos);
  CHECK(names_in(folder / "r").size() == 1);
  refused(call_in(folder.path(), "run --run-dir 'a%z' true"),
          "run: the run folder a%z is not valid: %z is none of %p, %h, %e, %t, %r, %j, %q{NAME} and %%");
  refused(call_in(folder.path(), "run --run-dir 'a%' true"),
          "run: the run folder a% is not valid: a % at its end is none of %p, %h, %e, %t, %r, %j, %q{NAME} "
          "and %%");
  refused(call_in(folder.path(), "run --run-dir '%q{NOBODY}' true"),
          "run: the run folder %q{NOBODY} is not valid: the variable NOBODY of %q{NOBODY} is not set");
  refused(call_in(folder.path(), "run --run-dir '%q{' true"),
          "run: the run folder %q{ is not valid: %q needs a variable, %q{NAME}");
}

TEST_CASE("progress: a line on the terminal of stderr, and nothing in a pipe") {
  ScratchFolder folder;
  const std::vector<std::pair<std::string, std::string>> numbers = {
      {"TIDEPOOL_TEST_STATS",
       "allocated_bytes_peak=4096 device_resident_bytes=1024 device_capacity_bytes=4096 "
       "swap_out_bytes_total=2048 "
       "swap_in_bytes_total=3072 wait_ns_total=1500000000"}};
  const Outcome piped = call_in(folder.path(), "run --progress sh -c 'sleep 0.7; echo out'", numbers);
  CHECK(piped.out == "out\n");
  CHECK(piped.err.find('\r') == std::string::npos);
  CHECK(piped.err.find("held") == std::string::npos);
  if (!fs::exists("/usr/bin/script")) return;
  const auto on_terminal = [&](const std::string& words, const char* kind = "xterm") {
    auto variables = numbers;
    variables.emplace_back("TERM", kind);
    return run({{"/usr/bin/script", "-qec", "stty rows 24 cols 80; " + kTidepool + " run --progress " + words,
                 "/dev/null"},
                "",
                variables,
                false,
                false});
  };
  const Outcome got = on_terminal("sleep 1.2");
  CHECK(got.code() == 0);
  CHECK(got.out.find(", 1.0 KiB of 4.0 KiB held, 1.5s waited, 2.0 KiB out, 3.0 KiB in\0338") !=
        std::string::npos);
  CHECK(got.out.find("\0337\033[24;1H\033[K\033[r\0338tidepool: done in") != std::string::npos);
  CHECK(on_terminal("--quiet sh -c 'sleep 0.7'").out.empty());
  CHECK(on_terminal("sh -c 'sleep 0.7'", "dumb").out.find("\033[K") == std::string::npos);
}

}  // namespace
}  // namespace tidepool::test
