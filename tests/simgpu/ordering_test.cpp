#include <algorithm>
#include <bitset>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "tools/simgpu/ordering/access_history.h"
#include "tools/simgpu/ordering/order.h"

/// Which operations are ordered: random programs against a graph of everything that the documentation says
/// orders work (pages "Stream synchronization behavior" and "API synchronization behavior"), closed
/// transitively.
namespace {

using simgpu::ordering::AccessHistory;
using simgpu::ordering::After;
using simgpu::ordering::Lane;
using simgpu::ordering::LaneKind;
using simgpu::ordering::Order;
using simgpu::ordering::Race;
using simgpu::ordering::Touch;

constexpr std::size_t kMaxNodes = 1024;
constexpr std::uint64_t kMemory = 48;  ///< bytes, small so that programs collide
const std::string kName = "kernel";

/// The oracle: every call and every operation is a node, edges go from older to newer ones.
class Graph {
 public:
  struct Node {
    std::bitset<kMaxNodes> before;
    int stream = -1;  ///< -1: the host
    std::vector<Touch> touches;
  };

  int add(int stream, const std::vector<int>& after) {
    Node node;
    node.stream = stream;
    for (const int a : after) {
      if (a < 0) continue;
      node.before |= nodes_[static_cast<std::size_t>(a)].before;
      node.before.set(static_cast<std::size_t>(a));
    }
    nodes_.push_back(node);
    return static_cast<int>(nodes_.size()) - 1;
  }
  Node& operator[](int n) { return nodes_[static_cast<std::size_t>(n)]; }
  [[nodiscard]] bool precedes(int a, int b) const {
    return a == b || nodes_[static_cast<std::size_t>(b)].before.test(static_cast<std::size_t>(a));
  }
  [[nodiscard]] int size() const { return static_cast<int>(nodes_.size()); }
  [[nodiscard]] bool full() const { return nodes_.size() + 8 > kMaxNodes; }

 private:
  std::vector<Node> nodes_;
};

struct StreamPair {
  std::shared_ptr<Lane> lane;
  int context = 0;
  LaneKind kind = LaneKind::kBlocking;
  int last = -1;               ///< node of the latest operation
  std::vector<int> of_ticket;  ///< node by number
};

struct EventPair {
  After record;
  int node = -1;
};

/// A program that is told to both at once.
class Program {
 public:
  explicit Program(unsigned seed) : random_(seed), history_(order_) {
    host_ = graph_.add(-1, {});
    for (int context = 1; context <= 2; ++context) add_stream(context, LaneKind::kLegacy);
    for (int i = 0; i < 2; ++i) {
      add_stream(1, LaneKind::kBlocking);
      add_stream(1 + i, LaneKind::kNonBlocking);
      add_stream(2, LaneKind::kBlocking);
    }
    events_.resize(4);
  }

  void run() {
    while (!graph_.full()) step();
  }

  [[nodiscard]] int races() const { return races_; }
  [[nodiscard]] int ordered() const { return ordered_; }

 private:
  void add_stream(int context, LaneKind kind) {
    StreamPair s;
    s.lane = order_.new_lane(++ids_, static_cast<std::uint64_t>(context), kind);
    s.context = context;
    s.kind = kind;
    streams_.push_back(s);
  }

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  StreamPair& some_stream() {
    return streams_[static_cast<std::size_t>(below(static_cast<int>(streams_.size())))];
  }
  EventPair& some_event() {
    return events_[static_cast<std::size_t>(below(static_cast<int>(events_.size())))];
  }

  int enqueue(StreamPair& s, const EventPair* event) {
    std::vector<After> after;
    std::vector<int> edges{host_, s.last};
    if (event != nullptr) {
      after.push_back(event->record);
      edges.push_back(event->node);
    }
    for (const StreamPair& other : streams_) {
      if (other.context != s.context || &other == &s) continue;
      const bool legacy_rule = (s.kind == LaneKind::kLegacy && other.kind == LaneKind::kBlocking) ||
                               (s.kind == LaneKind::kBlocking && other.kind == LaneKind::kLegacy);
      if (legacy_rule) edges.push_back(other.last);
    }
    order_.enqueue(*s.lane, after);
    s.last = graph_.add(static_cast<int>(&s - streams_.data()), edges);
    s.of_ticket.push_back(s.last);
    return s.last;
  }

  void host_knows(const std::vector<int>& nodes) {
    std::vector<int> edges{host_};
    edges.insert(edges.end(), nodes.begin(), nodes.end());
    host_ = graph_.add(-1, edges);
  }

  void step() {
    const int what = below(100);
    if (what < 60) return kernel();
    if (what < 74) {
      EventPair& event = some_event();
      StreamPair& s = some_stream();
      if (below(4) == 0 && !s.of_ticket.empty()) {
        // What graphs do: they wait for operations that are not the latest of their stream.
        const auto back = static_cast<std::size_t>(below(std::min(5, static_cast<int>(s.of_ticket.size()))));
        event.record = {s.lane, s.lane->enqueued() - back};
        event.node = s.of_ticket[event.record.ticket - 1];
        return;
      }
      event.node = enqueue(s, nullptr);
      event.record = {s.lane, s.lane->enqueued()};
    } else if (what < 90) {
      const EventPair& event = some_event();
      if (event.node >= 0) enqueue(some_stream(), &event);
    } else if (what < 94) {
      const EventPair& event = some_event();
      if (event.node < 0) return;
      order_.host_waited(*event.record.lane, event.record.ticket);
      host_knows({event.node});
    } else if (what < 97) {
      StreamPair& s = some_stream();
      order_.host_waited(*s.lane, s.lane->enqueued());
      host_knows({s.last});
    } else if (what < 98) {
      const int context = below(3);
      std::vector<int> nodes;
      for (const StreamPair& s : streams_) {
        if (context == 0 || s.context == context) nodes.push_back(s.last);
      }
      order_.host_waited_all(static_cast<std::uint64_t>(context));
      host_knows(nodes);
    } else {
      take_away();
    }
    check_order();
  }

  std::vector<Touch> some_touches() {
    std::vector<Touch> touches(static_cast<std::size_t>(1 + below(3)));
    for (Touch& t : touches) {
      t.bytes = static_cast<std::uint64_t>(1 + below(9));
      t.place = static_cast<std::uint64_t>(below(static_cast<int>(kMemory - t.bytes)));
      t.address = t.place + (below(3) == 0 ? 5000 : 1000);
      t.write = below(3) == 0;
      t.inferred = below(5) == 0;
    }
    return touches;
  }

  static bool covers(const Touch& t, std::uint64_t byte) {
    return t.place <= byte && byte < t.place + t.bytes;
  }
  static bool stands_for(const Touch& strong, const Touch& weak) {
    return (strong.write || !weak.write) && (!strong.inferred || weak.inferred) &&
           strong.address - strong.place == weak.address - weak.place;
  }

  /// True if a later operation that came after `a` answers for what it did to this byte.
  bool answered_for(int a, const Touch& what, std::uint64_t byte, int until) {
    for (const Touch& t : graph_[a].touches) {
      if (covers(t, byte) && stands_for(t, what) && !stands_for(what, t)) return true;
    }
    for (int n = a + 1; n < until; ++n) {
      if (!graph_.precedes(a, n)) continue;
      for (const Touch& t : graph_[n].touches) {
        if (covers(t, byte) && stands_for(t, what)) return true;
      }
    }
    return false;
  }

  /// first node, its way, second way
  using Pair = std::tuple<int, bool, bool>;
  struct Extent {
    bool certain = false;
    std::set<std::uint64_t> bytes;
  };

  std::map<Pair, Extent> expected(int node) {
    std::map<Pair, Extent> all;
    for (const Touch& mine : graph_[node].touches) {
      for (std::uint64_t byte = mine.place; byte < mine.place + mine.bytes; ++byte) {
        for (int a = 0; a < node; ++a) {
          if (graph_.precedes(a, node)) continue;
          for (const Touch& theirs : graph_[a].touches) {
            if (!covers(theirs, byte) || (!mine.write && !theirs.write)) continue;
            if (answered_for(a, theirs, byte, node)) continue;
            Extent& extent = all[{a, theirs.write, mine.write}];
            extent.bytes.insert(byte);
            extent.certain = extent.certain || (!mine.inferred && !theirs.inferred);
          }
        }
      }
    }
    return all;
  }

  int node_of(const simgpu::ordering::Access& access) const {
    for (const StreamPair& s : streams_) {
      if (s.lane == access.lane) return s.of_ticket.at(access.ticket - 1);
    }
    return -1;
  }

  void kernel() {
    StreamPair& s = some_stream();
    const int node = enqueue(s, nullptr);
    graph_[node].touches = some_touches();
    const std::vector<Race> found = history_.record(s.lane, &kName, graph_[node].touches);
    const auto wanted = expected(node);
    REQUIRE(found.size() == wanted.size());
    for (const Race& race : found) {
      const auto it = wanted.find({node_of(race.first), race.first.write, race.second.write});
      REQUIRE(it != wanted.end());
      CHECK(race.possible() != it->second.certain);
      CHECK(it->second.bytes.count(race.place) == 1);
    }
    races_ += static_cast<int>(found.size());
  }

  void take_away() {
    const std::uint64_t place = static_cast<std::uint64_t>(below(static_cast<int>(kMemory) - 8));
    std::set<Pair> wanted;
    for (int a = 0; a < graph_.size(); ++a) {
      if (graph_.precedes(a, host_)) continue;
      for (const Touch& t : graph_[a].touches) {
        for (std::uint64_t byte = place; byte < place + 8; ++byte) {
          if (covers(t, byte) && t.address == t.place + 1000 && !answered_for(a, t, byte, graph_.size()))
            wanted.insert({a, t.write, true});
        }
      }
    }
    std::set<Pair> found;
    for (const Race& race : history_.take_away(place, 8, place + 1000)) {
      CHECK(race.second.lane == nullptr);
      found.insert({node_of(race.first), race.first.write, true});
    }
    CHECK(found == wanted);
  }

  /// Every pair: each operation so far against the latest of each stream, and against the host.
  void check_order() {
    int wrong = 0;
    for (const StreamPair& later : streams_) {
      for (const StreamPair& earlier : streams_) {
        for (std::size_t i = 0; i < earlier.of_ticket.size(); ++i) {
          const int a = earlier.of_ticket[i];
          if (order_.known_to_host(*earlier.lane, i + 1) != graph_.precedes(a, host_)) ++wrong;
          // Asked of an operation, a stream answers for the moment of its latest call.
          if (later.last < 0 || a > later.last) continue;
          ++ordered_;
          const bool really = graph_.precedes(a, later.last) || graph_.precedes(a, host_);
          if (order_.precedes(*earlier.lane, i + 1, *later.lane) != really) ++wrong;
        }
      }
    }
    REQUIRE(wrong == 0);
  }

  std::mt19937 random_;
  Order order_;
  AccessHistory history_;
  Graph graph_;
  std::vector<StreamPair> streams_;
  std::vector<EventPair> events_;
  std::uint64_t ids_ = 0;
  int host_ = -1;
  int races_ = 0;
  int ordered_ = 0;
};

struct Fixture {
  Order order;
  AccessHistory history{order};
  std::shared_ptr<Lane> one = order.new_lane(1, 1, LaneKind::kNonBlocking);
  std::shared_ptr<Lane> two = order.new_lane(2, 1, LaneKind::kNonBlocking);

  std::vector<Race> run(const std::shared_ptr<Lane>& lane, bool write, std::uint64_t place = 0,
                        std::uint64_t bytes = 64) {
    order.enqueue(*lane, {});
    const Touch touch{place, bytes, place, write, false};
    return history.record(lane, &kName, {&touch, 1});
  }
};

}  // namespace

TEST_CASE("ordering: random programs agree with a transitive closure on every pair") {
  int races = 0;
  int compared = 0;
#ifdef __SANITIZE_ADDRESS__
  constexpr unsigned kPrograms = 8;
#else
  constexpr unsigned kPrograms = 40;
#endif
  for (unsigned seed = 1; seed <= kPrograms; ++seed) {
    INFO("seed " << seed);
    Program program(seed);
    program.run();
    races += program.races();
    compared += program.ordered();
  }
  CHECK(races > static_cast<int>(25 * kPrograms));
  CHECK(compared > static_cast<int>(2500 * kPrograms));
}

TEST_CASE("ordering: each kind of missing order is found, and reading twice is none") {
  for (const bool first : {false, true}) {
    for (const bool second : {false, true}) {
      Fixture f;
      CHECK(f.run(f.one, first).empty());
      const std::vector<Race> races = f.run(f.two, second);
      CHECK(races.size() == (first || second ? 1 : 0));
      if (races.empty()) continue;
      CHECK(races[0].first.lane == f.one);
      CHECK(races[0].second.lane == f.two);
      CHECK(races[0].bytes == 64);
    }
  }
}

TEST_CASE("ordering: what waits for a value in memory is not judged, and a host wait ends that") {
  Fixture f;
  f.run(f.one, true);
  Order::loosen(*f.two);
  CHECK(f.run(f.two, true).empty());
  // What depends on it is not judged either.
  const auto third = f.order.new_lane(3, 1, LaneKind::kNonBlocking);
  const After after[] = {{f.two, f.two->enqueued()}};
  f.order.enqueue(*third, after);
  CHECK(f.run(third, true).empty());
  Order::completed(*f.one, 1);
  f.order.host_waited(*third, third->enqueued());
  CHECK(f.order.known_to_host(*f.one, 1));
  CHECK(f.run(f.one, true).empty());
  CHECK(f.run(third, true).size() == 1);
}

TEST_CASE("ordering: a million operations leave no more behind than the memory has pieces") {
  Fixture f;
  for (int i = 0; i < 1'000'000; ++i) {
    f.run(f.one, i % 3 == 0, static_cast<std::uint64_t>(i % 50) * 100);
    if (i % 1000 == 999) f.order.host_waited(*f.one, f.one->enqueued());
  }
  CHECK(f.history.cells() <= 100);
  // Streams that come and go, and memory that never comes back.
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    const auto lane = f.order.new_lane(10 + i, 1, LaneKind::kBlocking);
    CHECK(f.run(lane, true, 1'000'000 + i * 100).empty());
    f.order.host_waited(*lane, 1);
  }
  CHECK(f.history.cells() < 5000);
  CHECK(f.order.lanes() < 5000);
}
