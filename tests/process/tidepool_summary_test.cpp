#include <signal.h>

#include <catch2/catch.hpp>

#include "tests/process/child_process.h"
#include "tests/process/pattern.h"
#include "tests/process/stand_in_job.h"

namespace tidepool::test {
namespace {

TEST_CASE("summary: one line says what was needed, where it fitted and what moved") {
  ScratchFolder tmp;
  const Outcome got = run(job(tmp, {"true"}));
  CHECK(matches(got.err,
                "tidepool: done in @ (exit 0). Needed 96.0 MiB, fitted in 48.0 MiB (peak 47.9 MiB). "
                "Swapped 1.2 GiB out, 1.1 GiB in.\n"));
  CHECK(got.out.empty());
}

TEST_CASE("summary: a budget that was lowered meanwhile is told with the one before") {
  ScratchFolder tmp;
  const std::string numbers = std::string(kNumbers) + " device_capacity_bytes_peak=62914560";
  const Outcome got = run(job(tmp, {"true"}, numbers.c_str()));
  CHECK(got.err.find("Needed 96.0 MiB, fitted in 48.0 MiB, before in up to 60.0 MiB (peak 47.9 MiB). ") !=
        std::string::npos);
}

TEST_CASE("summary: follows kill -9, and says so") {
  ScratchFolder tmp;
  const Outcome got = run(job(tmp, {"sh", "-c", "kill -9 $$"}));
  CHECK(got.code() == -SIGKILL);
  CHECK(got.err.find("(killed by SIGKILL). Needed 96.0 MiB") != std::string::npos);
  CHECK(names_in(tmp.path()).empty());
}

TEST_CASE("summary: follows _exit, exit codes and closed standard files of the program") {
  ScratchFolder tmp;
  const Outcome got = run(job(tmp, {"sh", "-c", "exec >&- 2>&-; exit 7"}));
  CHECK(got.code() == 7);
  CHECK(got.err.find("(exit 7). Needed 96.0 MiB") != std::string::npos);
}

TEST_CASE("summary: a job that fitted, and warnings") {
  ScratchFolder tmp;
  const Outcome got = run(job(tmp, {"true"},
                              "allocated_bytes_peak=1024 device_capacity_bytes=4096 "
                              "device_resident_bytes_peak=1024 warnings_total=2"));
  CHECK(got.err.find("Needed 1.0 KiB of 4.0 KiB (peak 1.0 KiB). Nothing had to be swapped. 2 warnings.\n") !=
        std::string::npos);
}

TEST_CASE("summary: a job that was refused memory is told how often, and how much it wanted") {
  ScratchFolder tmp;
  const std::string numbers =
      "allocated_bytes_peak=1024 device_capacity_bytes=4096 device_resident_bytes_peak=1024 ";
  const Outcome asked =
      run(job(tmp, {"false"}, (numbers + "refused_bytes_peak=8192 out_of_memory_total=1").c_str()));
  CHECK(asked.err.find("(exit 1). Needed 1.0 KiB in 4.0 KiB (peak 1.0 KiB). Out of memory once, with 8.0 KiB "
                       "wanted. Nothing had to be swapped.\n") != std::string::npos);
  const Outcome nothing_held =
      run(job(tmp, {"false"}, "device_capacity_bytes=4096 refused_bytes_peak=8192 out_of_memory_total=1"));
  CHECK(
      nothing_held.err.find("Needed 0 B in 4.0 KiB (peak 0 B). Out of memory once, with 8.0 KiB wanted. ") !=
      std::string::npos);
  // A launch whose own set was too large: nothing was refused that could be added to what it holds.
  const Outcome launched = run(job(tmp, {"true"}, (numbers + "out_of_memory_total=3").c_str()));
  CHECK(launched.err.find("Needed 1.0 KiB in 4.0 KiB (peak 1.0 KiB). Out of memory 3 times. ") !=
        std::string::npos);
}

TEST_CASE("summary: silent where no process used CUDA, unless asked, and with -q") {
  ScratchFolder tmp;
  CHECK(run(job(tmp, {"true"}, "")).err.empty());
  CHECK(matches(
      run(job(tmp, {"-v", "true"}, "")).err,
      "tidepool: done in @ (exit 0). No process held device memory that Tidepool manages: none "
      "asked for any, there is no driver (libcuda.so.1) or no device, or something cleared LD_PRELOAD.\n"));
  CHECK(run(job(tmp, {"-q", "true"})).err.empty());
  CHECK(run(job(tmp, {"--quiet", "-v", "true"})).err.empty());
  CHECK(run(job(tmp, {"-vq", "true"})).err.empty());
}

TEST_CASE("summary: whoever names a budget is told that there was nothing to keep within it") {
  ScratchFolder tmp;
  const char* const line =
      "tidepool: done in @ (exit 0). No process held device memory that Tidepool manages: none asked for "
      "any, "
      "there is no driver (libcuda.so.1) or no device, or something cleared LD_PRELOAD.\n";
  CHECK(matches(run(job(tmp, {"--device-budget", "8GiB", "true"}, "")).err, line));
  CHECK(run(job(tmp, {"--device-budget", "8GiB", "-q", "true"}, "")).err.empty());
  // A variable may be meant for all that a shell starts.
  Job exported = job(tmp, {"true"}, "");
  exported.variables.emplace_back("TIDEPOOL_DEVICE_BUDGET", "8GiB");
  CHECK(run(exported).err.empty());
}

TEST_CASE("summary: switched off, the run says so if asked") {
  ScratchFolder tmp;
  CHECK(run(job(tmp, {"--disable", "true"}, "")).err.empty());
  CHECK(run(job(tmp, {"--disable", "-v", "true"}, "")).err.find("Tidepool is switched off") !=
        std::string::npos);
}

TEST_CASE("summary: several processes have a line each and a total") {
  ScratchFolder tmp;
  const Outcome got = run(job(tmp, {"sh", "-c", "/bin/true; /bin/echo x >/dev/null; exit 0"}));
  CHECK(matches(got.err,
                "tidepool: process # (sh) needed 96.0 MiB*\n"
                "tidepool: process # (true) needed 96.0 MiB*\n"
                "tidepool: process # (echo) needed 96.0 MiB*\n"
                "tidepool: done in @ (exit 0). 3 processes used CUDA. Swapped 3.6 GiB out, 3.3 GiB in.\n"));
}

TEST_CASE("summary: a program that was called by exec in place keeps its own line") {
  ScratchFolder tmp;
  const Outcome got = run(job(tmp, {"sh", "-c", "exec true"}));
  CHECK(got.err.find("(true) needed") != std::string::npos);
  CHECK(got.err.find("2 processes used CUDA") != std::string::npos);
}

// HAMi#663, #1346: a preload that is not there is passed over by the loader, and nothing says so.
TEST_CASE("summary: says when the library was not loaded") {
  ScratchFolder tmp;
  const Outcome got = run(job(tmp, {"env", "-i", "/bin/true"}));
  CHECK(got.code() == 0);
  // env itself had the library, so the run is not blind.
  CHECK(got.err.find("warning:") == std::string::npos);
  Job blind = job(tmp, {"true"});
  blind.words[0] = built("tests/empty_stand_in/bin/tidepool");
  const Outcome unseen = run(blind);
  CHECK(unseen.code() == 0);
  CHECK(
      unseen.err.find("warning: the program ended (exit 0), but no process of this run had libtidepool.so") !=
      std::string::npos);
}

TEST_CASE("summary: numbers of another version are not taken for a library that was not there") {
  ScratchFolder tmp;
  // The program makes its own page one of version 99.
  const std::string script = "printf 'tdpoolst\\143' 1<>$TIDEPOOL_RUN_DIR/stats.$$";
  const Outcome got = run(job(tmp, {"sh", "-c", script}));
  CHECK(got.code() == 0);
  INFO(got.err);
  CHECK(matches(
      got.err,
      "tidepool: warning: the program ended (exit 0), but its numbers cannot be read: stats.# is of another "
      "version of Tidepool (99 with # numbers, this command knows # with #). Use tidepool and libtidepool.so "
      "of one build.\n"));
}

TEST_CASE("summary: what is asked for and switched off is told of") {
  ScratchFolder tmp;
  const auto said = [&](const std::vector<std::string>& words, const char* variable = nullptr) {
    Job all = job(tmp, words);
    if (variable != nullptr) all.variables.push_back({variable, "1"});
    return run(all).err;
  };
  const std::string how =
      " has no effect: TIDEPOOL_DISABLE switches Tidepool off. --disable=off switches it on again.\n";
  const std::string warning = "tidepool: warning: ";
  CHECK(said({"--device-budget", "40MiB", "true"}, "TIDEPOOL_DISABLE") == warning + "a device budget" + how);
  CHECK(said({"--mode", "manage", "true"}, "TIDEPOOL_DISABLE") == warning + "--mode manage" + how);
  CHECK(said({"--quiet", "--mode", "manage", "true"}, "TIDEPOOL_DISABLE").empty());
  CHECK(said({"true"}, "TIDEPOOL_DISABLE").empty());
  const std::string again = said({"--disable=off", "--device-budget", "40MiB", "true"}, "TIDEPOOL_DISABLE");
  CHECK(again.starts_with("tidepool: done in "));
  CHECK(again.find("warning") == std::string::npos);
  CHECK(said({"--mode", "off", "--device-budget", "40MiB", "true"}) ==
        warning +
            "a device budget has no effect with --mode off, which manages nothing. Leave out one of the "
            "two.\n");
  CHECK(said({"--disable", "--device-budget", "40MiB", "true"}) ==
        warning + "a device budget has no effect with --disable. Leave out one of the two.\n");
  CHECK(said({"--mode", "off", "true"}).empty());
}

TEST_CASE("summary: memory that is only watched is not said to be managed, and a budget for it is named") {
  ScratchFolder tmp;
  const Outcome got = run(job(tmp, {"--mode", "observe", "true"}));
  CHECK(matches(got.err,
                "tidepool: done in @ (exit 0). Needed * (peak 47.9 MiB). It was only watched (--mode "
                "observe): nothing was managed.\n"));
  const Outcome limited = run(job(tmp, {"--mode", "observe", "--device-budget", "40MiB", "true"}));
  CHECK(limited.err.find("tidepool: warning: a device budget has no effect with --mode observe, which only "
                         "watches. Leave out one of the two.\n") == 0);
  const Outcome quiet = run(job(tmp, {"--mode", "observe", "--device-budget", "40MiB", "--quiet", "true"}));
  CHECK(quiet.err.empty());
  // The variable of a shell that always sets it.
  Job variable = job(tmp, {"--mode", "observe", "true"});
  variable.variables.push_back({"TIDEPOOL_DEVICE_BUDGET", "40MiB"});
  CHECK(run(variable).err.find("has no effect") != std::string::npos);
}

}  // namespace
}  // namespace tidepool::test
