#include "tests/shim/hooks/witness.h"

#include <dlfcn.h>

#include "tests/shim/probe.h"

namespace tidepool::test {
namespace {

constexpr int kAsEver = -1;

int see_call(const char* entry, const std::uint64_t* arguments) {
  return Witness::instance().see(entry, arguments);
}

template <class T>
T& pointed(std::uint64_t argument) {
  return *reinterpret_cast<T*>(argument);
}

// Pools, and graphs of one memset.
int answer(std::string_view entry, const std::uint64_t* arguments) {
  static char pool;
  if (entry == "cuDeviceGetDefaultMemPool" || entry == "cuDeviceGetMemPool") {
    pointed<void*>(arguments[0]) = &pool;
  } else if (entry == "cuGraphGetNodes") {
    if (arguments[1] != 0) pointed<std::uint64_t>(arguments[1]) = arguments[0];
    pointed<std::size_t>(arguments[2]) = 1;
  } else if (entry == "cuGraphNodeGetType") {
    pointed<CUgraphNodeType>(arguments[1]) = CU_GRAPH_NODE_TYPE_MEMSET;
  } else if (entry == "cuGraphMemsetNodeGetParams_v2" || entry == "cuGraphMemsetNodeGetParams") {
    pointed<CUDA_MEMSET_NODE_PARAMS>(arguments[1]) = pointed<CUDA_MEMSET_NODE_PARAMS>(arguments[0]);
  } else {
    return kAsEver;
  }
  return CUDA_SUCCESS;
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

void Witness::watch(std::string_view entry, CUdeviceptr block, std::size_t size, int code) {
  watched_ = entry;
  block_ = block;
  size_ = size;
  code_ = code;
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
    if (calls_ == 1 && code_ != 0) return code_;
  }
  if (entry == "cuMemMap") mapped_[arguments[0]] = arguments[1];
  if (is_unmap)
    mapped_.erase(mapped_.lower_bound(arguments[0]), mapped_.lower_bound(arguments[0] + arguments[1]));
  return answer(entry, arguments);
}

}  // namespace tidepool::test
