#include "tools/workloads/common/options.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "allocator/support/edit_distance.h"
#include "tools/workloads/common/check.h"

namespace workload {
namespace {

constexpr std::pair<std::string_view, Allocator> kAllocators[] = {{"plain", Allocator::kPlain},
                                                                  {"async", Allocator::kAsync},
                                                                  {"pool", Allocator::kPool},
                                                                  {"vmm", Allocator::kVmm}};

/// One option that takes a value, as the help shows it and the parser finds it.
struct Row {
  std::string name;
  std::string value;
  std::string meaning;
};

std::string range_of(long long low, long long high) {
  return std::to_string(low) + ".." + std::to_string(high);
}

class Parser {
 public:
  Parser(const Program& program, Options options) : program_(program), options_(std::move(options)) {
    for (const SizeOption& size : program.sizes) {
      std::string value = range_of(size.low, size.high);
      if (size.step != 1) value += ", a multiple of " + std::to_string(size.step);
      rows_.push_back(
          {size.name, value, std::string(size.meaning) + " (" + std::to_string(*size.value) + ")"});
    }
    rows_.push_back(
        {"--steps", range_of(0, kMostSteps), "steps of training (" + std::to_string(options_.steps) + ")"});
    rows_.push_back({"--seed", "0..2^64-1", "of data, initial weights and dropout (1)"});
    rows_.push_back(
        {"--alloc", "plain|async|pool|vmm",
         "device memory by cudaMalloc, cudaMallocAsync, a memory pool of its own, or cuMemCreate and "
         "cuMemMap (plain)"});
    rows_.push_back({"--streams", range_of(1, kMostStreams),
                     "streams of a replica: work, uploads, then independent work (" +
                         std::to_string(options_.streams) + ")"});
    rows_.push_back({"--threads", range_of(1, kMostThreads), "replicas, trained by a thread each (1)"});
    rows_.push_back({"--devices", range_of(1, kMostDevices), "devices that the replicas take in turn (1)"});
    rows_.push_back({"--save", "FILE", "write the final parameters there"});
    if (program.describes)
      rows_.push_back({"--mode", "train|describe", "describe is the same as --describe (train)"});
  }

  Options parse(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string_view option = argv[i];
      if (option == "--help" || option == "-h") help();
      if (program_.describes && option == "--describe") {
        options_.describe = true;
        continue;
      }
      if (std::none_of(rows_.begin(), rows_.end(), [&](const Row& row) { return row.name == option; })) {
        refuse(argv[i]);
      }
      if (++i == argc) fail(argv[i - 1], "needs a value; see --help");
      take(argv[i - 1], argv[i]);
    }
    return options_;
  }

 private:
  static constexpr long long kMostSteps = 1'000'000;
  static constexpr long long kMostStreams = 16;
  static constexpr long long kMostThreads = 64;
  static constexpr long long kMostDevices = 16;

  [[noreturn]] void help() const {
    std::printf("usage: %s [OPTION]...\n%s\n\n", program_.name, program_.about);
    for (const Row& row : rows_) {
      std::printf("  %s %s\n      %s\n", row.name.c_str(), row.value.c_str(), row.meaning.c_str());
    }
    if (program_.describes)
      std::printf("  --describe\n      print what it needs of memory as JSON and use no GPU\n");
    std::printf("  --help\n      this text\n");
    std::exit(std::fflush(stdout) == 0 ? 0 : 1);
  }

  [[noreturn]] void refuse(const char* option) const {
    std::vector<std::string> known = {"--help"};
    for (const Row& row : rows_) known.push_back(row.name);
    if (program_.describes) known.emplace_back("--describe");
    const std::string* const meant = tidepool::nearest_item(
        option, known, [](const std::string& name) -> std::string_view { return name; });
    fail(option, meant == nullptr ? "is no option; see --help"
                                  : ("is no option; did you mean " + *meant + "?").c_str());
  }

  void take(const char* option, const char* value) {
    const std::string_view name = option;
    for (const SizeOption& size : program_.sizes) {
      if (name != size.name) continue;
      *size.value = static_cast<int>(number(option, value, size.low, size.high));
      if (*size.value % size.step != 0) {
        fail(option, ("needs a multiple of " + std::to_string(size.step)).c_str());
      }
      return;
    }
    if (name == "--steps") {
      options_.steps = static_cast<int>(number(option, value, 0, kMostSteps));
    } else if (name == "--streams") {
      options_.streams = static_cast<int>(number(option, value, 1, kMostStreams));
    } else if (name == "--threads") {
      options_.threads = static_cast<int>(number(option, value, 1, kMostThreads));
    } else if (name == "--devices") {
      options_.devices = static_cast<int>(number(option, value, 1, kMostDevices));
    } else if (name == "--seed") {
      options_.seed = number(option, value, 0, ~0ULL);
    } else if (name == "--save") {
      options_.save = value;
    } else if (name == "--alloc") {
      options_.allocator = allocator(value);
    } else {
      options_.describe = mode(value) == "describe";
    }
  }

  static unsigned long long number(const char* option, const char* text, unsigned long long low,
                                   unsigned long long high) {
    char* end = nullptr;
    errno = 0;
    const unsigned long long n = std::strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || n < low || n > high) {
      fail(option, ("needs a number in " + std::to_string(low) + ".." + std::to_string(high)).c_str());
    }
    return n;
  }

  static Allocator allocator(std::string_view value) {
    for (const auto& [name, kind] : kAllocators) {
      if (name == value) return kind;
    }
    fail("--alloc", "needs plain, async, pool or vmm");
  }

  static std::string_view mode(std::string_view value) {
    if (value != "train" && value != "describe") fail("--mode", "needs train or describe");
    return value;
  }

  const Program& program_;
  Options options_;
  std::vector<Row> rows_;
};

}  // namespace

Options parse_options(int argc, char** argv, const Program& program, Options defaults) {
  set_program_name(program.name);
  return Parser(program, std::move(defaults)).parse(argc, argv);
}

}  // namespace workload
