// The simgpu command, and programs that nvcc built running under it.

#include <signal.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "tests/process/child_process.h"

namespace {

using tidepool::test::built;
using tidepool::test::names_in;
using tidepool::test::Outcome;
using tidepool::test::ScratchFolder;
using tidepool::test::write_file;

const std::string kSimgpu = built("bin/simgpu");
const std::string kPipeline = built("tests/simgpu_pipeline");
const std::string kPipelinePerThread = built("tests/simgpu_pipeline_per_thread");

Outcome run(std::vector<std::string> words) {
  tidepool::test::Job job;
  job.words = std::move(words);
  job.variables = {{"LD_PRELOAD", ""}};  // nothing is preloaded here, so no sanitizer has to come first
  return tidepool::test::run(job);
}

Outcome simgpu(std::vector<std::string> words) {
  words.insert(words.begin(), kSimgpu);
  return run(std::move(words));
}

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The number behind "name": in a report.
long number(const std::string& report, const std::string& name) {
  const std::size_t at = report.find("\"" + name + "\": ");
  REQUIRE(at != std::string::npos);
  return std::stol(report.substr(at + name.size() + 4));
}

}  // namespace

TEST_CASE("command: wrong words are refused with one line, a hint and 125") {
  const auto refused = [](const std::vector<std::string>& words, const std::string& line) {
    const Outcome o = simgpu(words);
    INFO(o.err);
    REQUIRE(o.code() == 125);
    REQUIRE(o.out.empty());
    REQUIRE(o.err == "simgpu: error: " + line + "; nothing was run\n");
  };
  refused({"--sed", "1", "--", "true"},
          "unknown option --sed (did you mean '--seed'?); simgpu --help lists what there is");
  refused({"-x", "--", "true"}, "unknown option -x; simgpu --help lists what there is");
  refused({"--seed", "x", "--", "true"}, "--seed x: want a number from 0 to 18446744073709551615");
  refused({"--seed", "-1", "--", "true"}, "--seed -1: want a number from 0 to 18446744073709551615");
  refused({"--seed", "18446744073709551616", "--", "true"},
          "--seed 18446744073709551616: want a number from 0 to 18446744073709551615");
  refused({"--seed", "", "--", "true"}, "--seed '': want a number from 0 to 18446744073709551615");
  refused({"--seed", "--", "true"}, "option --seed needs a value; simgpu --help says which");
  refused({"--summary=yes", "--", "true"}, "--summary=yes: --summary takes no value; leave it out");
  for (const char* option : {"--report", "--trace", "--faults", "--roles"})
    refused({option, "", "--", "true"}, std::string(option) + " '': want the name of a file");
  for (const char* option : {"--trace", "--faults", "--roles"})
    refused({option, "-", "--", "true"}, std::string(option) + " -: want the name of a file");
  for (const char* file : {"/", "/dev/null"})
    refused({"--trace", file, "--", "true"},
            std::string("--trace ") + file + ": is no ordinary file; name one, or one to be made");
  refused({"--report", "one", "--trace", "one", "--", "true"},
          "--report and --trace name one file, one; give each its own");
  refused({"--schedule", "inorde", "--", "true"},
          "--schedule inorde: want adversarial or inorder (did you mean 'inorder'?)");
  refused({"--clock", "wal", "--", "true"}, "--clock wal: want virtual or wall (did you mean 'wall'?)");
  refused({"--host-time", "none", "--", "true"}, "--host-time none: want fixed or measured");
  refused({"--processes", "0", "--", "true"}, "--processes 0: want a number from 1 to 64");
  refused({"--clock", "wall", "--trace", "t.json", "--", "true"},
          "--trace shows virtual time, which --clock wall does without; leave one of them out");
  refused({"--memory", "1KiB", "--", "true"},
          "--memory 1KiB: want bytes from 2MiB to 1TiB, as in 268435456 or 256MiB");
  refused({"--memory", "4MiB,", "--", "true"},
          "--memory 4MiB,: want bytes from 2MiB to 1TiB, as in 268435456 or 256MiB");
  refused({"--memory", "4MiB,8MiB", "--", "true"},
          "--memory has 2 sizes for 1 device; give one size for all, or one for each --device");
  refused({"--device=t4", "--device=t4", "--memory", "4MiB,8MiB,4MiB", "--", "true"},
          "--memory has 3 sizes for 2 devices; give one size for all, or one for each --device");
  refused({"--faults", "/nonexistent/plan", "--", "true"},
          "--faults /nonexistent/plan: cannot be read; is it the file you meant?");
  refused({"--faults", "/", "--", "true"}, "--faults /: cannot be read; is it the file you meant?");
  refused({"--sumary", "--", "true"},
          "unknown option --sumary (did you mean '--summary'?); simgpu --help lists what there is");
  for (const char* bad : {"0", "256", "-1", "x", "1x"}) {
    refused({"--error-exitcode", bad, "--", "true"},
            std::string("--error-exitcode ") + bad + ": want a number from 1 to 255");
  }
  refused({"--error-exitcode=", "--", "true"}, "--error-exitcode '': want a number from 1 to 255");
  refused(std::vector<std::string>(17, "--device=t4"),
          "--device is given 17 times; a machine has at most 16 devices");
  refused({"true"}, "'true' is not an option; put -- before the command, as in 'simgpu [options] -- true'");
  refused({"--"}, "no command; put it behind --, as in 'simgpu [options] -- command [arguments]'");
  refused({}, "no command; put it behind --, as in 'simgpu [options] -- command [arguments]'");
  refused({"--", ""}, "the command behind -- is empty; name a program there");
}

TEST_CASE("command: profiles, reports and traces that cannot be used are known before anything runs") {
  const ScratchFolder folder;
  const std::string ran = folder / "ran";
  const auto refused = [&](const std::vector<std::string>& words, const std::string& line) {
    std::vector<std::string> all = words;
    all.insert(all.end(), {"--", "touch", ran});
    const Outcome o = simgpu(all);
    INFO(o.err);
    REQUIRE(o.code() == 125);
    REQUIRE(o.err == "simgpu: error: " + line + "; nothing was run\n");
    REQUIRE(names_in(folder.path()).empty());
  };
  const std::string known = "known: a100 h100 h200 rtx3060 rtx4090 t4, or a file of your own (name.toml)";
  refused({"--device", "h10"}, "--device: unknown device h10 (did you mean 'h100'?); " + known);
  refused({"--device="}, "--device: unknown device ''; " + known);
  refused({"--device", "./none.toml"}, "--device: ./none.toml: no such device profile; " + known);
  for (const char* option : {"--report", "--trace"}) {
    refused(
        {option, "/nonexistent/r.json"},
        std::string(option) +
            " /nonexistent/r.json: cannot be written (No such file or directory); name a file in a folder "
            "that is there and may be written to");
  }
  refused(
      {"--report", folder.path()},
      "--report " + folder.path() +
          ": cannot be written (Is a directory); name a file in a folder that is there and may be written "
          "to");
}

TEST_CASE("command: help and version") {
  REQUIRE(simgpu({"--help"}).code() == 0);
  REQUIRE(contains(simgpu({"--help"}).out, "--schedule"));
  REQUIRE(contains(simgpu({"--version"}).out, "simgpu "));
}

TEST_CASE("command: a profile that is none says what is wrong with it") {
  const ScratchFolder folder;
  const std::string file = folder / "card.toml";
  const auto refusal = [&](const std::string& text) {
    write_file(file, text);
    const Outcome o = simgpu({"--device", file, "--", "true"});
    REQUIRE(o.code() == 125);
    return o.err;
  };
  const std::string good = read_file(built("share/tidepool/profiles/t4.toml"));
  REQUIRE(contains(refusal("name = \"card\"\n"), "these are missing: compute.capability, memory.bytes, "));
  REQUIRE(contains(refusal(good + "releese_ns = 5\n"),
                   "unknown key vmm.releese_ns (did you mean 'vmm.release_ns'?)"));
  REQUIRE(contains(refusal("name = \n"), "line 1"));
  write_file(file, good);
  REQUIRE(simgpu({"--device", file, "--", kPipeline}).code() == 0);
}

TEST_CASE("command: a program that cannot be run is named, with what to do") {
  const auto said = [](const std::string& program, int code, const std::string& line) {
    const Outcome o = simgpu({"--", program});
    INFO(o.err);
    REQUIRE(o.code() == code);
    REQUIRE(o.err == "simgpu: error: " + program + " " + line + "; nothing was run\n");
  };
  said("no-such-program", 127,
       "is in none of the folders of PATH; for a program in this folder write ./no-such-program");
  said(".", 126, "is nowhere in PATH where this user may look and run it; name the program by its path");
  said("/no/such/program", 127, "is not there; is it the path you meant?");
  said("/etc/passwd", 126, "is not executable; chmod +x makes a program or script so");
  said("/etc", 126, "is a folder; name a program in it");
  const ScratchFolder folder;
  write_file(folder / "script", "#!/no/such/shell\n", 0755);
  said(folder / "script", 127,
       "needs an interpreter or loader that is not there; look at its first line, or at file(1)");
}

TEST_CASE("command: without its libraries it says so") {
  const ScratchFolder folder;
  write_file(folder / "simgpu", read_file(kSimgpu), 0755);
  const Outcome o =
      run({folder / "simgpu", "--device", built("share/tidepool/profiles/t4.toml"), "--", "true"});
  REQUIRE(o.code() == 125);
  REQUIRE(contains(o.err, "simgpu: error: cannot find libcuda.so.1 below "));
  REQUIRE(contains(o.err, "; is simgpu installed whole?\n"));
}

TEST_CASE("command: exit status and signals are the command's") {
  REQUIRE(simgpu({"--", "sh", "-c", "exit 42"}).code() == 42);
  REQUIRE(simgpu({"--", "sh", "-c", "kill -TERM $$"}).code() == -SIGTERM);
  REQUIRE(simgpu({"--", "sh", "-c", "kill -KILL $$"}).code() == -SIGKILL);
  REQUIRE(simgpu({"--", "/no/such/program"}).code() == 127);
  REQUIRE(simgpu({"--", "/etc/passwd"}).code() == 126);
  REQUIRE(simgpu({"--", "printf", "%s", "--help"}).out == "--help");
}

TEST_CASE("program: what nvcc built prints the same for every seed, and in order") {
  const Outcome first = simgpu({"--schedule", "inorder", "--", kPipeline});
  INFO(first.err << first.out);
  REQUIRE(first.code() == 0);
  REQUIRE(contains(first.out, "devices 1 capability 9.0"));
  REQUIRE(contains(first.out, "bad copy cudaErrorInvalidMemcpyDirection"));
  REQUIRE(contains(first.out, "bad free cudaErrorInvalidValue"));
  REQUIRE(contains(first.out, "huge cudaErrorMemoryAllocation"));
  REQUIRE(contains(first.out, "last cudaErrorMemoryAllocation"));
  REQUIRE(contains(first.out, "then cudaSuccess"));
  REQUIRE(contains(first.out, "empty grid cudaErrorInvalidConfiguration"));
  REQUIRE(contains(first.out, "in use 0"));
  for (int seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    REQUIRE(simgpu({"--seed", std::to_string(seed), "--", kPipeline}).out == first.out);
    REQUIRE(simgpu({"--seed", std::to_string(seed), "--", kPipelinePerThread}).out == first.out);
  }
}

TEST_CASE("program: the report counts calls, bytes and the peak") {
  const ScratchFolder folder;
  const std::string file = folder / "report.json";
  REQUIRE(simgpu({"--memory", "32MiB", "--report", file, "--", kPipeline}).code() == 0);
  const std::string report = read_file(file);
  INFO(report);
  REQUIRE(contains(report, "\"schema\": \"simgpu.report/2\""));
  REQUIRE(number(report, "memory_bytes") == 32 << 20);
  REQUIRE(number(report, "exit_code") == 0);
  REQUIRE(number(report, "cuInit") == 1);
  REQUIRE(number(report, "cuLaunchKernel") == 21);
  REQUIRE(number(report, "kernels") == 20);
  REQUIRE(number(report, "cuMemAlloc_v2") == 4);
  REQUIRE(number(report, "physical_peak_bytes") == 2 << 20);
  REQUIRE(number(report, "physical_now_bytes") == 0);
  REQUIRE(contains(report, "\"h2d\": { \"count\": 4, \"bytes\": 1048576 }"));
  REQUIRE(contains(report, "\"d2h\": { \"count\": 17, \"bytes\": 2105376 }"));
  REQUIRE(number(report, "errors_total") == 0);
}

TEST_CASE("program: an illegal address is named on stderr and in the report") {
  const ScratchFolder folder;
  const std::string file = folder / "report.json";
  const Outcome o = simgpu({"--report", file, "--", kPipeline, "fault"});
  INFO(o.err);
  REQUIRE(o.code() == 3);
  REQUIRE(contains(o.out, "fault cudaErrorIllegalAddress"));
  REQUIRE(contains(o.out, "stays cudaErrorIllegalAddress"));
  REQUIRE(contains(o.err, "illegal address: kernel '"));
  REQUIRE(contains(o.err, "not memory of the device, parameter 0 ("));
  REQUIRE(contains(read_file(file), "illegal address: kernel '"));
}

TEST_CASE("program: the report counts every process that uses CUDA") {
  const ScratchFolder folder;
  const std::string file = folder / "report.json";
  const std::string twice = kPipeline + " > /dev/null && " + kPipeline;
  const Outcome o = simgpu({"--report", file, "--", "sh", "-c", twice});
  REQUIRE(o.code() == 0);
  REQUIRE(number(read_file(file), "process_count") == 2);
  REQUIRE(number(read_file(file), "cuInit") == 2);
  REQUIRE(number(read_file(file), "kernels") == 40);
}

TEST_CASE("program: several devices have their own profile and memory, and their place in the report") {
  const ScratchFolder folder;
  const std::string file = folder / "report.json";
  const Outcome o = simgpu({"--device", "t4", "--device=a100", "--memory", "32MiB,1GiB", "--summary",
                            "--report", file, "--", kPipeline});
  INFO(o.err);
  REQUIRE(o.code() == 0);
  REQUIRE(contains(o.out, "devices 2 capability 7.5"));
  const std::string report = read_file(file);
  REQUIRE(contains(report, "\"name\": \"Tesla T4\""));
  REQUIRE(number(report, "memory_bytes") == 32 << 20);
  REQUIRE(number(report.substr(report.find("A100")), "memory_bytes") == 1 << 30);
  REQUIRE(contains(o.err, "  device 0       Tesla T4, 32.0 MiB; peak 2.0 MiB, at the end 0 B\n"));
  REQUIRE(contains(o.err, "  device 1       NVIDIA A100-SXM4-80GB, 1.0 GiB; peak 0 B"));
  REQUIRE(contains(o.err, "  copies         h2d 4 (1.0 MiB)  d2h 17 (2.0 MiB)  d2d 0 (0 B)\n"));
}

TEST_CASE("program: a readable report is printed on demand, on stderr alone") {
  const Outcome silent = simgpu({"--", kPipeline});
  REQUIRE(silent.err.empty());
  for (const char* option : {"--summary", "--report=-"}) {
    const Outcome o = simgpu({option, "--", kPipeline});
    REQUIRE(o.out == silent.out);
    REQUIRE(contains(o.err, "simgpu: what the devices did\n"));
    REQUIRE(contains(o.err, "  work           20 kernels, "));
  }
}

TEST_CASE("program: the static run time is named, and does not pass for a program that ran") {
  const ScratchFolder folder;
  const std::string file = folder / "report.json";
  const Outcome o = simgpu({"--report", file, "--", built("tests/simgpu_static_runtime")});
  INFO(o.err);
  REQUIRE(o.code() == 125);
  REQUIRE(o.err ==
          "simgpu: error: " + built("tests/simgpu_static_runtime") +
              " is linked with the static CUDA run time, which needs the vendor's driver: its CUDA calls "
              "fail here; build it with -cudart shared\n");
  REQUIRE(contains(read_file(file), "\"6bd5fb6c-5bf4-e74a-8987-d93912fd9df9\": 1"));
}

TEST_CASE("program: the trace is JSON, the same for every seed, and agrees with the report") {
  const ScratchFolder folder;
  const std::string file = folder / "trace.json";
  const std::string report = folder / "report.json";
  // The process' number differs from run to run, and nothing else.
  const auto trace = [&](const char* seed) {
    REQUIRE(simgpu({"--seed", seed, "--trace", file, "--report", report, "--", kPipeline}).code() == 0);
    const std::string text = read_file(file);
    return std::regex_replace(text, std::regex("\"process\":[0-9]+"), "\"process\":0");
  };
  const std::string first = trace("1");
  REQUIRE(first.substr(0, 3) == "[\n{");
  REQUIRE(first.substr(first.size() - 5) == "}}\n]\n");
  REQUIRE(contains(first, "\"name\":\"device 0: NVIDIA H100 80GB HBM3\""));
  REQUIRE(trace("2") == first);
  long kernels = 0;
  for (std::size_t at = first.find("\"cat\":\"compute\""); at != std::string::npos;
       at = first.find("\"cat\":\"compute\"", at + 1)) {
    ++kernels;
  }
  REQUIRE(kernels >= 20);
  REQUIRE(number(read_file(report), "compute") > 0);
}

TEST_CASE("program: a killed program's trace can still be read") {
  const ScratchFolder folder;
  const std::string file = folder / "trace.json";
  REQUIRE(simgpu({"--trace", file, "--", "sh", "-c", kPipeline + " > /dev/null; kill -KILL $$"}).code() ==
          -SIGKILL);
  const std::string text = read_file(file);
  REQUIRE(text.substr(text.size() - 5) == "}}\n]\n");
}

TEST_CASE("program: wall-clock and measured time say what they are") {
  const ScratchFolder folder;
  const std::string file = folder / "report.json";
  REQUIRE(simgpu({"--clock", "wall", "--report", file, "--", kPipeline}).code() == 0);
  REQUIRE(contains(read_file(file), "\"clock\": \"wall\""));
  REQUIRE(simgpu({"--host-time", "measured", "--report", file, "--", kPipeline}).code() == 0);
  REQUIRE(contains(read_file(file), "\"host_time\": \"measured\""));
}

TEST_CASE("program: the report is written after SIGKILL too") {
  const ScratchFolder folder;
  const std::string file = folder / "report.json";
  const std::string killed = kPipeline + " > /dev/null; kill -KILL $$";
  REQUIRE(simgpu({"--report", file, "--", "sh", "-c", killed}).code() == -SIGKILL);
  const std::string report = read_file(file);
  REQUIRE(number(report, "signal") == SIGKILL);
  REQUIRE(number(report, "kernels") == 20);
}
