#include "shim/graph_memory.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <deque>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include "allocator/support/message.h"
#include "shim/ask.h"
#include "shim/capture.h"
#include "shim/make_way.h"
#include "shim/managed.h"
#include "shim/outside_memory.h"
#include "shim/ownership.h"
#include "shim/real_driver.h"

namespace tidepool::shim {
namespace {

/// What the allocation nodes of a graph ask for on one device.
struct Demand {
  CUdevice device;
  Bytes all;      // the most that launches take: nodes may share what they do not need at once
  Bytes largest;  // the least
};

/// The same, each device once.
using Demands = std::vector<Demand>;

void add_to(Demands& demands, CUdevice device, Bytes size) noexcept {
  const auto is_there = [device](const Demand& demand) { return demand.device == device; };
  auto at = std::find_if(demands.begin(), demands.end(), is_there);
  if (at == demands.end()) at = demands.insert(at, Demand{device, {}, {}});
  at->all += size;
  at->largest = std::max(at->largest, size);
}

/// Instances of graphs that allocate.
class Instances {
 public:
  void add(CUgraphExec instance, const Demands& demands) noexcept {
    const std::lock_guard guard(lock_);
    known_.insert_or_assign(instance, Known{demands, true});
  }
  /// What it was, for put_back(); none: it is not known.
  auto take(CUgraphExec instance) noexcept {
    const std::lock_guard guard(lock_);
    return known_.extract(instance);
  }
  template <class Taken>
  void put_back(Taken&& taken) noexcept {
    const std::lock_guard guard(lock_);
    known_.insert(std::forward<Taken>(taken));
  }
  void remove_of(CUdevice device) noexcept {
    const std::lock_guard guard(lock_);
    for (auto& [instance, known] : known_) {
      std::erase_if(known.demands, [device](const Demand& demand) { return demand.device == device; });
    }
    std::erase_if(known_, [](const auto& entry) { return entry.second.demands.empty(); });
  }
  /// What an instance demands; nothing of what the driver is sure to have already. Empty: it is not known.
  Demands run(CUgraphExec instance) noexcept {
    const std::lock_guard guard(lock_);
    const auto found = known_.find(instance);
    if (found == known_.end()) return {};
    Demands demands = found->second.demands;
    if (!found->second.is_new) {
      for (Demand& demand : demands) demand.all = demand.largest = Bytes();
    }
    return demands;
  }
  /// It has run once.
  void has_run(CUgraphExec instance) noexcept {
    const std::lock_guard guard(lock_);
    if (const auto found = known_.find(instance); found != known_.end()) found->second.is_new = false;
  }
  /// What all of a device demand together.
  Bytes demand_on(CUdevice device) noexcept {
    const std::lock_guard guard(lock_);
    Bytes sum;
    for (const auto& [instance, known] : known_) {
      for (const Demand& demand : known.demands) {
        if (demand.device == device) sum += demand.all;
      }
    }
    return sum;
  }

 private:
  struct Known {
    Demands demands;
    bool is_new;
  };
  std::mutex lock_;
  std::unordered_map<CUgraphExec, Known> known_;
};

/// Never destroyed: hooks run until the process has ended.
Instances& instances() noexcept {
  alignas(Instances) static std::byte storage[sizeof(Instances)];
  static Instances* const only = ::new (storage) Instances;
  return *only;
}

// Some graph of the process has allocation nodes: until then nothing is asked.
std::atomic<bool> g_allocates{false};

Bytes held_by_graphs(CUdevice device) noexcept {
  const auto ask = active_driver().cuDeviceGetGraphMemAttribute;
  const RelaxedCapture relaxed;
  cuuint64_t held = 0;
  if (ask == nullptr || ask(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &held) != CUDA_SUCCESS) return {};
  return Bytes(held);
}

void add_demands(CUgraph graph, Demands& demands) noexcept {
  const RealDriver& driver = active_driver();
  std::size_t count = 0;
  const auto ask = [&](CUgraphNode* nodes) {
    return ask_again([&] { return driver.cuGraphGetNodes(graph, nodes, &count); }) == CUDA_SUCCESS;
  };
  if (!ask(nullptr) || count == 0) return;
  std::vector<CUgraphNode> nodes(count);
  if (!ask(nodes.data())) return;
  for (CUgraphNode node : nodes) {
    CUgraphNodeType kind{};
    if (ask_again([&] { return driver.cuGraphNodeGetType(node, &kind); }) != CUDA_SUCCESS) continue;
    CUgraph child = nullptr;
    CUDA_MEM_ALLOC_NODE_PARAMS params{};
    if (kind == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
        ask_again([&] { return driver.cuGraphMemAllocNodeGetParams(node, &params); }) == CUDA_SUCCESS) {
      add_to(demands, params.poolProps.location.id, Bytes(params.bytesize));
    } else if (kind == CU_GRAPH_NODE_TYPE_GRAPH &&
               ask_again([&] { return driver.cuGraphChildGraphNodeGetGraph(node, &child); }) ==
                   CUDA_SUCCESS) {
      add_demands(child, demands);
    }
  }
}

Demands demands_of(CUgraph graph) noexcept {
  Demands demands;
  const RealDriver& driver = active_driver();
  const bool can = driver.cuGraphGetNodes != nullptr && driver.cuGraphNodeGetType != nullptr &&
                   driver.cuGraphMemAllocNodeGetParams != nullptr &&
                   driver.cuGraphChildGraphNodeGetGraph != nullptr;
  if (can && g_allocates.load(std::memory_order_acquire)) add_demands(graph, demands);
  return demands;
}

// What graphs that are gone have left is room too.
bool trim(CUdevice device) noexcept {
  const auto call = reinterpret_cast<decltype(&::cuDeviceGraphMemTrim)>(
      active_driver().hooks[static_cast<std::size_t>(Hook::cuDeviceGraphMemTrim)]);
  const Bytes before = held_by_graphs(device);
  if (before == Bytes() || call == nullptr || call(device) != CUDA_SUCCESS) return false;
  count_graph_memory(device);
  return held_by_graphs(device) < before;
}

// `demands`: of what the driver does not have yet.
CUresult take(const char* what, const Demands& demands, DriverCall call) noexcept {
  std::deque<Room> rooms;
  Bytes here;  // of the current device
  const CUdevice current = current_device();
  for (const Demand& demand : demands) {
    rooms.emplace_back(demand.device, demand.largest);
    if (!rooms.back().is_made() && trim(demand.device)) {
      rooms.pop_back();
      rooms.emplace_back(demand.device, demand.largest);
    }
    const ManagedDevice* const managed = managed_on(demand.device);
    const Bytes capacity = managed != nullptr ? managed->runtime->capacity() : demand.all;
    if (!rooms.back().is_made()) {
      report_on<Msg::TP2103>(static_cast<unsigned>(demand.device), what, BytesText(demand.largest).c_str(),
                             BytesText(capacity).c_str());
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    // Whether it takes the rest nobody knows: as far as blocks can make way they do.
    rooms.emplace_back(demand.device, std::min(demand.all, capacity) - demand.largest);
    if (demand.device == current) here = demand.all;
  }
  const CUresult result = with_room(call, here);
  for (const Demand& demand : demands) set_graph_bytes(demand.device, held_by_graphs(demand.device));
  return result;
}

// As much of a demand as the driver may take: it has the rest already.
Demand missing(Demand demand, Bytes of_others) noexcept {
  const Bytes all = of_others + demand.all - held_by_graphs(demand.device);
  demand.all = std::min(demand.all, all);
  demand.largest = std::min(demand.largest, demand.all);
  return demand;
}

}  // namespace

CUresult make_allocation_node(const char* what, CUdevice device, Bytes size, DriverCall call) noexcept {
  g_allocates.store(true, std::memory_order_release);
  return take(what, {{device, size, size}}, call);
}

CUresult make_instance(const char* what, CUgraph graph, const CUgraphExec* out, DriverCall call) noexcept {
  const Demands demands = demands_of(graph);
  if (demands.empty()) return with_room(call);
  Demands lacking;
  for (const Demand& demand : demands)
    lacking.push_back(missing(demand, instances().demand_on(demand.device)));
  const CUresult result = take(what, lacking, call);
  if (result == CUDA_SUCCESS) instances().add(*out, demands);
  return result;
}

CUresult run_instance(const char* what, CUgraphExec instance, DriverCall call) noexcept {
  Demands demands;
  if (g_allocates.load(std::memory_order_acquire)) demands = instances().run(instance);
  if (demands.empty()) return with_room(call);
  for (Demand& demand : demands) demand = missing(demand, instances().demand_on(demand.device) - demand.all);
  const CUresult result = take(what, demands, call);
  if (result == CUDA_SUCCESS) instances().has_run(instance);
  return result;
}

// Forgotten before its handle can come back.
CUresult end_instance(CUgraphExec instance, DriverCall call) noexcept {
  if (!g_allocates.load(std::memory_order_acquire)) return call();
  auto taken = instances().take(instance);
  const CUresult result = call();
  if (result != CUDA_SUCCESS && taken) instances().put_back(std::move(taken));
  return result;
}

void count_graph_memory(CUdevice device) noexcept {
  set_graph_bytes(device, held_by_graphs(device));
  settle_outside(device);
}

void forget_graph_memory(CUdevice device) noexcept {
  instances().remove_of(device);
  set_graph_bytes(device, Bytes());
}

}  // namespace tidepool::shim
