// Launching graphs: order, copies, lifetime. Documentation: CUDA Driver API, page "Graph Management".

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>

#include "tests/simgpu/graph_tools.h"

namespace {

using namespace simgpu_test;

constexpr std::uint64_t kSeeds = 60;

/// A random graph of kernels, memsets and copies on a few ints, in which nodes that touch the same int are
/// ordered in the order of their creation; and what that work does when it runs in this order.
class RandomWork {
 public:
  RandomWork(unsigned seed, std::size_t nodes)
      : random_(seed), step_(step_kernel()), memory_(new_ints(kInts)) {
    for (std::size_t n = 0; n < nodes; ++n) add();
  }

  [[nodiscard]] CUgraph graph() const { return graph_; }
  /// Does the work once more on what is expected.
  void expect_a_run() {
    for (const Piece& piece : pieces_) {
      unsigned& target = expected_[piece.target];
      if (piece.kind == Kind::kStep) target = target * 3 + static_cast<unsigned>(piece.value);
      if (piece.kind == Kind::kSet) target = static_cast<unsigned>(piece.value);
      if (piece.kind == Kind::kCopy) target = expected_[piece.source];
    }
  }
  [[nodiscard]] bool as_expected() const {
    for (std::size_t i = 0; i < kInts; ++i) {
      if (static_cast<unsigned>(int_at(at(i))) != expected_[i]) return false;
    }
    return true;
  }

 private:
  enum class Kind { kStep, kSet, kCopy };
  struct Piece {
    Kind kind;
    std::size_t target, source;
    int value;
  };
  static constexpr std::size_t kInts = 6;

  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(random_() % limit); }
  [[nodiscard]] CUdeviceptr at(std::size_t index) const { return memory_ + index * sizeof(int); }
  void depend(std::size_t index, std::vector<CUgraphNode>* after) const {
    for (const CUgraphNode node : touched_[index]) {
      if (std::find(after->begin(), after->end(), node) == after->end()) after->push_back(node);
    }
  }

  void add() {
    const Piece piece{static_cast<Kind>(below(3)), below(kInts), below(kInts), static_cast<int>(below(100))};
    std::vector<CUgraphNode> after;
    depend(piece.target, &after);
    CUgraphNode node = nullptr;
    if (piece.kind == Kind::kStep) {
      node = add_step(graph_, after, step_, at(piece.target), 3, piece.value);
    } else if (piece.kind == Kind::kSet) {
      const auto value = static_cast<unsigned>(piece.value);
      const CUDA_MEMSET_NODE_PARAMS params{at(piece.target), 0, value, 4, 1, 1};
      OK(cuGraphAddMemsetNode(&node, graph_, after.data(), after.size(), &params, context()));
    } else {
      if (piece.source != piece.target) depend(piece.source, &after);
      const CUDA_MEMCPY3D copy = linear_copy(at(piece.target), at(piece.source), sizeof(int));
      OK(cuGraphAddMemcpyNode(&node, graph_, after.data(), after.size(), &copy, context()));
      touched_[piece.source].push_back(node);
    }
    touched_[piece.target] = {node};
    pieces_.push_back(piece);
  }

  std::mt19937 random_;
  CUfunction step_;
  CUdeviceptr memory_;
  CUgraph graph_ = new_graph();
  std::vector<Piece> pieces_;
  std::vector<CUgraphNode> touched_[kInts];  ///< who changed this int last, and who read it since
  unsigned expected_[kInts] = {};
};

}  // namespace

TEST_CASE("graph: nodes run in the order of the edges, behind the stream and before what follows") {
  const int violations = count_over_seeds(kSeeds, [] {
    const CUgraph graph = new_graph();
    const CUgraphNode a = add_host(graph, {}, 1);
    const CUgraphNode b = add_host(graph, {a}, 2);
    const CUgraphNode c = add_host(graph, {a}, 3);
    add_host(graph, {b, c}, 4);
    add_host(graph, {}, 5);
    const CUstream stream = new_stream();
    const CUgraphExec exec = instantiate(graph);
    run(stream, 0);
    OK(cuGraphLaunch(exec, stream));
    run(stream, 6);
    OK(cuStreamSynchronize(stream));
    bool good = g_order.size() == 7 && g_order.front() == 0 && g_order.back() == 6;
    good = good && before(1, 2) && before(1, 3) && before(2, 4) && before(3, 4);
    return good ? 0 : 1;
  });
  REQUIRE(violations == 0);
}

TEST_CASE("graph: nothing but the edges orders nodes") {
  const auto swapped = [](int first, int second) {
    return count_over_seeds(kSeeds, [=] {
      const CUgraph graph = new_graph();
      const CUgraphNode a = add_host(graph, {}, 1);
      add_host(graph, {a}, 2);
      add_host(graph, {a}, 3);
      add_host(graph, {}, 4);
      OK(cuGraphLaunch(instantiate(graph), new_stream()));
      OK(cuCtxSynchronize());
      return before(first, second) ? 0 : 1;
    });
  };
  for (const auto& [first, second] : {std::pair{2, 3}, std::pair{1, 4}, std::pair{2, 4}}) {
    const int count = swapped(first, second);
    INFO(first << " and " << second);
    REQUIRE(count > 0);
    REQUIRE(count < static_cast<int>(kSeeds));
  }
}

TEST_CASE("graph: launches of one executable graph follow each other, those of two need not") {
  const auto swapped = [](bool same) {
    return count_over_seeds(kSeeds, [=] {
      static int launch = 0;
      const CUgraph graph = new_graph();
      CUgraphNode node = nullptr;
      const CUDA_HOST_NODE_PARAMS params{[](void*) { g_order.push_back(++launch); }, nullptr};
      OK(cuGraphAddHostNode(&node, graph, nullptr, 0, &params));
      add_host(graph, {node}, 100);
      const CUgraphExec first = instantiate(graph);
      const CUgraphExec second = same ? first : instantiate(graph);
      const CUstream a = new_stream();
      const CUstream b = new_stream();
      for (int i = 0; i < 3; ++i) {
        OK(cuGraphLaunch(first, a));
        OK(cuGraphLaunch(second, b));
      }
      OK(cuCtxSynchronize());
      EXPECT(g_order.size() == 12);
      for (std::size_t i = 1; i < g_order.size(); i += 2) {
        if (g_order[i] != 100) return 1;
      }
      return 0;
    });
  };
  REQUIRE(swapped(true) == 0);
  REQUIRE(swapped(false) > 0);
}

TEST_CASE("graph: the legacy stream and blocking streams see a graph as work of its stream") {
  const int violations = count_over_seeds(kSeeds, [] {
    const CUgraph graph = new_graph();
    add_host(graph, {}, 2);
    add_host(graph, {}, 3);
    const CUgraphExec exec = instantiate(graph);
    const CUstream blocking = new_stream(CU_STREAM_DEFAULT);
    run(nullptr, 1);
    OK(cuGraphLaunch(exec, blocking));
    run(nullptr, 4);
    OK(cuGraphLaunch(exec, nullptr));
    run(blocking, 5);
    OK(cuCtxSynchronize());
    const std::vector<int> sorted = {1, 2, 3, 4, 2, 3, 5};
    std::vector<int> got = g_order;
    if (got.size() != 7) return 1;
    if (got[1] > got[2]) std::swap(got[1], got[2]);
    if (got[4] > got[5]) std::swap(got[4], got[5]);
    return got == sorted ? 0 : 1;
  });
  REQUIRE(violations == 0);
}

TEST_CASE("graph: random work gives what the same work gives in order") {
  const int wrong = count_over_seeds(kSeeds, [] {
    for (unsigned seed = 1; seed <= 3; ++seed) {
      RandomWork work(seed, 40);
      const CUgraphExec exec = instantiate(work.graph());
      for (unsigned launches = 0; launches < seed; ++launches) {
        OK(cuGraphLaunch(exec, new_stream()));
        work.expect_a_run();
      }
      if (!work.as_expected()) return 1;
    }
    return 0;
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("graph: graph, executable graph and stream can go while the launch is queued") {
  const int wrong = count_over_seeds(kSeeds, [] {
    const CUfunction step = step_kernel();
    const CUdeviceptr out = new_ints(1);
    const CUgraph graph = new_graph();
    const CUgraphNode a = add_step(graph, {}, step, out, 1, 1);
    add_step(graph, {a}, step, out, 10, 2);
    const CUgraphExec exec = instantiate(graph);
    const CUstream stream = new_stream();
    OK(cuGraphLaunch(exec, stream));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuStreamDestroy(stream));
    return int_at(out) == 12 ? 0 : 1;
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("graph: an event record node records at every launch, and streams and graphs wait for it") {
  const int violations = count_over_seeds(kSeeds, [] {
    CUevent event = nullptr;
    OK(cuEventCreate(&event, 0));
    const CUgraph graph = new_graph();
    const CUgraphNode a = add_host(graph, {}, 1);
    CUgraphNode record = nullptr;
    OK(cuGraphAddEventRecordNode(&record, graph, &a, 1, event));
    add_host(graph, {record}, 2);
    const CUgraph waiting = new_graph();
    CUgraphNode wait = nullptr;
    OK(cuGraphAddEventWaitNode(&wait, waiting, nullptr, 0, event));
    add_host(waiting, {wait}, 3);
    OK(cuGraphLaunch(instantiate(graph), new_stream()));
    OK(cuGraphLaunch(instantiate(waiting), new_stream()));
    const CUstream stream = new_stream();
    OK(cuStreamWaitEvent(stream, event, 0));
    run(stream, 4);
    OK(cuEventSynchronize(event));
    EXPECT(!g_order.empty() && g_order.front() == 1);
    OK(cuEventQuery(event));
    OK(cuCtxSynchronize());
    EXPECT(g_order.size() == 4);
    return before(1, 3) && before(1, 4) && before(1, 2) ? 0 : 1;
  });
  REQUIRE(violations == 0);
}

TEST_CASE("graph: an empty graph and an upload are ordered like other work") {
  const int violations = count_over_seeds(kSeeds, [] {
    const CUgraphExec empty = instantiate(new_graph());
    const CUgraph graph = new_graph();
    add_host(graph, {}, 1);
    const CUgraphExec exec = instantiate(graph);
    const CUstream a = new_stream();
    const CUstream b = new_stream();
    OK(cuGraphLaunch(empty, a));
    OK(cuGraphLaunch(exec, a));
    OK(cuGraphUpload(exec, b));
    run(b, 2);
    OK(cuCtxSynchronize());
    EXPECT(g_order.size() == 2);
    return before(1, 2) ? 0 : 1;
  });
  REQUIRE(violations == 0);
}

TEST_CASE("graph: a node whose memory was freed fails when it runs, and names it") {
  on_device({}, [] {
    const CUdeviceptr memory = new_ints(1);
    const CUgraph graph = new_graph();
    CUgraphNode node = nullptr;
    const CUDA_MEMSET_NODE_PARAMS params{memory, 0, 1, 4, 1, 1};
    OK(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &params, context()));
    const CUgraphExec exec = instantiate(graph);
    OK(cuMemFree(memory));
    OK(cuGraphLaunch(exec, nullptr));
    EXPECT_RESULT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_RESULT(cuGraphLaunch(exec, nullptr), CUDA_ERROR_ILLEGAL_ADDRESS);
    return 0;
  });
}

TEST_CASE("graph: a launch whose kernel was unloaded does nothing at all") {
  on_device({}, [] {
    const CUdeviceptr out = new_ints(1);
    const CUfunction step = step_kernel();
    const CUgraph graph = new_graph();
    const CUgraphNode first = add_host(graph, {}, 1);
    add_step(graph, {first}, step, out, 0, 1);
    const CUgraphExec exec = instantiate(graph);
    CUmodule module = nullptr;
    OK(cuFuncGetModule(&module, step));
    OK(cuModuleUnload(module));
    EXPECT_RESULT(cuGraphLaunch(exec, nullptr), CUDA_ERROR_INVALID_HANDLE);
    OK(cuCtxSynchronize());
    EXPECT(g_order.empty());
    return 0;
  });
}

TEST_CASE("graph: a graph of more nodes than a queue has places runs, and many launches do not grow") {
  on_device({}, [] {
    const CUgraph graph = new_graph();
    CUgraphNode last = add_host(graph, {}, 0);
    for (int i = 1; i < 3000; ++i) {
      last = add_host(graph, {last}, i);
      add_empty(graph, {last});
    }
    OK(cuGraphLaunch(instantiate(graph), nullptr));
    OK(cuCtxSynchronize());
    EXPECT(g_order.size() == 3000 && std::is_sorted(g_order.begin(), g_order.end()));
    return 0;
  });
}

TEST_CASE("graph launch: a race names the stream of the launch that it is about, not of a later one") {
  DeviceSetup setup;
  std::string text;
  setup.afterwards = [&](const simgpu::Machine& m) { text = m.processes[0].report.races[0].text; };
  const int stream = on_device(setup, [] {
    const CUgraph graph = new_graph();
    const CUdeviceptr words = new_ints(2);
    CUDA_MEMSET_NODE_PARAMS params{};
    params.dst = words;
    params.elementSize = 4;
    params.width = params.height = 1;
    CUgraphNode node = nullptr;
    OK(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &params, context()));
    const CUgraphExec exec = instantiate(graph);
    const CUstream one = new_stream();
    OK(cuGraphLaunch(exec, one));
    params.dst = words + 4;
    OK(cuGraphExecMemsetNodeSetParams(exec, node, &params, context()));
    OK(cuGraphLaunch(exec, new_stream()));
    OK(cuMemsetD32Async(words, 1, 1, new_stream()));
    OK(cuCtxSynchronize());
    unsigned long long id = 0;
    OK(cuStreamGetId(one, &id));
    return static_cast<int>(id);
  });
  CAPTURE(text);
  CHECK(text.find(" of a graph in stream " + std::to_string(stream) + " ") != std::string::npos);
}
