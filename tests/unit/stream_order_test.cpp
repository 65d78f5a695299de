// Memory that is allocated and freed in the order of streams: reused at once where the stream's order allows
// it, elsewhere only when the free has passed.

#include <random>

#include "tests/unit/runtime_fixture.h"

namespace tidepool::runtime {
namespace {

constexpr std::uint64_t kSeeds = 40;

std::uint64_t waits(Program& program) {
  return program.device().calls("synchronize");
}

}  // namespace

TEST_CASE("stream order: what a stream freed it is given again at once, and nothing waits") {
  for (const Bytes size : {MiB(4), Bytes(4096)}) {
    Program program({});
    const DevicePtr first = program.allocate_in(size, 0);
    REQUIRE(program.touch({first}, 0).ok());
    program.free_in(first, 0);
    const DevicePtr second = program.allocate_in(size, 0);
    CHECK(second == first);
    REQUIRE(program.touch({second}, 0).ok());
    REQUIRE(program.touch({second}, 0).ok());
    CHECK(waits(program) == 0);
    program.device().run_all();
    program.check();
    REQUIRE(program.free(second).ok());
  }
}

TEST_CASE("stream order: another stream is given the memory only when the free has passed") {
  for (const Bytes size : {MiB(4), Bytes(4096)}) {
    Program program({});
    const DevicePtr first = program.allocate_in(size, 0);
    REQUIRE(program.touch({first}, 0).ok());
    program.free_in(first, 0);
    const DevicePtr second = program.allocate_in(size, 1);
    CHECK(second != first);
    program.free_in(second, 1);
    program.device().run_all();
    if (size == MiB(4)) {  // small ones keep to slabs of their stream
      const DevicePtr third = program.allocate_in(size, 2);
      CHECK((third == first || third == second));
    }
    CHECK(waits(program) == 0);
    program.check();
  }
}

TEST_CASE("stream order: memory for use at once is none that a stream may still use") {
  for (const Bytes size : {MiB(4), Bytes(4096)}) {
    Program program({});
    const DevicePtr first = program.allocate_in(size, 0);
    REQUIRE(program.touch({first}, 0).ok());
    program.free_in(first, 0);
    CHECK(program.allocate(size) != first);
  }
}

TEST_CASE("stream order: what another stream freed its own stream waits for too") {
  for (const Bytes size : {MiB(4), Bytes(4096)}) {
    Program program({});
    const DevicePtr first = program.allocate_in(size, 0);
    program.order(1, 0);
    REQUIRE(program.touch({first}, 1).ok());
    program.free_in(first, 1);
    const DevicePtr second = program.allocate_in(size, 0);
    CHECK(second != first);
    program.device().run_all();
    if (size == MiB(4)) CHECK(program.allocate_in(size, 0) == first);
    program.check();
  }
}

TEST_CASE("stream order: where memory is short a stream waits on the device for what another freed") {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    INFO("seed " << seed);
    Program::Config config;
    config.seed = seed;
    Program program(config);
    const DevicePtr first = program.allocate_in(MiB(16), 0);
    REQUIRE(program.touch({first}, 0).ok());
    program.free_in(first, 0);
    const DevicePtr second = program.allocate_in(MiB(16), 1);
    CHECK(second == first);
    REQUIRE(program.touch({second}, 1).ok());
    REQUIRE(program.touch({second}, 1).ok());
    CHECK(waits(program) == 0);
    CHECK(program.device().copied_to_host() == Bytes());
    program.device().run_all();
    program.check();
  }
}

TEST_CASE(
    "stream order: a block that was given again and never touched leaves after its memory's last user") {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const std::uint64_t failing = seed % 8;  // the first of two questions in a row that fail; zero: none
    INFO("seed " << seed << ", question " << failing);
    Program::Config config;
    config.seed = seed;
    Program program(config);
    const DevicePtr first = program.allocate_in(MiB(8), 0);
    // Many kernels: each question about the stream may let one of them run.
    for (int i = 0; i < 50; ++i) REQUIRE(program.touch({first}, 0).ok());
    program.free_in(first, 0);
    const DevicePtr again = program.allocate_in(MiB(8), 0);
    CHECK(again == first);
    if (failing != 0)
      program.device().faults().add({.function = "query", .after = failing - 1, .count = 2, .code = 999});
    // Needs the memory of the block above, on which those kernels still run.
    const DevicePtr large = program.allocate_in(MiB(16), 1);
    REQUIRE(program.touch({large}, 1).ok());
    program.device().run_all();
    CHECK(program.device().copied_to_host() == Bytes());
    program.check();
  }
}

TEST_CASE("stream order: a stream frees after a copy in that it did not use") {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    INFO("seed " << seed);
    Program::Config config;
    config.seed = seed;
    Program program(config);
    const DevicePtr a = program.allocate_in(MiB(8), 0);
    const DevicePtr b = program.allocate_in(MiB(16), 0);
    REQUIRE(program.touch({a}, 0).ok());
    REQUIRE(program.touch({a}, 0).ok());
    REQUIRE(program.touch({b}, 0).ok());
    // Brought in for a launch that the driver then refuses: nobody is ordered after the copy.
    const BlockId set[] = {program.runtime().find(a.address())};
    CHECK(program.runtime().launch(set, program.stream(1), "refused kernel", [] { return 1; }) == 1);
    program.free_in(a, 0);
    const DevicePtr again = program.allocate_in(MiB(8), 0);
    CHECK(again == a);
    REQUIRE(program.touch({again}, 0).ok());
    REQUIRE(program.touch({again}, 0).ok());
    program.device().run_all();
    program.check();
  }
}

TEST_CASE("stream order: small allocations that come and go in a stream use the same memory again") {
  Program program({.budget = "128MiB"});
  Bytes after_two;
  for (int round = 0; round < 12; ++round) {
    std::vector<DevicePtr> small;
    for (int i = 0; i < 6; ++i) small.push_back(program.allocate_in(MiB(1), 0));
    REQUIRE(program.touch(small, 0).ok());
    for (const DevicePtr at : small) program.free_in(at, 0);
    if (round == 1) after_two = program.device().in_use();
  }
  CHECK(program.device().in_use() == after_two);
}

TEST_CASE(
    "stream order: a place in memory that a stream freed as a block is others' when the free has passed") {
  // The slab begins on memory that the stream still works on: nobody else may be given any of it yet.
  Program program({.budget = "16MiB"});
  const DevicePtr block = program.allocate_in(MiB(2), 0);
  REQUIRE(program.touch({block}, 0).ok());
  program.free_in(block, 0);
  const DevicePtr small = program.allocate_in(MiB(1), 0);
  CHECK(small == block);
  // All that may stay is taken, so that the other stream has to look into this one's slab.
  std::vector<DevicePtr> others;
  while (true) {
    const auto at = program.runtime().allocate_in(MiB(1), program.stream(1));
    if (!at.ok()) break;
    CHECK(at->address() / MiB(2).count() != block.address() / MiB(2).count());
    others.push_back(*at);
  }
  CHECK_FALSE(others.empty());
}

TEST_CASE("stream order: a pointer is freed once") {
  for (const Bytes size : {MiB(4), Bytes(4096)}) {
    Program program({});
    const DevicePtr at = program.allocate_in(size, 0);
    CHECK(program.runtime().free_in(at + Bytes(512), program.stream(0)) == kInvalidValue);
    program.free_in(at, 0);
    CHECK(program.runtime().free_in(at, program.stream(0)) == kInvalidValue);
    CHECK(program.runtime().free_in(at, program.stream(1)) == kInvalidValue);
    CHECK(program.runtime().free(at) == kInvalidValue);
    CHECK(program.runtime().describe(at).size == Bytes());
  }
}

TEST_CASE("stream order: allocation and free in the legacy stream stand between blocking streams") {
  blocking_streams_exist.store(true);
  for (const bool frees : {true, false}) {
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      INFO("seed " << seed << (frees ? ", free" : ", allocation"));
      Program::Config config;
      config.seed = seed;
      config.streams = 2;
      config.blocking = true;
      Program program(config);
      const DevicePtr shared = program.allocate(MiB(4));
      const auto other = program.runtime().allocate_in(MiB(2), kLegacyStream);
      REQUIRE(other.ok());
      program.device().run_all();
      REQUIRE(program.touch({shared}, 0).ok());
      if (frees) {
        REQUIRE(program.runtime().free_in(*other, kLegacyStream).ok());
      } else {
        REQUIRE(program.runtime().allocate_in(MiB(2), kLegacyStream).ok());
      }
      REQUIRE(program.touch({shared}, 1).ok());
      program.device().run_all();
      program.check();
    }
  }
  blocking_streams_exist.store(false);
}

TEST_CASE("stream order: a stream that ended leaves its memory to others") {
  Program program({});
  const StreamHandle gone = program.device().create_program_stream(false);
  const auto at = program.runtime().allocate_in(MiB(4), gone);
  REQUIRE(at.ok());
  REQUIRE(program.runtime().free_in(*at, gone).ok());
  program.runtime().stream_destroyed(gone);
  program.device().run_all();
  CHECK(program.allocate_in(MiB(4), 0) == *at);
}

// HAMi-core#96, #217, #306: amounts of pools that drifted.
TEST_CASE("stream order: random programs keep their bytes") {
  for (std::uint64_t seed = 1; seed <= kSeeds * 3; ++seed) {
    INFO("seed " << seed);
    Program::Config config;
    config.seed = seed;
    Program program(config);
    std::mt19937_64 random(seed);
    struct Live {
      DevicePtr at;
      std::size_t stream;  // where it is used now
    };
    std::vector<Live> live;
    for (int step = 0; step < 150; ++step) {
      const std::size_t stream = random() % 3;
      const auto action = live.size() < 2 ? 0 : random() % 8;
      if (action < 2) {
        const Bytes size = random() % 3 == 0 ? Bytes(512 << random() % 8) : MiB(2) * (1 + random() % 3);
        live.push_back({program.allocate_in(size, stream), stream});
      } else if (action < 6) {
        Live& one = live[random() % live.size()];
        if (one.stream != stream) program.order(stream, one.stream);
        one.stream = stream;
        REQUIRE(program.touch({one.at}, stream).ok());
      } else {
        const std::size_t i = random() % live.size();
        if (action == 7 && random() % 4 == 0) {
          REQUIRE(program.free(live[i].at).ok());
        } else {
          if (live[i].stream != stream) program.order(stream, live[i].stream);
          program.free_in(live[i].at, stream);
        }
        live[i] = live.back();
        live.pop_back();
      }
      if (random() % 4 == 0) program.device().run_some(random() % 6);
    }
    program.device().run_all();
    program.check();
  }
}

// While a stream of the process is captured, nobody may wait for the whole device.
TEST_CASE("stream order: a free during a capture waits for work that names no block") {
  Program program({.budget = "64MiB", .streams = 2});
  fakes::FakeDevice& device = program.device();
  const DevicePtr block = program.allocate(MiB(4));
  REQUIRE(program.touch({block}, 0).ok());
  program.synchronize();
  REQUIRE(program.runtime().keep(block, "graph").ok());  // as for what a graph names
  const StreamHandle stream = program.stream(1);
  bool has_run = false;
  REQUIRE(device.submit(stream, "graph", [&](auto&) { has_run = true; }).ok());
  program.runtime().note_work(stream);
  device.faults().add({.function = "synchronize", .count = 1000, .code = 900});
  REQUIRE(program.free(block).ok());
  CHECK(has_run);
  device.faults().clear();
}

TEST_CASE("stream order: a free during a capture waits for launches, also once nothing moves any more") {
  Program program({.budget = "64MiB", .streams = 2});
  fakes::FakeDevice& device = program.device();
  const DevicePtr block = program.allocate(MiB(4));
  REQUIRE(program.touch({block}, 0).ok());
  REQUIRE(program.runtime().freeze("test").ok());
  program.synchronize();
  bool has_run = false;
  const std::vector<BlockId> set{program.runtime().find(block.address())};
  const StreamHandle stream = program.stream(1);
  REQUIRE(program.runtime().launch(set, stream, "kernel", [&] {
    return device.submit(stream, "kernel", [&](auto&) { has_run = true; }).code();
  }) == 0);
  device.faults().add({.function = "synchronize", .count = 1000, .code = 900});
  REQUIRE(program.free(block).ok());
  CHECK(has_run);
  device.faults().clear();
}

}  // namespace tidepool::runtime
