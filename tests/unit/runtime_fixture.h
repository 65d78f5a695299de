#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "allocator/runtime.h"
#include "allocator/support/message.h"
#include "allocator/support/options.h"
#include "tests/fakes/fake_device.h"

namespace tidepool::runtime {

/// A program on a small device: blocks whose content it knows, launches that write and check them.
///
/// A launch reads a block's stamp and writes the next one, in a kernel that runs late; what the program
/// expects is kept on the host. A lost copy, a missing wait, or an eviction under a launch shows as a wrong
/// stamp or as an error of the device.
class Program {
 public:
  struct Config {
    Bytes device = MiB(256);
    const char* budget = "16MiB";
    const char* host = "1GiB";
    std::uint64_t seed = 1;
    int streams = 3;
    bool blocking = false;
    const char* check = "full";
    const char* clean = "1";
    const char* min_block = "1MiB";
    bool is_lost = false;  ///< the device ends in an error, after which it gives nothing back
  };

  explicit Program(const Config& config)
      : is_lost_(config.is_lost), device_({config.device, MiB(2), config.seed}) {
    Options options = default_options();
    REQUIRE(set_option(options, *find_option("TIDEPOOL_DEVICE_BUDGET"), config.budget).ok());
    REQUIRE(set_option(options, *find_option("TIDEPOOL_HOST_BUDGET"), config.host).ok());
    REQUIRE(set_option(options, *find_option("TIDEPOOL_CHECK"), config.check).ok());
    REQUIRE(set_option(options, *find_option("TIDEPOOL_CLEAN"), config.clean).ok());
    REQUIRE(set_option(options, *find_option("TIDEPOOL_MIN_BLOCK"), config.min_block).ok());
    auto runtime = Runtime::create(device_, options, GiB(4));
    REQUIRE(runtime.ok());
    runtime_.reset(*runtime);
    for (int i = 0; i < config.streams; ++i)
      streams_.push_back(device_.create_program_stream(config.blocking));
  }

  ~Program() {
    device_.run_all();
    runtime_.reset();
    CHECK(times_reported(Msg::TP3002) == broken_before_);
    if (is_lost_) return;
    CHECK(device_.in_use() == Bytes());
    CHECK(device_.mappings() == 0);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  fakes::FakeDevice& device() { return device_; }
  Runtime& runtime() { return *runtime_; }
  StreamHandle stream(std::size_t i) { return streams_[i % streams_.size()]; }

  DevicePtr allocate(Bytes size) {
    const auto at = runtime_->allocate(size);
    REQUIRE(at.ok());
    expected_[at->address()] = {size, 0};
    return *at;
  }

  DevicePtr allocate_in(Bytes size, std::size_t on_stream) {
    const auto at = runtime_->allocate_in(size, stream(on_stream));
    REQUIRE(at.ok());
    expected_[at->address()] = {size, 0};
    return *at;
  }
  void free_in(DevicePtr at, std::size_t on_stream) {
    REQUIRE(runtime_->free_in(at, stream(on_stream)).ok());
    expected_.erase(at.address());
  }
  /// What one stream does from here on comes after what another has been given so far, as by an event.
  void order(std::size_t after, std::size_t before) {
    const auto event = device_.create_event();
    REQUIRE(event.ok());
    REQUIRE(device_.record(*event, stream(before)).ok());
    REQUIRE(device_.wait(stream(after), *event).ok());
    REQUIRE(device_.destroy_event(*event).ok());
  }

  /// A launch that touches all of `blocks`: checks each one's stamp at its first and last word, then writes
  /// the next.
  Status touch(const std::vector<DevicePtr>& blocks, std::size_t on_stream) {
    return work(blocks, on_stream, 1, &fakes::FakeDevice::submit);
  }
  /// A launch that names all of `blocks` and only looks whether each still has its stamp.
  Status look(const std::vector<DevicePtr>& blocks, std::size_t on_stream) {
    return work(blocks, on_stream, 0, &fakes::FakeDevice::submit);
  }
  /// The same by a copy of the program, which needs no multiprocessor.
  Status touch_by_copy(const std::vector<DevicePtr>& blocks, std::size_t on_stream) {
    return work(blocks, on_stream, 1, &fakes::FakeDevice::submit_copy);
  }
  Status look_by_copy(const std::vector<DevicePtr>& blocks, std::size_t on_stream) {
    return work(blocks, on_stream, 0, &fakes::FakeDevice::submit_copy);
  }

  Status free(DevicePtr at) {
    const Status status = runtime_->free(at);
    if (status.ok()) expected_.erase(at.address());
    return status;
  }

  /// The program's streams wait for each other, so that a block may go from one to another.
  void synchronize() { REQUIRE(device_.synchronize().ok()); }

  void check() {
    const char* broken = runtime_->check();
    INFO((broken != nullptr ? broken : ""));
    REQUIRE(broken == nullptr);
    REQUIRE(device_.errors().empty());
    REQUIRE(wrong_ == 0);
  }

 private:
  struct Content {
    Bytes size;
    std::uint64_t stamp;
  };
  struct Step {
    DevicePtr at;
    Bytes size;
    std::uint64_t expect;
    std::uint64_t write;
  };

  /// Checks each block's stamp and adds `more` to it.
  template <class Submit>
  Status work(const std::vector<DevicePtr>& blocks, std::size_t on_stream, std::uint64_t more,
              Submit submit) {
    std::vector<BlockId> set;
    std::vector<Step> steps;
    for (const DevicePtr at : blocks) {
      const Content& content = expected_.at(at.address());
      set.push_back(runtime_->find(at.address()));
      steps.push_back({at, content.size, content.stamp, content.stamp + more});
    }
    const StreamHandle stream = this->stream(on_stream);
    const int code = runtime_->launch(set, stream, "test kernel", [&] {
      return (device_.*submit)(stream, "kernel", [this, steps](auto& access) { run(access, steps); }).code();
    });
    if (code == 0) {
      for (const DevicePtr at : blocks) expected_.at(at.address()).stamp += more;
    }
    return Status(code);
  }

  void run(fakes::FakeDevice::Access& access, const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      const DevicePtr last = step.at + (step.size - Bytes(8));
      for (const DevicePtr word : {step.at, last}) {
        if (word == last && step.size < Bytes(16)) continue;
        std::uint64_t seen = 0;
        if (step.expect != 0) {
          access.read(word, &seen, Bytes(8));
          if (seen != (step.expect ^ word.address())) ++wrong_;
        }
        if (step.write == step.expect) continue;
        const std::uint64_t next = step.write ^ word.address();
        access.write(word, &next, Bytes(8));
      }
    }
  }

  const bool is_lost_;
  const std::uint64_t broken_before_ = times_reported(Msg::TP3002);  // what TIDEPOOL_CHECK found
  fakes::FakeDevice device_;
  std::unique_ptr<Runtime> runtime_;
  std::vector<StreamHandle> streams_;
  std::map<std::uint64_t, Content> expected_;
  int wrong_ = 0;
};

}  // namespace tidepool::runtime
