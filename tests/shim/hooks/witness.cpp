#include "tests/shim/hooks/witness.h"

#include <dlfcn.h>

#include "tests/shim/hooks/machine.h"
#include "tests/shim/probe.h"

namespace tidepool::test {
namespace {

int see_call(const char* entry, const std::uint64_t* arguments) {
  return Witness::instance().see(entry, arguments);
}

}  // namespace

Witness& Witness::instance() {
  static Witness* const only = [] {
    auto* const made = new Witness;
    using Intercept = void(int (*)(const char*, const std::uint64_t*));
    const auto intercept = find<Intercept>("tp_recording_intercept");
    EXPECT(intercept != nullptr);
    intercept(&see_call);
    return made;
  }();
  return *only;
}

bool Witness::is_mapped(CUdeviceptr at, std::size_t size) const {
  const std::uint64_t end = at + size;
  while (at < end) {
    auto next = mapped_.upper_bound(at);
    if (next == mapped_.begin()) return false;
    --next;
    if (next->first + next->second <= at) return false;
    at = next->first + next->second;
  }
  return true;
}

void Witness::watch(std::string_view entry, CUdeviceptr block, std::size_t size, int code, int nth) {
  watched_ = entry;
  block_ = block;
  size_ = size;
  code_ = code;
  nth_ = nth;
  calls_ = returns_ = 0;
  was_mapped_ = true;
}

int Witness::see(std::string_view entry, const std::uint64_t* arguments) {
  const bool is_unmap = entry == "cuMemUnmap";
  if (is_unmap || entry == "cuMemRelease") ++returns_;
  const bool has_stream = entry == "cuMemcpyHtoDAsync_v2" || entry == "cuMemcpyDtoHAsync_v2";
  const bool is_own = has_stream && arguments[3] != reinterpret_cast<std::uintptr_t>(stream_);
  if (entry == watched_ && !is_own) {
    ++calls_;
    was_mapped_ = was_mapped_ && is_mapped(block_, size_);
    if (calls_ == nth_ && code_ != 0) return code_;
  }
  if (entry == "cuMemMap") mapped_[arguments[0]] = arguments[1];
  if (is_unmap)
    mapped_.erase(mapped_.lower_bound(arguments[0]), mapped_.lower_bound(arguments[0] + arguments[1]));
  return answer_of_machine(entry, arguments);
}

}  // namespace tidepool::test
