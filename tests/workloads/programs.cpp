#include "tests/workloads/programs.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace tidepool::test {

Outcome run_workload(const std::string& program, const std::vector<std::string>& device,
                     const std::vector<std::string>& options) {
  std::vector<std::string> words = {built("bin/simgpu"), "--device", "h100"};
  words.insert(words.end(), device.begin(), device.end());
  words.insert(words.end(), {"--", built("bin/" + program)});
  words.insert(words.end(), options.begin(), options.end());
  return run({words, "", {}, false, false});
}

Training train_workload(const std::string& program, const std::vector<std::string>& device,
                        const std::vector<std::string>& options) {
  const Outcome got = run_workload(program, device, options);
  INFO(got.err);
  REQUIRE(got.code() == 0);
  Training training;
  std::istringstream lines(got.out);
  for (std::string word; lines >> word;) {
    if (word == "loss") {
      lines >> word;
      training.losses.push_back(std::strtod(word.c_str(), nullptr));
    } else if (word == "digest") {
      lines >> training.digest;
    }
  }
  REQUIRE(training.digest.size() == 16);
  return training;
}

Training train_and_save(const std::string& program, std::vector<std::string> options) {
  const ScratchFolder folder;
  const std::string path = folder / "parameters";
  options.insert(options.end(), {"--save", path});
  Training training = train_workload(program, {}, options);
  std::ifstream file(path, std::ios::binary);
  for (float value = 0; file.read(reinterpret_cast<char*>(&value), sizeof value);) {
    training.parameters.push_back(value);
  }
  return training;
}

}  // namespace tidepool::test
