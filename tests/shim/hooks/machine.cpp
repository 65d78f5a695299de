#include "tests/shim/hooks/machine.h"

#include <cuda.h>

#include <cstddef>
#include <map>

namespace tidepool::test {
namespace {

constexpr int kAsEver = -1;
constexpr std::uint64_t kDevices = 2;
constexpr std::uint64_t kContexts = 0x1000;  // the first device's; the second's comes after it
constexpr std::uint64_t kPools = 0x2000;

template <class T>
T& pointed(std::uint64_t argument) {
  return *reinterpret_cast<T*>(argument);
}

// One thread uses it.
std::uint64_t g_current = kContexts;
std::map<std::uint64_t, std::uint64_t> g_streams;  // stream -> context

int answer_of_devices(std::string_view entry, const std::uint64_t* arguments) {
  if (entry == "cuDeviceGetCount") {
    pointed<int>(arguments[0]) = kDevices;
  } else if (entry == "cuDeviceGet") {
    pointed<int>(arguments[0]) = static_cast<int>(arguments[1]);
  } else if (entry == "cuDeviceCanAccessPeer") {
    pointed<int>(arguments[0]) = 1;
  } else if (entry == "cuDevicePrimaryCtxRetain") {
    pointed<std::uint64_t>(arguments[0]) = kContexts + static_cast<unsigned>(arguments[1]);
  } else if (entry == "cuCtxGetCurrent") {
    pointed<std::uint64_t>(arguments[0]) = g_current;
  } else if (entry == "cuCtxSetCurrent") {
    g_current = arguments[0];
  } else if (entry == "cuCtxGetDevice") {
    pointed<int>(arguments[0]) = static_cast<int>(g_current - kContexts);
  } else {
    return kAsEver;
  }
  return CUDA_SUCCESS;
}

int answer_of_streams(std::string_view entry, const std::uint64_t* arguments) {
  if (entry == "cuStreamCreate") {
    const std::uint64_t stream = 0x10000 + 0x100 * g_streams.size();
    g_streams[stream] = g_current;
    pointed<std::uint64_t>(arguments[0]) = stream;
  } else if (entry == "cuStreamGetCtx") {
    const auto found = g_streams.find(arguments[0]);
    pointed<std::uint64_t>(arguments[1]) = found != g_streams.end() ? found->second : g_current;
  } else {
    return kAsEver;
  }
  return CUDA_SUCCESS;
}

int answer_of_pools_and_graphs(std::string_view entry, const std::uint64_t* arguments) {
  if (entry == "cuDeviceGetDefaultMemPool" || entry == "cuDeviceGetMemPool") {
    pointed<std::uint64_t>(arguments[0]) = kPools + static_cast<unsigned>(arguments[1]);
  } else if (entry == "cuGraphGetNodes") {
    if (arguments[1] != 0) pointed<std::uint64_t>(arguments[1]) = arguments[0];
    pointed<std::size_t>(arguments[2]) = 1;
  } else if (entry == "cuGraphNodeGetType") {
    pointed<CUgraphNodeType>(arguments[1]) = CU_GRAPH_NODE_TYPE_MEMSET;
  } else if (entry == "cuGraphMemsetNodeGetParams") {
    pointed<CUDA_MEMSET_NODE_PARAMS>(arguments[1]) = pointed<CUDA_MEMSET_NODE_PARAMS>(arguments[0]);
  } else {
    return kAsEver;
  }
  return CUDA_SUCCESS;
}

}  // namespace

int answer_of_machine(std::string_view entry, const std::uint64_t* arguments) {
  for (const auto answer : {answer_of_devices, answer_of_streams, answer_of_pools_and_graphs}) {
    if (const int code = answer(entry, arguments); code != kAsEver) return code;
  }
  return kAsEver;
}

}  // namespace tidepool::test
