#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "allocator/support/options.h"
#include "tests/process/child_process.h"

namespace tidepool::test {
namespace {

const std::string kTidepool = built("tests/stand_in/bin/tidepool");
const std::string kLibrary = built("tests/stand_in/lib/libtidepool.so");
const std::string kStaticProgram = built("tests/tp_static_program");

Outcome call(std::vector<std::string> words,
             std::vector<std::pair<std::string, std::string>> variables = {}) {
  words.insert(words.begin(), kTidepool);
  return run({words, "", std::move(variables), false, false});
}

/// Expects a refusal with this code and exactly this line on stderr.
void refused(const Outcome& got, int code, const std::string& line) {
  CHECK(got.code() == code);
  CHECK(got.out.empty());
  CHECK(got.err == "tidepool: " + line + "\n");
}

TEST_CASE("refusals: wrong words get one line with what was meant") {
  refused(call({}), 125, "a command is missing; see tidepool --help");
  refused(call({"rum"}), 125, "unknown command 'rum' (did you mean 'run'?)");
  refused(call({"versoin"}), 125, "unknown command 'versoin' (did you mean 'version'?)");
  refused(call({"swim"}), 125, "unknown command 'swim'; see tidepool --help");
  refused(call({"help", "rnu"}), 125, "unknown command 'rnu' (did you mean 'run'?)");
  refused(call({"env", "--jsn"}), 125, "env: unknown option --jsn (did you mean --json?)");
}

TEST_CASE("refusals: wrong options are found before the program starts") {
  refused(call({"run"}), 125, "run: there is no program to run; see tidepool run --help");
  refused(call({"run", "--"}), 125, "run: there is no program to run; see tidepool run --help");
  refused(call({"run", "--device-budgt", "1GiB", "echo", "x"}), 125,
          "run: unknown option --device-budgt (did you mean --device-budget?)");
  refused(call({"run", "--device-budgt", "1GiB", "--", "echo", "x"}), 125,
          "run: unknown option --device-budgt (did you mean --device-budget?)");
  refused(call({"run", "-x", "echo"}), 125, "run: unknown option -x");
  refused(call({"run", "--verbos", "echo"}), 125, "run: unknown option --verbos (did you mean --verbose?)");
  refused(call({"run", "--budget", "1GiB", "echo"}), 125,
          "run: unknown option --budget (did you mean --device-budget?)");
  refused(call({"run", "-device-budget", "1GiB", "echo"}), 125,
          "run: unknown option -device-budget (did you mean --device-budget?)");
  refused(call({"run", "--mode=a\nb\033[31m", "echo"}), 125,
          "run: --mode=a?b?[31m is none of manage, observe, off");
  refused(call({"run", "no\nsuch"}), 127, "run: there is no program 'no?such'");
  refused(call({"run", "--verbose=no", "echo"}), 125, "run: --verbose takes no value");
  refused(call({"./train"}), 125,
          "unknown command './train'; to run a program: tidepool run [options] -- PROGRAM");
  refused(call({"--device-budget", "1GiB", "./train"}), 125,
          "unknown command '--device-budget'; to run a program: tidepool run [options] -- PROGRAM");
  refused(call({"run", "--device-budget", "8", "echo"}), 125,
          "run: --device-budget 8 is out of range 16MiB..100% (without a unit it means bytes)");
  refused(call({"run", "--device-reserve", "autoo", "echo"}), 125,
          "run: --device-reserve autoo is not valid: it is neither auto nor an amount");
  refused(call({"run", "--hlep"}), 125, "run: unknown option --hlep (did you mean --help?)");
  refused(call({"run", "--bogus", "echo"}), 125, "run: unknown option --bogus");
  refused(call({"run", "-vx", "echo"}), 125, "run: unknown option -vx");
  refused(call({"env", "--no"}), 125, "env: unknown option --no");
  refused(call({"run", "--device_budget", "1GiB", "echo"}), 125,
          "run: unknown option --device_budget (did you mean --device-budget?)");
  refused(call({"run", "--min-block", "1K", "echo"}), 125, "run: --min-block 1K is out of range 1MiB..1GiB");
  refused(call({"run", "--min-block=1K", "echo"}), 125, "run: --min-block=1K is out of range 1MiB..1GiB");
  refused(call({"run", "--device-budget", "48MB", "echo"}), 125,
          "run: --device-budget 48MB is not valid: its unit is none of B, K, KiB, M, MiB, G, GiB, T, TiB");
  refused(call({"run", "--device-budget", "--", "echo"}), 125,
          "run: --device-budget needs a value (16MiB..100%)");
  refused(call({"run", "--device-budget"}), 125, "run: --device-budget needs a value (16MiB..100%)");
  refused(call({"run", "--device-budget", "--strict", "echo"}), 125,
          "run: --device-budget needs a value (16MiB..100%)");
  refused(call({"run", "--run-dir", "--strict", "echo"}), 125, "run: --run-dir needs a value (a path)");
  refused(call({"run", "--config=", "echo"}), 125, "run: --config needs a value (FILE)");
  refused(call({"env", "--config="}), 125, "env: --config needs a value (FILE)");
  refused(call({"env", "--config", "--json"}), 125, "env: --config needs a value (FILE)");
  refused(call({"run", "--check", "half", "echo"}), 125,
          "run: --check half is none of off, cheap, full, unmap");
  refused(call({"run", "--quiet=2", "echo"}), 125,
          "run: --quiet=2 is not valid: it is none of 1, 0, on, off, yes, no, true, false");
}

/// A value that the option refuses, and how that is said.
struct Refused {
  const char* option;
  const char* value;
  const char* why;
};
constexpr Refused kRefused[] = {
    {"mode", "on", "is none of manage, observe, off"},
    {"disable", "maybe", "is not valid: it is none of 1, 0, on, off, yes, no, true, false"},
    {"strict", "2", "is not valid: it is none of 1, 0, on, off, yes, no, true, false"},
    {"quiet", "", "is not valid: it is none of 1, 0, on, off, yes, no, true, false"},
    {"log", "loud", "is not valid: a level is none of off, error, warn, info, debug, trace"},
    {"log_max", "1023KiB", "is out of range 1MiB..16GiB"},
    {"log_max", "17GiB", "is out of range 1MiB..16GiB"},
    {"clean", "maybe", "is not valid: it is none of 1, 0, on, off, yes, no, true, false"},
    {"check", "half", "is none of off, cheap, full, unmap"},
    {"alloc", "some", "is none of auto, async, native"},
    {"device_budget", "15.9MiB", "is out of range 16MiB..100%"},
    {"device_budget", "101%", "is out of range 16MiB..100%"},
    {"device_budget", "-1", "is not valid: it is negative"},
    {"device_budget", "", "is not valid: it has no number"},
    {"device_reserve", "51%", "is out of range 0..50%"},
    {"device_reserve", "automatic", "is not valid: it is neither auto nor an amount"},
    {"host_budget", "90.1%", "is out of range 0..90%"},
    {"host_budget", "16EiB", "is not valid: its unit is none of B, K, KiB, M, MiB, G, GiB, T, TiB"},
    {"min_block", "1048575", "is out of range 1MiB..1GiB (without a unit it means bytes)"},
    {"min_block", "1025MiB", "is out of range 1MiB..1GiB"},
    {"scan_copies", "17MiB", "is out of range 0..16MiB"},
    {"scan_copies", "some", "is not valid: it does not begin with a digit"},
    {"trace", "all", "is none of off, ops, stacks"},
    {"trace_max", "1023KiB", "is out of range 1MiB..16GiB"},
    {"profile_iterations", "101", "is out of range 0..100"},
    {"profile_iterations", "two", "is not valid: it is not a number"},
    {"profile_iterations", "4294967298", "is not valid: it is not a number"},
    {"trace_max", "17GiB", "is out of range 1MiB..16GiB"},
};

TEST_CASE("refusals: every option with a range has a value that is refused, as flag, variable and key") {
  ScratchFolder folder;
  for (const Refused& each : kRefused) {
    INFO(each.option << " " << each.value);
    const OptionRow* row = nullptr;
    for (const OptionRow& candidate : option_rows()) {
      if (std::string(candidate.name) == each.option) row = &candidate;
    }
    REQUIRE(row != nullptr);
    std::string flag = std::string("--") + each.option;
    std::replace(flag.begin(), flag.end(), '_', '-');
    refused(call({"run", flag + "=" + each.value, "echo", "x"}), 125,
            "run: " + flag + "=" + each.value + " " + each.why);
    refused(call({"run", "echo", "x"}, {{row->variable, each.value}}), 125,
            std::string("run: ") + row->variable + "=" + each.value + " " + each.why + ". See tidepool env");
    write_file(folder / "c.toml", std::string(each.option) + " = \"" + each.value + "\"\n");
    refused(call({"run", "--config", folder / "c.toml", "echo", "x"}), 125,
            "run: " + (folder / "c.toml") + ":1: " + each.option + " = " + each.value + " " + each.why);
  }
  for (const OptionRow& row : option_rows()) {
    const bool takes_anything = row.kind == OptionKind::kPath;
    const bool is_listed = std::any_of(std::begin(kRefused), std::end(kRefused), [&](const Refused& each) {
      return std::string(each.option) == row.name;
    });
    INFO(row.name);
    CHECK((takes_anything || is_listed));
  }
}

TEST_CASE("refusals: wrong variables stop the run, unknown ones only if strict") {
  refused(call({"run", "echo", "x"}, {{"TIDEPOOL_MIN_BLOCK", "3"}}), 125,
          "run: TIDEPOOL_MIN_BLOCK=3 is out of range 1MiB..1GiB (without a unit it means bytes). See "
          "tidepool env");
  const Outcome warned = call({"run", "echo", "x"}, {{"TIDEPOOL_DEVICE_BUDGT", "16GiB"}});
  CHECK(warned.code() == 0);
  CHECK(warned.out == "x\n");
  CHECK(warned.err.empty());  // the library warns, in processes that use CUDA
  refused(call({"run", "--strict", "echo", "x"}, {{"TIDEPOOL_FOO", "1"}}), 125,
          "run: unknown variable TIDEPOOL_FOO. See tidepool env");
  refused(
      call({"run", "--strict", "echo", "x"}, {{"TIDEPOOL_DEVICE_BUDGT", "16GiB"}}), 125,
      "run: unknown variable TIDEPOOL_DEVICE_BUDGT (did you mean TIDEPOOL_DEVICE_BUDGET?). See tidepool env");
}

TEST_CASE("refusals: 127 for no program, 126 for one that cannot be executed") {
  ScratchFolder folder;
  write_file(folder / "plain", "text");
  write_file(folder / "broken", "#!/no/such/interpreter\n", 0755);
  refused(call({"run", "no-such-program"}), 127, "run: there is no program 'no-such-program'");
  refused(call({"run", "/no/such/file"}), 127, "run: there is no program '/no/such/file'");
  refused(call({"run", ""}), 127, "run: there is no program ''");
  refused(call({"run", folder / "plain"}), 126, "run: " + (folder / "plain") + " cannot be executed");
  refused(call({"run", folder.path()}), 126, "run: " + folder.path() + " cannot be executed");
  refused(call({"run", "plain"}, {{"PATH", "/usr/bin:" + folder.path()}}), 126,
          "run: " + (folder / "plain") + " cannot be executed");
  const Outcome broken = call({"run", folder / "broken"});
  refused(broken, 127,
          "run: " + (folder / "broken") +
              " is a script for /no/such/interpreter, which is not there. Correct its first line");
  CHECK(call({"run", "--disable", folder / "broken"}).code() == 127);
  for (const char* folder_of_path : {".", ".."}) {
    refused(call({"run", folder_of_path}), 127,
            std::string("run: there is no program '") + folder_of_path + "'");
  }
  // Written where lines end otherwise. The kernel takes that for a part of the name.
  write_file(folder / "foreign", "#!/bin/sh\r\nexit 0\r\n", 0755);
  refused(
      call({"run", folder / "foreign"}), 127,
      "run: " + (folder / "foreign") +
          " is a script for /bin/sh and a carriage return, which is not there. Take that from the ends of "
          "its lines");
}

TEST_CASE("refusals: a program whose sanitizer must come first, unless it does") {
  const std::string program = built("tests/tp_asan_program");
  if (sanitized()) return;  // not built
  refused(call({"run", program}), 125,
          "run: " + program +
              " is built with AddressSanitizer, whose library must come before Tidepool's. Start it with "
              "LD_PRELOAD=$(gcc -print-file-name=libasan.so)");
  CHECK(call({"run", "--disable", program}).code() == 0);
  const std::string shell = "export LD_PRELOAD=$(gcc -print-file-name=libasan.so); exec ";
  CHECK(run({{"/bin/sh", "-c", shell + kTidepool + " run " + program}, "", {}, false, false}).code() == 0);
}

TEST_CASE("refusals: programs that no library can be put in front of") {
  ScratchFolder folder;
  const std::string own = folder / "own";
  std::filesystem::copy_file("/bin/true", own);
  CHECK(call({"run", own}).code() == 0);

  const std::string library = "so no library can be put in front of it. ";
  refused(call({"run", kStaticProgram}), 125,
          "run: " + kStaticProgram + " is linked statically, " + library + "Link it dynamically");
  CHECK(call({"run", "--disable", kStaticProgram}).code() == 0);

  std::string start(100, '\0');
  std::ifstream("/bin/true", std::ios::binary).read(start.data(), 100);
  const std::string cut = folder / "cut";
  write_file(cut, start, 0755);
  refused(call({"run", cut}), 126, "run: " + cut + " is damaged: it ends before the headers of a program do");

  const std::string script = folder / "script";
  write_file(script, "#! " + kStaticProgram + " argument\n", 0755);
  refused(call({"run", script}), 125,
          "run: " + kStaticProgram + " is linked statically, " + library + "Link it dynamically");

  std::fstream elf(own, std::ios::in | std::ios::out | std::ios::binary);
  elf.seekp(18);  // e_machine
  elf.put('\xf3').put('\0');
  elf.close();
  refused(call({"run", own}), 125,
          "run: " + own + " is built for another machine than Tidepool (32 bits, or another processor)");
}

TEST_CASE("refusals: a set-uid program of another user") {
  ScratchFolder folder;
  const std::string own = folder / "own";
  std::filesystem::copy_file("/bin/true", own);
  if (getuid() != 0) {
    // Only root can make such a file; a system has one.
    if (std::filesystem::exists("/usr/bin/passwd")) CHECK(call({"run", "/usr/bin/passwd"}).code() == 125);
    return;
  }
  REQUIRE(chown(own.c_str(), 65534, 65534) == 0);
  REQUIRE(chmod(own.c_str(), 04755) == 0);
  refused(call({"run", own}), 125,
          "run: " + own +
              " runs with rights other than yours (set-uid or capabilities), so no library can be put in "
              "front of it. Start the program inside it with tidepool run instead");
}

TEST_CASE("refusals: the command says where its library should be, and takes it from there") {
  ScratchFolder folder;
  const std::string command = folder / "bin/tidepool";
  const std::string library = folder / TP_TEST_INSTALL_LIBDIR "/tidepool/libtidepool.so";
  std::filesystem::create_directories(folder / "bin");
  std::filesystem::copy_file(kTidepool, command);
  const Job job{{command, "run", "printenv", "LD_PRELOAD"}, "", {}, false, false};
  refused(
      run(job), 125,
      "run: the library " + library + " cannot be read: No such file or directory. Install Tidepool again");
  std::filesystem::create_directories(std::filesystem::path(library).parent_path());
  write_file(library, "");
  refused(run(job), 125,
          "run: the library " + library + " is none of this machine's. Install Tidepool again");
  CHECK(run({{command, "doctor"}, "", {}, false, false})
            .out.find("FAIL the library " + library +
                      " is none of this machine's\n     -> install Tidepool again\n") == 0);
  std::filesystem::remove(library);
  std::filesystem::copy_file(kLibrary, library);
  CHECK(run(job).out == (preload_first().empty() ? "" : preload_first() + ":") + library + "\n");
}

TEST_CASE("refusals: a library that LD_PRELOAD cannot name") {
  ScratchFolder folder;
  const std::string command = folder / "a b/bin/tidepool";
  std::filesystem::create_directories(folder / "a b/bin");
  std::filesystem::create_directories(folder / "a b/lib");
  std::filesystem::copy_file(kTidepool, command);
  std::filesystem::copy_file(kLibrary, folder / "a b/lib/libtidepool.so");
  const Outcome got = run({{command, "run", "true"}, "", {}, false, false});
  CHECK(got.code() == 125);
  CHECK(got.err.find("lies in a folder with a space or colon") != std::string::npos);
}

TEST_CASE("help and version go to stdout and name every option") {
  const Outcome help = call({"run", "--help"});
  CHECK(help.code() == 0);
  CHECK(help.err.empty());
  for (const char* flag : {"--device-budget", "--device-reserve", "--host-budget", "--min-block", "--check",
                           "--run-dir", "--quiet", "--disable", "--strict", "--verbose"}) {
    CHECK(help.out.find(flag) != std::string::npos);
  }
  CHECK(help.out.find("    --clean=off\n") != std::string::npos);
  CHECK(help.out.find("    -q, --quiet\n") != std::string::npos);
  CHECK(call({"run", "-q", "--help", "--no-such"}).code() == 0);
  CHECK(call({"--help"}).out.find("tidepool COMMAND --help") != std::string::npos);
  CHECK(call({"--version"}).out == "tidepool " TP_TEST_VERSION "\n");
}

TEST_CASE("env: lists value, source, default and range") {
  const Outcome text = call({"env"}, {{"TIDEPOOL_DEVICE_BUDGET", "48MiB"}});
  CHECK(text.code() == 0);
  CHECK(text.out.find("TIDEPOOL_DEVICE_BUDGET=48MiB\n") != std::string::npos);
  CHECK(text.out.find("from: environment · default: 100% · range: 16MiB..100% · flag: --device-budget") !=
        std::string::npos);
  CHECK(text.out.find("TIDEPOOL_CHECK=off\n") != std::string::npos);
  const Outcome bad = call({"env"}, {{"TIDEPOOL_CHECK", "some"}, {"TIDEPOOL_CHEK", "off"}});
  CHECK(bad.code() == 1);
  CHECK(bad.err.find("tidepool: env: TIDEPOOL_CHECK=some is none of off, cheap, full, unmap\n") !=
        std::string::npos);
  CHECK(bad.err.find("did you mean TIDEPOOL_CHECK?") != std::string::npos);
}

TEST_CASE("env: JSON is JSON whatever a variable holds") {
  const Outcome json = call({"env", "--json"}, {{"TIDEPOOL_RUN_DIR", "/a \"b\"\\\n\t\x01"}});
  CHECK(json.code() == 0);
  CHECK(json.out.find("\"value\": \"/a \\\"b\\\"\\\\\\u000a\\u0009\\u0001\"") != std::string::npos);
  Job reader{{"/usr/bin/python3", "-c",
              "import json,sys; rows = json.load(sys.stdin); "
              "print(len(rows), all(set(r) == set(rows[0]) for r in rows))"},
             json.out,
             {},
             false,
             false};
  if (std::filesystem::exists("/usr/bin/python3"))
    CHECK(run(reader).out == std::to_string(option_rows().size()) + " True\n");
}

}  // namespace
}  // namespace tidepool::test
