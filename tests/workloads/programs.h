#pragma once

#include <string>
#include <vector>

#include "tests/process/child_process.h"

/// Runs of the workloads on the simulated device.
namespace tidepool::test {

/// What a run printed and saved.
struct Training {
  std::vector<double> losses;
  std::string digest;
  std::vector<float> parameters;  ///< if it was asked to save them
};

/// Runs a program of the build's bin folder; `device` are options of simgpu.
Outcome run_workload(const std::string& program, const std::vector<std::string>& device,
                     const std::vector<std::string>& options);

/// The same for a run that must succeed.
Training train_workload(const std::string& program, const std::vector<std::string>& device,
                        const std::vector<std::string>& options);

/// With the final parameters.
Training train_and_save(const std::string& program, std::vector<std::string> options);

}  // namespace tidepool::test
