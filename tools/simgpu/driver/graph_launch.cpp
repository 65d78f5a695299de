#include <algorithm>

#include "tools/simgpu/driver/foreign.h"
#include "tools/simgpu/driver/graph_exec.h"
#include "tools/simgpu/driver/graph_memory.h"
#include "tools/simgpu/driver/graph_params.h"

/// From an executable graph to queued work.
namespace simgpu {
namespace {

/// One operation to be queued, and the steps that it comes after.
struct Step {
  Context* context = nullptr;
  std::vector<std::size_t> after;
  decltype(Operation::work) work;
  CUevent records = nullptr;
  CUevent waits_for = nullptr;
};

using Allocations = std::vector<std::shared_ptr<GraphAllocation>>;

bool contains(const Allocations& list, const std::shared_ptr<GraphAllocation>& one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

/// All operations of a launch in an order in which they can be queued. Made before anything is queued, so
/// that a launch that fails has done nothing.
class Plan {
 public:
  Plan(Driver& d, Context& context) : d_(d), context_(context) {}

  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }
  std::vector<Step>& steps() { return steps_; }
  /// What the nodes allocate, and what they free.
  [[nodiscard]] const Allocations& allocated() const { return allocated_; }
  [[nodiscard]] const Allocations& freed() const { return freed_; }

  /// Adds the nodes of a graph; `last` gets the steps that nothing of it comes after.
  CUresult add(const Graph& graph, const std::vector<std::size_t>& before, std::vector<std::size_t>* last) {
    std::unordered_map<const GraphNode*, std::size_t> step_of;
    for (const GraphNode* node : graph.in_order(nullptr)) {
      std::vector<std::size_t> after;
      for (const GraphNode* dependency : node->dependencies) after.push_back(step_of.at(dependency));
      if (node->dependencies.empty()) after = before;
      const CUresult result = add(*node, std::move(after));
      if (result != CUDA_SUCCESS) return result;
      step_of[node] = steps_.size() - 1;
      if (node->dependents.empty()) last->push_back(steps_.size() - 1);
    }
    return CUDA_SUCCESS;
  }

 private:
  /// Adds a node; the last step that it adds stands for it.
  CUresult add(const GraphNode& node, std::vector<std::size_t>&& after) {
    Step step;
    step.context = &context_;
    if (!node.enabled) return push(std::move(step), std::move(after));
    if (const auto* child = std::get_if<ChildWork>(&node.work)) {
      std::vector<std::size_t> last;
      const CUresult result = add(*child->graph, after, &last);
      if (result != CUDA_SUCCESS) return result;
      return push(std::move(step), last.empty() ? std::move(after) : std::move(last));
    }
    if (const auto* kernel = std::get_if<KernelWork>(&node.work)) {
      Launch launch;
      const CUresult result = launch_of(d_, *kernel, &launch);
      if (result != CUDA_SUCCESS) return result;
      step.work = std::move(launch);
      step.context = living_context(d_, kernel->context);
    } else if (const auto* copy = std::get_if<MemcpyWork>(&node.work)) {
      step.work = copy_of(d_, *copy);
      step.context = living_context(d_, copy->context);
    } else if (const auto* fill = std::get_if<MemsetWork>(&node.work)) {
      step.work = fill_of(*fill);
      step.context = living_context(d_, fill->fill.ctx);
    } else if (const auto* host = std::get_if<HostWork>(&node.work)) {
      step.work = HostCall{host->function, host->argument};
    } else if (const auto* record = std::get_if<EventRecordWork>(&node.work)) {
      step.records = record->event;
    } else if (const auto* wait = std::get_if<EventWaitWork>(&node.work)) {
      step.waits_for = wait->event;
    } else if (const auto* alloc = std::get_if<AllocWork>(&node.work)) {
      const GraphAllocation& a = *alloc->allocation;
      allocated_.push_back(alloc->allocation);
      step.work = PoolChange{a.pool->shared_from_this(), a.base, a.size, true, nullptr};
    } else if (const auto* free = std::get_if<FreeWork>(&node.work)) {
      const std::shared_ptr<GraphAllocation> a = find_graph_allocation(free->address);
      if (a == nullptr) return CUDA_ERROR_INVALID_VALUE;
      freed_.push_back(a);
      step.work = PoolChange{a->pool->shared_from_this(), a->base, a->size, false, nullptr};
    }
    for (const CUevent event : {step.records, step.waits_for}) {
      if (event != nullptr && !d_.events.contains(event)) return CUDA_ERROR_INVALID_HANDLE;
    }
    if (step.context == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return push(std::move(step), std::move(after));
  }

  CUresult push(Step&& step, std::vector<std::size_t>&& after) {
    step.after = std::move(after);
    steps_.push_back(std::move(step));
    return CUDA_SUCCESS;
  }

  Driver& d_;
  Context& context_;
  std::vector<Step> steps_;
  Allocations allocated_, freed_;
};

/// Where a step was queued.
struct Place {
  std::size_t lane;
  Wait done;
};

/// Chooses a step's lane: the one of a step that it comes after and that is the last there, so that the
/// lane's own order adds nothing to the edges; else one that this launch does not use yet.
class Lanes {
 public:
  Lanes(Driver& d, GraphExec& exec, const Stream& launched_in)
      : d_(d), exec_(exec), owner_{launched_in.id, launched_in.legacy, true} {}

  /// The place after the last one of the lane, without its ticket.
  Place choose(const Step& step, const std::vector<Place>& places) {
    for (const std::size_t before : step.after) {
      const Place& place = places[before];
      const bool is_last = last_[place.lane] == place.done.ticket;
      if (is_last && place.done.stream->context == step.context) return place;
    }
    const std::size_t lane = last_.size();
    last_.push_back(0);
    if (lane == exec_.lanes.size()) exec_.lanes.emplace_back();
    std::shared_ptr<Stream>& stream = exec_.lanes[lane];
    // What an earlier launch did keeps the name of the stream that it was in.
    if (stream == nullptr || stream->context != step.context || stream->works_for != owner_) {
      stream = d_.new_stream(step.context, CU_STREAM_NON_BLOCKING, 0);
      stream->works_for = owner_;
    }
    return Place{lane, Wait{stream, 0}};
  }
  void set_last(const Place& place) { last_[place.lane] = place.done.ticket; }

 private:
  Driver& d_;
  GraphExec& exec_;
  ordering::Owner owner_;
  std::vector<std::uint64_t> last_;  ///< by lane: the number of its latest operation of this launch
};

/// What an event wait node waits for: the record that is the latest when the graph is launched.
void add_event_wait(Driver& d, const std::shared_ptr<Stream>& stream, CUevent event, Operation* operation) {
  const auto it = d.events.find(event);
  if (it == d.events.end()) return;
  if (const auto foreign = foreign_record(d, *it->second)) {
    operation->until = *foreign;
    d.ledger.order_unknown(stream);
    return;
  }
  if (it->second->record != nullptr)
    operation->waits.push_back(Wait{it->second->record->stream, it->second->record->ticket});
}

/// Queues a step and returns its number.
std::uint64_t queue(Driver& d, const std::shared_ptr<Stream>& stream, Step&& step, Operation&& operation) {
  std::shared_ptr<EventRecord> made;
  if (step.records != nullptr) {
    made = std::make_shared<EventRecord>();
    const auto event = d.events.find(step.records);
    if (event != d.events.end()) number_record(d, *event->second, made.get());
    made->stream = stream;
    operation.work = Mark{made};
  } else {
    operation.work = std::move(step.work);
  }
  if (step.waits_for != nullptr) add_event_wait(d, stream, step.waits_for, &operation);
  const std::uint64_t ticket = d.scheduler.enqueue(stream, std::move(operation));
  if (made == nullptr) return ticket;
  made->ticket = ticket;
  const auto event = d.events.find(step.records);
  if (event != d.events.end()) event->second->record = std::move(made);
  return ticket;
}

/// Whether a launch may allocate and free what it wants to now. What is still allocated from an earlier
/// launch is freed first if the executable graph was made so; else the launch fails.
CUresult check_memory(const GraphExec& exec, const Plan& plan) {
  const bool free_first = (exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
  for (const auto& allocation : plan.allocated()) {
    if (allocation->live != nullptr && !free_first) return CUDA_ERROR_INVALID_VALUE;
  }
  for (const auto& allocation : plan.freed()) {
    if (allocation->live == nullptr && !contains(plan.allocated(), allocation))
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

/// What is allocated by the launch is used anew; what it frees is the use of now.
void begin_uses(Plan& plan) {
  for (const auto& allocation : plan.allocated()) allocation->use = std::make_shared<PieceUse>();
  for (Step& step : plan.steps()) {
    auto* change = std::get_if<PoolChange>(&step.work);
    if (change != nullptr) change->use = find_graph_allocation(change->base)->use;
  }
}

/// What is allocated after the launch, as later calls see it.
void set_memory(const Plan& plan, const Wait& end) {
  for (const auto& allocation : plan.allocated()) {
    allocation->last_use = end;
    if (!contains(plan.freed(), allocation)) allocation->live = allocation;
  }
  for (const auto& allocation : plan.freed()) {
    allocation->last_use = end;
    allocation->live.reset();
  }
}

/// A launch in a stream that captures becomes a child graph.
ChildWork child_of(const GraphExec& exec) {
  ChildWork child;
  child.graph = exec.graph->clone();
  return child;
}

Operation after_last(const GraphExec& exec) {
  Operation operation;
  if (exec.last.stream != nullptr) operation.waits.push_back(exec.last);
  return operation;
}

}  // namespace

CUresult launch_graph(Driver& d, const std::shared_ptr<GraphExec>& exec,
                      const std::shared_ptr<Stream>& stream) {
  if (anything_captures()) {
    const bool can = stream->capture != nullptr && !exec->graph->has_memory_nodes();
    if (can) return capture_node(*stream, child_of(*exec));
    const CUresult allowed = refuse_in_capture(*stream);
    if (allowed != CUDA_SUCCESS) return allowed;
  }
  Plan plan(d, *stream->context);
  std::vector<std::size_t> last;
  CUresult result = plan.add(*exec->graph, {}, &last);
  if (result == CUDA_SUCCESS) result = check_memory(*exec, plan);
  if (result != CUDA_SUCCESS) return result;
  Wait begin{stream, d.scheduler.enqueue(stream, after_last(*exec))};
  for (const auto& allocation : plan.allocated()) {
    // The launch before may use it until now.
    if (free_graph_allocation(d, allocation, stream) == CUDA_SUCCESS) begin = *allocation->last_use;
  }
  begin_uses(plan);
  Lanes lanes(d, *exec, *stream);
  std::vector<Place> places;
  for (Step& step : plan.steps()) {
    Place place = lanes.choose(step, places);
    Operation operation;
    if (step.after.empty()) operation.waits.push_back(begin);
    for (const std::size_t before : step.after) {
      if (places[before].lane != place.lane) operation.waits.push_back(places[before].done);
    }
    // Queueing can run host functions, without the lock: the exec's own lists may change meanwhile.
    place.done.ticket = queue(d, place.done.stream, std::move(step), std::move(operation));
    lanes.set_last(place);
    places.push_back(std::move(place));
  }
  Operation end;
  for (const std::size_t step : last) end.waits.push_back(places[step].done);
  exec->last = Wait{stream, d.scheduler.enqueue(stream, std::move(end))};
  set_memory(plan, exec->last);
  return CUDA_SUCCESS;
}

CUresult upload_graph(Driver& d, const std::shared_ptr<GraphExec>& exec,
                      const std::shared_ptr<Stream>& stream) {
  const CUresult allowed = refuse_in_capture(*stream);
  if (allowed != CUDA_SUCCESS) return allowed;
  exec->last = Wait{stream, d.scheduler.enqueue(stream, after_last(*exec))};
  return CUDA_SUCCESS;
}

}  // namespace simgpu
