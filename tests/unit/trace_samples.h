#pragma once

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "planner/plan/trace_reader.h"
#include "planner/plan/trace_record.h"

/// Records for tests: drawn at random, and as text that can be compared.
namespace tidepool::test {

/// A record with whatever it points to.
struct Sample {
  plan::AnyRecord record;
  std::string text;
  std::vector<std::uint32_t> ids;
  std::vector<plan::Frame> frames;
};

/// Numbers of every length, so that every length of encoding comes up.
inline std::uint64_t draw(std::mt19937_64& random, unsigned bits = 64) {
  const std::uint64_t shift = 64 - bits + random() % bits;
  return random() >> shift;
}

inline Sample draw_sample(std::mt19937_64& random) {
  Sample sample;
  const auto word = [&] { return static_cast<std::uint32_t>(draw(random, 32)); };
  sample.text.assign(random() % 40, static_cast<char>('a' + random() % 26));
  sample.ids.resize(random() % 4 == 0 ? random() % plan::kMostListed : random() % 10);
  for (std::uint32_t& id : sample.ids) id = word();
  sample.frames.resize(random() % plan::kMostFrames);
  for (plan::Frame& frame : sample.frames) frame = {word(), draw(random)};
  plan::Grid grid;
  for (std::uint32_t* extents : {grid.blocks, grid.threads}) {
    for (int i = 0; i < 3; ++i) extents[i] = random() % 2 == 0 ? 1 : word();
  }
  // Most ids are small.
  if (random() % 2 == 0) {
    for (std::uint32_t& id : sample.ids) id &= 0xffff;
  }
  switch (random() % 13) {
    case 0:
      sample.record = plan::ThreadRecord{word()};
      break;
    case 1:
      sample.record = plan::DeviceRecord{word(), draw(random), draw(random), draw(random)};
      break;
    case 2:
      sample.record = plan::KernelRecord{word(), sample.text};
      break;
    case 3:
      sample.record = plan::ModuleRecord{word(), sample.text};
      break;
    case 4:
      sample.record = plan::StackRecord{word(), sample.frames};
      break;
    case 5:
      sample.record = plan::AllocationRecord{
          word(), draw(random), draw(random), draw(random), static_cast<plan::MemoryApi>(random() % 4),
          word(), word(),       word()};
      break;
    case 6:
      sample.record =
          plan::FreeRecord{word(), draw(random), draw(random), draw(random), plan::MemoryApi::kAsync};
      break;
    case 7:
      sample.record = plan::LaunchRecord{draw(random),      word(),    grid, random() % 2 == 0 ? 0 : word(),
                                         random() % 2 == 0, sample.ids};
      break;
    case 8:
      sample.record = plan::CopyRecord{static_cast<plan::CopyKind>(random() % 5), draw(random), draw(random),
                                       random() % 2 == 0, sample.ids};
      break;
    case 9:
      sample.record = plan::MoveRecord{word(), plan::MoveKind::kIn, plan::MoveCause::kAhead, draw(random)};
      break;
    case 10:
      sample.record = plan::DurationRecord{draw(random), draw(random)};
      break;
    case 11:
      sample.record = plan::ProfileRecord{draw(random), draw(random), draw(random)};
      break;
    default:
      sample.record = plan::IterationRecord{draw(random), draw(random), word()};
      break;
  }
  return sample;
}

/// Every field of a record as text.
class FieldText {
 public:
  template <class Number>
  void number(const Number& value) {
    text_ += " " + std::to_string(static_cast<std::uint64_t>(value));
  }
  void stream(std::uint64_t value) { number(value); }
  void address(std::uint64_t value) { number(value); }
  void text(std::string_view value) { text_ += " \"" + std::string(value) + "\""; }
  void list(std::span<const std::uint32_t> ids) {
    number(ids.size());
    for (const std::uint32_t id : ids) number(id);
  }
  void shape(const plan::Grid& grid, std::uint32_t shared_bytes, bool any_block) {
    for (const std::uint32_t n : grid.blocks) number(n);
    for (const std::uint32_t n : grid.threads) number(n);
    number(shared_bytes);
    number(any_block);
  }
  void frames(std::span<const plan::Frame> frames) {
    number(frames.size());
    for (const plan::Frame& frame : frames) {
      number(frame.module);
      number(frame.offset);
    }
  }
  [[nodiscard]] const std::string& str() const { return text_; }

 private:
  std::string text_;
};

template <class Record>
std::string text_of(const Record& record) {
  FieldText text;
  text.number(Record::kKind);
  Record::fields(text, record);
  return text.str();
}
inline std::string text_of(const plan::AnyRecord& record) {
  return std::visit([](const auto& typed) { return text_of(typed); }, record);
}

/// Everything that can be read from a trace.
struct ReadTrace {
  plan::TraceInfo info;
  plan::TraceDamage damage;
  std::vector<plan::RecordHead> heads;
  std::vector<std::string> texts;
};

/// The only trace in the folder; empty if there is none.
inline std::string trace_in(const std::string& folder) {
  std::string found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".tptrace") found = entry.path();
  }
  return found;
}

inline ReadTrace read_all(const plan::TraceSource& source) {
  auto reader = plan::TraceReader::open(source);
  if (!reader.ok()) return {};
  ReadTrace all;
  plan::RecordHead head;
  plan::AnyRecord record;
  while (reader->next(head, record)) {
    all.heads.push_back(head);
    all.texts.push_back(text_of(record));
  }
  all.info = reader->info();
  all.damage = reader->damage();
  return all;
}
inline ReadTrace read_all(const std::string& path) {
  return read_all(plan::TraceFile(path));
}

}  // namespace tidepool::test
