#include "tools/simgpu/cmd/options.h"

#include <charconv>
#include <filesystem>
#include <string_view>
#include <utility>

#include "allocator/support/units.h"
#include "tools/simgpu/cmd/suggest.h"
#include "tools/simgpu/machine/machine.h"

namespace simgpu::cmd {
namespace {

const std::vector<std::string> kOptionNames = {"--device",  "--memory",    "--seed",      "--schedule",
                                               "--clock",   "--host-time", "--processes", "--digest",
                                               "--roles",   "--faults",    "--report",    "--trace",
                                               "--summary", "--help",      "--version",   "--error-exitcode"};

/// An option with its value, as a message shows it.
std::string shown(const std::string& name, const std::string& value) {
  return name + " " + (value.empty() ? "''" : value);
}

std::uint64_t parse_seed(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    throw UsageError(shown("--seed", text) + ": want a number from 0 to 18446744073709551615");
  return value;
}

std::uint32_t parse_processes(const std::string& text) {
  constexpr std::uint32_t kMost = 64;
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value == 0 || value > kMost)
    throw UsageError(shown("--processes", text) + ": want a number from 1 to 64");
  return value;
}

int parse_exitcode(const std::string& text) {
  constexpr int kMost = 255;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 1 || value > kMost)
    throw UsageError(shown("--error-exitcode", text) + ": want a number from 1 to 255");
  return value;
}

/// "256MiB", or one size for each device: "256MiB,1GiB".
std::vector<std::uint64_t> parse_memory(const std::string& text) {
  std::vector<std::uint64_t> sizes;
  std::string_view rest = text;
  for (bool more = true; more;) {
    const std::size_t comma = rest.find(',');
    const auto value = tidepool::parse_bytes(rest.substr(0, comma));
    if (!value || *value < tidepool::MiB(2) || *value > tidepool::GiB(1024))
      throw UsageError(shown("--memory", text) + ": want bytes from 2MiB to 1TiB, as in 268435456 or 256MiB");
    sizes.push_back(value->count());
    more = comma != std::string_view::npos;
    if (more) rest.remove_prefix(comma + 1);
  }
  return sizes;
}

std::string one_of(const std::string& option, const std::string& text, const std::string& one,
                   const std::string& other) {
  if (text == one || text == other) return text;
  throw UsageError(shown(option, text) + ": want " + one + " or " + other + suggestion(text, {one, other}));
}

/// The name of a file. An empty one is most likely a variable of a script that is not set, "-" the stream
/// that it stands for elsewhere.
std::string file(const std::string& option, const std::string& name) {
  if (name.empty() || name == "-") throw UsageError(shown(option, name) + ": want the name of a file");
  return name;
}

/// Sets the option to its value.
void set(Options* o, const std::string& name, const std::string& value) {
  if (name == "--device") {
    o->devices.push_back(value);
  } else if (name == "--memory") {
    o->memory_bytes = parse_memory(value);
  } else if (name == "--seed") {
    o->seed = parse_seed(value);
  } else if (name == "--schedule") {
    o->schedule = one_of(name, value, "adversarial", "inorder");
  } else if (name == "--clock") {
    o->clock = one_of(name, value, "virtual", "wall");
  } else if (name == "--host-time") {
    o->host_time = one_of(name, value, "fixed", "measured");
  } else if (name == "--processes") {
    o->processes = parse_processes(value);
  } else if (name == "--trace") {
    o->trace = file(name, value);
  } else if (name == "--digest") {
    o->digest = one_of(name, value, "4k", "full");
  } else if (name == "--roles") {
    o->roles = file(name, value);
  } else if (name == "--faults") {
    o->faults = file(name, value);
  } else if (name == "--error-exitcode") {
    o->error_exitcode = parse_exitcode(value);
  } else if (value == "-") {
    o->summary = true;
  } else {
    o->report = file(name, value);
  }
}

bool takes_no_value(const std::string& name) {
  return name == "--summary" || name == "--help" || name == "--version";
}

bool known(const std::string& name) {
  for (const std::string& option : kOptionNames) {
    if (option == name) return true;
  }
  return false;
}

void check_devices(Options* o) {
  constexpr std::size_t kMost = MachineConfig::kMaxDevices;
  if (o->devices.empty()) o->devices.emplace_back("h100");
  const std::size_t devices = o->devices.size();
  if (devices > kMost) {
    throw UsageError("--device is given " + std::to_string(devices) + " times; a machine has at most " +
                     std::to_string(kMost) + " devices");
  }
  const std::size_t sizes = o->memory_bytes.size();
  if (sizes > 1 && sizes != devices) {
    throw UsageError("--memory has " + std::to_string(sizes) + " sizes for " + std::to_string(devices) +
                     (devices == 1 ? " device" : " devices") +
                     "; give one size for all, or one for each --device");
  }
}

}  // namespace

Options parse_options(const std::vector<std::string>& words) {
  Options o;
  std::size_t i = 0;
  for (; i < words.size() && words[i] != "--"; ++i) {
    const std::string& word = words[i];
    if (word == "--help" || word == "-h") {
      o.help = true;
      return o;
    }
    if (word == "--version") {
      o.version = true;
      return o;
    }
    if (word == "--summary") {
      o.summary = true;
      continue;
    }
    if (word.empty() || word[0] != '-') {
      std::string text = "'" + word;
      text += "' is not an option; put -- before the command, as in 'simgpu [options] -- ";
      throw UsageError(text + (word.empty() ? "command" : word) + "'");
    }
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (!known(name)) {
      throw UsageError("unknown option " + name + suggestion(name, kOptionNames) +
                       "; simgpu --help lists what there is");
    }
    if (takes_no_value(name)) throw UsageError(word + ": " + name + " takes no value; leave it out");
    if (equals != std::string::npos) {
      set(&o, name, word.substr(equals + 1));
    } else {
      if (i + 1 == words.size() || words[i + 1] == "--")
        throw UsageError("option " + name + " needs a value; simgpu --help says which");
      set(&o, name, words[++i]);
    }
  }
  check_devices(&o);
  if (i + 1 >= words.size())
    throw UsageError("no command; put it behind --, as in 'simgpu [options] -- command [arguments]'");
  if (words[i + 1].empty()) throw UsageError("the command behind -- is empty; name a program there");
  const auto place = [](const std::string& file) {
    return std::filesystem::absolute(file).lexically_normal();
  };
  if (!o.report.empty() && !o.trace.empty() && place(o.report) == place(o.trace))
    throw UsageError("--report and --trace name one file, " + o.report + "; give each its own");
  o.command.assign(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
  return o;
}

const char* help_text() {
  return "usage: simgpu [options] -- command [arguments]\n"
         "\n"
         "Runs a command on a CUDA device in software. Programs with the shared CUDA run time and\n"
         "programs that use the driver API find it in place of a GPU.\n"
         "\n"
         "  --device NAME|FILE   device profile (default h100); again for a further device\n"
         "  --memory BYTES,...   device memory instead of the profile's, as in 256MiB: one\n"
         "                       size for all devices, or one for each\n"
         "  --seed N             chooses the order in which queued work runs (default 1)\n"
         "  --schedule WORD      adversarial: as late and reordered as CUDA allows (default);\n"
         "                       inorder: at once, in the order of the calls\n"
         "  --clock WORD         virtual: time follows from the calls and the profile, the same in\n"
         "                       every run (default); wall: the time of this computer\n"
         "  --host-time WORD     fixed: each call costs what the profile says (default);\n"
         "                       measured: what the program's threads really took; not reproducible\n"
         "  --processes N        so many processes start at the same virtual time: engines are given\n"
         "                       once all of them use the device\n"
         "  --digest WORD        what kernels without CPU body look at: 64 bytes of each 4 KiB\n"
         "                       (4k, default) or every byte (full)\n"
         "  --roles FILE         which memory such kernels read and write, instead of the shipped\n"
         "                       file; the variable SIMGPU_ROLES says the same\n"
         "  --faults FILE        a fault plan: calls that fail, copies that arrive wrong, ...\n"
         "  --report FILE        writes what the devices did as JSON; - is --summary\n"
         "  --trace FILE         writes when each engine worked, for Perfetto or chrome://tracing\n"
         "  --summary            prints what the devices did on stderr\n"
         "  --error-exitcode N   ends with N (1 to 255) where the command ended with 0 and the report\n"
         "                       counts races, other than possible ones, or errors\n"
         "  --help, --version\n"
         "\n"
         "The exit status is the command's, unless --error-exitcode says otherwise. 125: simgpu itself\n"
         "failed, 126: the command cannot be run, 127: it was not found. A command that a signal ended\n"
         "ends simgpu by that signal.\n";
}

}  // namespace simgpu::cmd
