#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tools/workloads/common/feed.h"
#include "tools/workloads/common/lanes.h"
#include "tools/workloads/common/memory.h"
#include "tools/workloads/common/options.h"
#include "tools/workloads/common/parameters.h"

namespace workload {

/// What every trainer has: streams, memory, parameters and a place for the loss on its way to the host.
class Trainer {
 public:
  /// `states` as for ParameterSet.
  Trainer(const Options& options, int states);
  virtual ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// One step of training, from 0; returns the loss before it.
  float step(int number);

  [[nodiscard]] std::vector<float> read_parameters() const { return parameters_.read(); }

 protected:
  /// Queues a step's work; leaves the loss of the batch in loss().
  virtual void queue_step(int number) = 0;

  [[nodiscard]] Floats floats(std::size_t count) { return {*memory_, count}; }
  [[nodiscard]] Memory& memory() { return *memory_; }
  [[nodiscard]] Lanes& lanes() { return lanes_; }
  [[nodiscard]] ParameterSet& parameters() { return parameters_; }
  [[nodiscard]] float* loss() const { return loss_.get(); }

 private:
  Lanes lanes_;
  std::unique_ptr<Memory> memory_;
  ParameterSet parameters_;
  Floats loss_;
  float* host_loss_ = nullptr;
};

/// Makes a trainer; the options are a replica's own (its seed).
using MakeTrainer = std::function<std::unique_ptr<Trainer>(const Options& options)>;

/// Trains options.threads replicas at the same time. Replica r has the seed `seed + r`, a thread and streams
/// of its own, on device r modulo options.devices. Prints the losses (hexadecimal floats) and the digest of
/// all final parameters; writes these to options.save as floats, replica by replica. Lines are in the order
/// of replicas and steps whatever the threads do; a single replica prints each line at once.
void train(const Options& options, const MakeTrainer& make);

/// Ends the program with an error if stdout could not be written.
void finish_output();

/// The end of main: trains models of one kind, which is made from its settings and a replica's options.
template <class Model, class Settings>
int train_to_the_end(const Options& options, const Settings& settings) {
  train(options, [&](const Options& own) { return std::make_unique<Model>(settings, own); });
  finish_output();
  return 0;
}

}  // namespace workload
