// Tables of addresses: which words lie where in device memory, and what stays because of them.

#include "allocator/address_tables.h"

#include <algorithm>
#include <vector>

#include "allocator/support/stats_page.h"
#include "tests/unit/runtime_fixture.h"

namespace tidepool::runtime {
namespace {

constexpr std::uint64_t kA = 0x7000'0000'0000;
constexpr std::uint64_t kB = 0x7000'0040'0000;

bool is_named(const AddressTables& tables, std::uint64_t address) {
  return tables.names(address, address + 1);
}

/// A word in memory that is not managed, for runtimes, which have one table for the process.
class TableWord {
 public:
  explicit TableWord(std::uint64_t at) : at_(at) {}
  ~TableWord() { clear(); }
  TableWord(const TableWord&) = delete;
  TableWord& operator=(const TableWord&) = delete;
  void lead_to(DevicePtr to) {
    AddressTables::instance().put(std::vector{AddressTables::Word{at_, to.address()}});
  }
  void clear() { AddressTables::instance().erase(at_, 8); }

 private:
  std::uint64_t at_;
};

/// Memory for four blocks.
struct Job {
  Program program{Program::Config{}};
  TableWord word{64};

  Runtime& runtime() { return program.runtime(); }
  Status hold(DevicePtr at) {
    const BlockId id = runtime().find(at.address());
    return runtime().hold_named({&id, 1}, "test");
  }
  std::vector<DevicePtr> allocate(int count) {
    std::vector<DevicePtr> blocks;
    for (int i = 0; i < count; ++i) {
      blocks.push_back(program.allocate(MiB(4)));
      REQUIRE(program.touch({blocks.back()}, 0).ok());
    }
    return blocks;
  }
  void push_out_by(const std::vector<DevicePtr>& blocks) {
    for (int round = 0; round < 3; ++round) {
      for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
      program.device().run_all();
    }
  }
  bool is_out(DevicePtr at) {
    return runtime().arena().block(runtime().find(at.address())).load().state() == BlockState::kOut;
  }
};

std::uint64_t kept() {
  return StatsPage::instance().get(Metric::kept_bytes);
}

}  // namespace

TEST_CASE("tables: a name lives as long as one word or object has it") {
  AddressTables tables;
  CHECK(!tables.any());
  tables.put(std::vector<AddressTables::Word>{{kA, kB}, {kA + 8, kB}, {kA + 16, kB + 8}});
  CHECK(tables.any());
  tables.erase(kA, 8);
  CHECK(is_named(tables, kB));
  tables.name(kB);
  tables.erase(kA, 24);
  CHECK(is_named(tables, kB));
  CHECK(!is_named(tables, kB + 8));
  tables.unname(kB);
  CHECK(!tables.any());
  tables.unname(kB);  // of a context that has ended
  CHECK(!tables.any());
}

TEST_CASE("tables: a word that is put where one lies takes its place") {
  AddressTables tables;
  for (const std::uint64_t value : {kB, kB + 64, kB + 64})
    tables.put(std::vector<AddressTables::Word>{{kA, value}});
  CHECK(!is_named(tables, kB));
  tables.erase(kA, 8);
  CHECK(!tables.any());
}

TEST_CASE("tables: only words that are overwritten in whole are gone") {
  AddressTables tables;
  tables.put(std::vector<AddressTables::Word>{{kA, kB}, {kA + 8, kB + 8}, {kA + 16, kB + 16}});
  tables.erase(kA + 4, 16);
  CHECK(is_named(tables, kB));
  CHECK(!is_named(tables, kB + 8));
  CHECK(is_named(tables, kB + 16));
  tables.erase(kA, 7);
  tables.erase(kA + 17, 100);
  tables.erase(kA, 0);
  CHECK(is_named(tables, kB));
  CHECK(is_named(tables, kB + 16));
}

TEST_CASE("tables: a copy of a table names what it names") {
  AddressTables tables;
  tables.put(std::vector<AddressTables::Word>{{kA, kB}, {kA + 8, kB + 8}, {kA + 4096, kB + 64}});
  tables.copy(kA + 4096 - 8, kA, 16);
  tables.erase(kA, 16);
  CHECK(is_named(tables, kB));
  CHECK(is_named(tables, kB + 8));
  CHECK(!is_named(tables, kB + 64));
  CHECK(tables.lies_in(kA + 4096 - 8, 1));
  CHECK(!tables.lies_in(kA, 4096 - 8));
  // Not as words that a kernel could read.
  tables.copy(kA + 4, kA + 4096 - 8, 16);
  CHECK(!tables.lies_in(kA, 64));
  // Of a place where none lie, none.
  tables.copy(kA + 4096 - 8, kA + 100000, 16);
  CHECK(!tables.any());
}

TEST_CASE("tables: with the memory of a context what lies there and what leads there is gone") {
  AddressTables tables;
  tables.put(std::vector<AddressTables::Word>{{kA, 1 << 20}, {64, kA + 8}, {128, 2 << 20}});
  tables.name(kA + 16);
  tables.forget(kA, kB);
  CHECK(is_named(tables, 2 << 20));
  tables.erase(128, 8);
  CHECK(!tables.any());
}

TEST_CASE("tables: more words than there is room for are said, and none is lost that was there") {
  AddressTables tables;
  const std::uint64_t before = times_reported(Msg::TP2104);
  std::vector<AddressTables::Word> words;
  for (std::uint64_t i = 0; i <= AddressTables::kMostWords; ++i) words.push_back({kA + 8 * i, kB + 8 * i});
  const AddressTables::Word last = words.back();
  words.pop_back();
  tables.put(words);
  CHECK(!tables.is_full());
  tables.put(std::vector{last, AddressTables::Word{kA, kB + 1}});
  CHECK(tables.is_full());
  CHECK(times_reported(Msg::TP2104) == before + 1);
  CHECK(is_named(tables, kB + 1));
  CHECK(is_named(tables, last.value - 8));
  CHECK(!is_named(tables, last.value));
}

TEST_CASE("tables: memory that comes where a name leads stays") {
  const bool by_object = GENERATE(false, true);
  Job job;
  const DevicePtr at = job.allocate(1)[0];
  if (by_object) {
    AddressTables::instance().name(at.address());
  } else {
    job.word.lead_to(at);
  }
  REQUIRE(job.hold(at).ok());
  REQUIRE(job.program.free(at).ok());
  REQUIRE(job.program.allocate(MiB(4)) == at);
  CHECK(kept() == MiB(4).count());
  REQUIRE(job.program.touch({at}, 0).ok());
  job.push_out_by(job.allocate(7));
  CHECK(!job.is_out(at));
  // Without the name it comes as any other.
  if (by_object) {
    AddressTables::instance().unname(at.address());
  } else {
    job.word.clear();
  }
  REQUIRE(job.program.free(at).ok());
  const DevicePtr next = job.program.allocate(MiB(4));
  REQUIRE(job.program.touch({next}, 0).ok());
  job.push_out_by(job.allocate(7));
  CHECK(job.is_out(next));
  CHECK(job.runtime().check() == nullptr);
}

TEST_CASE("tables: a name beside the memory leads to it, one farther away does not") {
  Job job;
  const DevicePtr at = job.allocate(1)[0];
  const auto offset = GENERATE(std::int64_t{-8}, (std::int64_t{4} << 20) + 8, -(std::int64_t{3} << 19));
  job.word.lead_to(DevicePtr(at.address() + static_cast<std::uint64_t>(offset)));
  REQUIRE(job.program.free(at).ok());
  REQUIRE(job.program.allocate(MiB(4)) == at);
  CHECK((kept() != 0) == (offset > -(std::int64_t{1} << 20)));
}

TEST_CASE("tables: where what a name leads to could not stay, memory comes somewhere else") {
  Job job;
  std::vector<DevicePtr> blocks = job.allocate(4);
  job.word.lead_to(blocks[0]);
  REQUIRE(job.program.free(blocks[0]).ok());
  for (const DevicePtr kept : {blocks[1], blocks[2], blocks[3]})
    REQUIRE(job.runtime().keep(kept, "test").ok());
  const DevicePtr at = job.program.allocate(MiB(4));
  CHECK(at != blocks[0]);
  REQUIRE(job.program.touch({at}, 0).ok());
  REQUIRE(job.program.touch({blocks[3]}, 0).ok());
  job.program.check();
  // The address serves again once nothing names it.
  job.word.clear();
  CHECK(job.program.allocate(MiB(4)) == blocks[0]);
}

TEST_CASE("tables: what nothing names any more moves rather than that memory is refused") {
  Job job;
  const std::uint64_t before = times_reported(Msg::TP2105);
  const std::uint64_t refused = StatsPage::instance().get(Metric::out_of_memory_total);
  const std::vector<DevicePtr> blocks = job.allocate(8);
  for (const DevicePtr at : blocks) {
    job.word.lead_to(at);
    REQUIRE(job.hold(at).ok());
  }
  CHECK(times_reported(Msg::TP2105) == before + 1);
  CHECK(StatsPage::instance().get(Metric::out_of_memory_total) == refused);
  // The last one is named still.
  job.push_out_by({blocks.begin(), blocks.end() - 1});
  CHECK(!job.is_out(blocks.back()));
  job.program.check();
}

TEST_CASE("tables: what is named is refused where it does not fit, and stays as it was") {
  Job job;
  const std::vector<DevicePtr> blocks = job.allocate(8);
  std::vector<std::unique_ptr<TableWord>> words;
  std::size_t held = 0;
  for (const DevicePtr at : blocks) {
    words.push_back(std::make_unique<TableWord>(1024 + 8 * words.size()));
    words.back()->lead_to(at);
    if (!job.hold(at).ok()) break;
    ++held;
  }
  CHECK(held == 4);
  for (std::size_t i = 0; i < held; ++i) CHECK(!job.is_out(blocks[i]));
  words[0]->clear();
  CHECK(job.hold(blocks[4]).ok());
  CHECK(job.program.touch({blocks[4]}, 0).ok());
  job.program.check();
}

TEST_CASE("tables: a table that is freed names nothing any more") {
  Job job;
  const DevicePtr named = job.allocate(1)[0];
  const bool is_small = GENERATE(false, true);
  const bool in_order = GENERATE(false, true);
  const Bytes size = is_small ? Bytes(512) : MiB(4);
  const DevicePtr table = in_order ? job.program.allocate_in(size, 0) : job.program.allocate(size);
  AddressTables& tables = AddressTables::instance();
  tables.put(std::vector{AddressTables::Word{(table + (size - Bytes(8))).address(), named.address()}});
  CHECK(is_named(tables, named.address()));
  CHECK(!job.runtime().free(table + Bytes(8)).ok());
  CHECK(is_named(tables, named.address()));
  if (in_order) {
    job.program.free_in(table, 0);
  } else {
    REQUIRE(job.program.free(table).ok());
  }
  CHECK(!tables.any());
}

}  // namespace tidepool::runtime
