#include "tests/bench/turn_workload.h"

#include <cstdio>
#include <cstdlib>

#include "allocator/support/options.h"
#include "allocator/support/stats_page.h"

namespace tidepool::bench {
namespace {

constexpr runtime::StreamHandle kStream{7};

void must(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "turn_workload: %s\n", what);
  std::abort();
}

}  // namespace

TurnWorkload::Kind TurnWorkload::kind_of(std::string_view name) noexcept {
  if (name == "turn_read") return Kind::kRead;
  if (name == "turn_among") return Kind::kAmong;
  if (name == "turn_freed") return Kind::kFreed;
  return Kind::kAll;
}

TurnWorkload::TurnWorkload(Kind kind, std::size_t blocks)
    : kind_(kind), device_(kBlock * (4 * blocks), kind != Kind::kRead) {
  Options options = default_options();
  options.device_budget = Amount::bytes(kBlock * (kind == Kind::kAmong ? blocks - blocks / 100 : blocks / 2));
  options.device_reserve = {};
  options.host_budget = Amount::bytes(kBlock * (2 * blocks));
  auto runtime = runtime::Runtime::create(device_, options, kBlock * (2 * blocks));
  must(runtime.ok(), "no runtime");
  runtime_.reset(*runtime);
  for (std::size_t i = 0; i < blocks; ++i) {
    const auto at = runtime_->allocate(kBlock);
    must(at.ok(), "no memory");
    at_.push_back(*at);
    blocks_.push_back(runtime_->find(at->address()));
  }
  // Twice around: all have been out, and are where the turns leave them.
  for (std::size_t i = 0; i < 2 * blocks / kNamed; ++i) launch_next();
}

void TurnWorkload::launch(std::size_t eight) {
  const std::span<const runtime::BlockId> set{blocks_.data() + eight * kNamed, kNamed};
  must(runtime_->launch(set, kStream, "kernel", [] { return 0; }) == 0, "a launch failed");
}

void TurnWorkload::launch_next() {
  launch(next_);
  const std::size_t last = blocks_.size() / kNamed - 1;
  if (kind_ != Kind::kAmong) {
    next_ = next_ == last ? 0 : next_ + 1;
  } else if (next_ == (forth_ ? last : 0)) {
    forth_ = !forth_;
  } else {
    next_ += forth_ ? 1 : std::size_t(-1);
  }
}

void TurnWorkload::turn() {
  if (kind_ == Kind::kFreed) {
    const std::size_t one = (next_ * kNamed + blocks_.size() / 4) % blocks_.size();
    must(runtime_->free(at_[one]).ok(), "a free failed");
    const auto at = runtime_->allocate(kBlock);
    must(at.ok(), "no memory");
    at_[one] = *at;
    blocks_[one] = runtime_->find(at->address());
  }
  StatsPage& page = StatsPage::instance();
  const std::uint64_t before = page.get(Metric::slow_path_total);
  while (page.get(Metric::slow_path_total) == before) launch_next();
}

}  // namespace tidepool::bench
