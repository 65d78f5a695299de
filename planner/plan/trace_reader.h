#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "allocator/support/result.h"
#include "allocator/support/units.h"
#include "planner/plan/trace_codec.h"
#include "planner/plan/trace_layout.h"
#include "planner/plan/trace_record.h"
#include "planner/plan/trace_source.h"

namespace tidepool::plan {

/// Facts from the header.
struct TraceInfo {
  std::int64_t pid = 0;
  std::int64_t start_unix_ns = 0;
  std::string program;
  std::uint64_t max_bytes = 0;
  TraceEnd end = TraceEnd::kRunning;  ///< kRunning: the process was killed, or runs
  int end_errno = 0;
  std::uint64_t dropped = 0;  ///< records that the writer had to leave out
};

/// What was wrong with the bytes; nothing of it stops the reading of the rest.
struct TraceDamage {
  std::uint64_t missing_bytes =
      0;  ///< of chunks that the file ends in or before; the last 64 KiB may never have been
  std::uint64_t damaged_chunks = 0;   ///< chunks left at a record that cannot be; records behind it are lost
  std::uint64_t unknown_records = 0;  ///< of kinds that this reader does not know: a newer writer
  [[nodiscard]] bool any() const noexcept { return missing_bytes + damaged_chunks + unknown_records > 0; }
};

/// Reads a trace record by record, in the order of their sequence numbers, whatever the bytes are. Memory:
/// one chunk for each thread that wrote at a time. May throw std::bad_alloc.
class TraceReader {
 public:
  /// `source` must outlive the reader. The error is a clause: "is no trace", "is of version 9, …".
  static Result<TraceReader, std::string> open(const TraceSource& source);

  [[nodiscard]] const TraceInfo& info() const { return info_; }

  /// The next record. False: there is none. What `record` points to is valid until the next call.
  bool next(RecordHead& head, AnyRecord& record);

  /// What was found so far; complete once next() has said false.
  [[nodiscard]] const TraceDamage& damage() const { return damage_; }

  /// A record's time since the start of the trace; less than zero never.
  [[nodiscard]] Nanos time_of(std::uint64_t tick) const noexcept;

 private:
  struct ChunkPlace {
    std::uint64_t offset;
    std::uint64_t first_sequence;
    std::uint64_t first_tick;
    std::uint32_t used;
    std::uint32_t thread;
  };
  /// A chunk that is being read; ordered by the record it stands at.
  struct Cursor {
    RecordHead head;
    RecordKind kind{};
    CodecState state;
    std::uint32_t thread = 0;
    std::size_t fields = 0;  ///< where the fields of the record begin in `bytes`
    std::size_t end = 0;     ///< and end
    std::vector<std::uint8_t> bytes;
  };

  explicit TraceReader(const TraceSource& source) : source_(&source) {}
  void list_chunks(std::uint32_t header_bytes, std::uint64_t asked);
  void start_chunk(const ChunkPlace& place);
  bool advance(Cursor& cursor);
  bool decode(Cursor& cursor, AnyRecord& record);
  void push(std::unique_ptr<Cursor> cursor);

  const TraceSource* source_;
  TraceInfo info_;
  TraceDamage damage_;
  TraceAnchor start_{};
  double ns_per_tick_ = 0;
  std::vector<ChunkPlace> places_;  ///< not yet started, the first one last
  std::vector<std::unique_ptr<Cursor>> heap_;
  std::unique_ptr<Cursor> current_;  ///< the caller's record points into it
  DecodeScratch scratch_;
};

}  // namespace tidepool::plan
