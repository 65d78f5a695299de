#include "planner/plan/trace_reader.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace tidepool::plan {
namespace {

/// One member of a structure that lies in bytes of the file.
template <class Member>
Member member_at(const std::uint8_t* bytes, std::size_t offset) noexcept {
  Member value;
  std::memcpy(&value, bytes + offset, sizeof value);
  return value;
}

template <std::size_t I = 0>
bool make_record(std::uint8_t kind, AnyRecord& record) {
  if constexpr (I < std::variant_size_v<AnyRecord>) {
    using Record = std::variant_alternative_t<I, AnyRecord>;
    if (static_cast<std::uint8_t>(Record::kKind) != kind) return make_record<I + 1>(kind, record);
    record.emplace<Record>();
    return true;
  } else {
    return false;
  }
}

}  // namespace

Result<TraceReader, std::string> TraceReader::open(const TraceSource& source) {
  std::vector<std::uint8_t> header(kTraceHeaderBytes);
  source.read(0, header);
  const std::uint8_t* const bytes = header.data();
  if (source.size() < kTraceHeaderBytes ||
      member_at<std::uint64_t>(bytes, offsetof(TraceHeader, magic)) != kTraceMagic) {
    return Err{std::string("is no trace")};
  }
  const auto version = member_at<std::uint32_t>(bytes, offsetof(TraceHeader, version));
  const auto header_bytes = member_at<std::uint32_t>(bytes, offsetof(TraceHeader, header_bytes));
  const auto chunk_bytes = member_at<std::uint32_t>(bytes, offsetof(TraceHeader, chunk_bytes));
  const auto chunk_header = member_at<std::uint32_t>(bytes, offsetof(TraceHeader, chunk_header_bytes));
  if (version != kTraceVersion) {
    return Err{"is a trace of version " + std::to_string(version) + ", and this reader knows version " +
               std::to_string(kTraceVersion)};
  }
  if (header_bytes != kTraceHeaderBytes || chunk_bytes != kChunkBytes ||
      chunk_header != sizeof(ChunkHeader)) {
    return Err{std::string("is a trace with a damaged header")};
  }

  TraceReader reader(source);
  TraceInfo& info = reader.info_;
  info.pid = member_at<std::int64_t>(bytes, offsetof(TraceHeader, pid));
  info.start_unix_ns = member_at<std::int64_t>(bytes, offsetof(TraceHeader, start_unix_ns));
  info.max_bytes = member_at<std::uint64_t>(bytes, offsetof(TraceHeader, max_bytes));
  info.dropped = member_at<std::uint64_t>(bytes, offsetof(TraceHeader, dropped));
  const auto end = member_at<std::uint32_t>(bytes, offsetof(TraceHeader, end));
  info.end =
      end <= static_cast<std::uint32_t>(TraceEnd::kNoSpace) ? static_cast<TraceEnd>(end) : TraceEnd::kRunning;
  info.end_errno = static_cast<int>(member_at<std::uint32_t>(bytes, offsetof(TraceHeader, end_errno)));
  const auto* const program = reinterpret_cast<const char*>(bytes + offsetof(TraceHeader, program));
  info.program.assign(program, strnlen(program, sizeof(TraceHeader::program)));

  reader.start_ = member_at<TraceAnchor>(bytes, offsetof(TraceHeader, start));
  const auto index = member_at<std::uint32_t>(bytes, offsetof(TraceHeader, latest_index)) % 2;
  const auto latest =
      member_at<TraceAnchor>(bytes, offsetof(TraceHeader, latest) + index * sizeof(TraceAnchor));
  if (latest.ticks > reader.start_.ticks && latest.monotonic_ns > reader.start_.monotonic_ns) {
    reader.ns_per_tick_ =
        (static_cast<double>(latest.monotonic_ns) - static_cast<double>(reader.start_.monotonic_ns)) /
        static_cast<double>(latest.ticks - reader.start_.ticks);
  }
  const std::uint64_t asked =
      std::min(member_at<std::uint64_t>(bytes, offsetof(TraceHeader, chunks)),
               (std::max(info.max_bytes, source.size()) - header_bytes) / kChunkBytes);
  reader.list_chunks(header_bytes, info.end == TraceEnd::kNoSpace ? 0 : asked);
  return reader;
}

void TraceReader::list_chunks(std::uint32_t header_bytes, std::uint64_t asked) {
  const std::uint64_t size = source_->size();
  const std::uint64_t present = (size - header_bytes + kChunkBytes - sizeof(ChunkHeader)) / kChunkBytes;
  if (asked > present) damage_.missing_bytes += (asked - present) * kChunkBytes;
  for (std::uint64_t at = header_bytes; at + sizeof(ChunkHeader) <= size; at += kChunkBytes) {
    std::uint8_t bytes[sizeof(ChunkHeader)];
    source_->read(at, bytes);
    const auto magic = member_at<std::uint32_t>(bytes, offsetof(ChunkHeader, magic));
    auto used = member_at<std::uint32_t>(bytes, offsetof(ChunkHeader, used));
    if (magic == 0 && used == 0) continue;  // asked for, not begun
    if (magic != kChunkMagic || used > kChunkRoom) {
      ++damage_.damaged_chunks;
      continue;
    }
    const std::uint64_t left = size - at - sizeof(ChunkHeader);
    if (used > left) {
      damage_.missing_bytes += used - left;
      used = static_cast<std::uint32_t>(left);
    }
    places_.push_back({at, member_at<std::uint64_t>(bytes, offsetof(ChunkHeader, first_sequence)),
                       member_at<std::uint64_t>(bytes, offsetof(ChunkHeader, first_tick)), used,
                       member_at<std::uint32_t>(bytes, offsetof(ChunkHeader, thread))});
  }
  std::stable_sort(places_.begin(), places_.end(), [](const ChunkPlace& a, const ChunkPlace& b) {
    return a.first_sequence > b.first_sequence;
  });
}

void TraceReader::push(std::unique_ptr<Cursor> cursor) {
  heap_.push_back(std::move(cursor));
  std::push_heap(heap_.begin(), heap_.end(),
                 [](const auto& a, const auto& b) { return a->head.sequence > b->head.sequence; });
}

void TraceReader::start_chunk(const ChunkPlace& place) {
  auto cursor = std::make_unique<Cursor>();
  cursor->bytes.resize(place.used);
  source_->read(place.offset + sizeof(ChunkHeader), cursor->bytes);
  cursor->state = {place.first_sequence, place.first_tick, 0, 0};
  cursor->thread = place.thread;
  if (advance(*cursor)) push(std::move(cursor));
}

// Steps to the next record. False: none left; a record that cannot be ends the chunk, since nothing says
// where the one behind it begins.
bool TraceReader::advance(Cursor& cursor) {
  const bool is_first = cursor.end == 0;
  std::span<const std::uint8_t> rest(cursor.bytes);
  rest = rest.subspan(cursor.end);
  if (rest.empty()) return false;
  std::uint64_t size = 0;
  std::size_t length_bytes = 0;
  for (unsigned shift = 0; length_bytes < std::min<std::size_t>(rest.size(), 3); shift += 7) {
    const std::uint8_t byte = rest[length_bytes++];
    size |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) break;
    if (length_bytes == 3) size = UINT64_MAX;
  }
  if (size < 3 || size > rest.size() - length_bytes) {
    ++damage_.damaged_chunks;
    return false;
  }
  const std::span<const std::uint8_t> body = rest.subspan(length_bytes, static_cast<std::size_t>(size));
  std::size_t fields = 1;
  const auto number = [&](std::uint64_t& out) {
    const std::size_t from = fields;
    while (fields < body.size() && (body[fields] & 0x80u) != 0) ++fields;
    if (fields == body.size()) return false;
    ++fields;
    CodecState unused;
    Decoder decoder(body.subspan(from, fields - from), unused, scratch_);
    out = decoder.get();
    return decoder.ok();
  };
  std::uint64_t sequence = 0;
  std::uint64_t tick = 0;
  const bool whole = number(sequence) && number(tick);
  if (!whole || (sequence == 0 && !is_first) || sequence > UINT64_MAX - cursor.state.sequence ||
      tick > UINT64_MAX - cursor.state.tick) {
    ++damage_.damaged_chunks;
    return false;
  }
  cursor.state.sequence += sequence;
  cursor.state.tick += tick;
  cursor.head = {cursor.state.sequence, cursor.state.tick, cursor.thread};
  cursor.kind = static_cast<RecordKind>(body[0]);
  cursor.fields = cursor.end + length_bytes + fields;
  cursor.end += length_bytes + static_cast<std::size_t>(size);
  return true;
}

// False: not a record that can be given to the caller.
bool TraceReader::decode(Cursor& cursor, AnyRecord& record) {
  if (!make_record(static_cast<std::uint8_t>(cursor.kind), record)) {
    ++damage_.unknown_records;
    return false;
  }
  const std::span<const std::uint8_t> fields(cursor.bytes.data() + cursor.fields, cursor.end - cursor.fields);
  Decoder decoder(fields, cursor.state, scratch_);
  std::visit([&](auto& typed) { std::remove_reference_t<decltype(typed)>::fields(decoder, typed); }, record);
  if (!decoder.ok()) {
    // The differences that the next records refer to are unknown now.
    ++damage_.damaged_chunks;
    cursor.end = cursor.bytes.size();
    return false;
  }
  if (const auto* thread = std::get_if<ThreadRecord>(&record)) {
    cursor.thread = cursor.head.thread = thread->thread;
  }
  return true;
}

bool TraceReader::next(RecordHead& head, AnyRecord& record) {
  const auto later = [](const auto& a, const auto& b) { return a->head.sequence > b->head.sequence; };
  if (current_ != nullptr) {
    if (advance(*current_)) push(std::move(current_));
    current_.reset();
  }
  for (;;) {
    while (!places_.empty() &&
           (heap_.empty() || places_.back().first_sequence <= heap_.front()->head.sequence)) {
      const ChunkPlace place = places_.back();
      places_.pop_back();
      start_chunk(place);
    }
    if (heap_.empty()) return false;
    std::pop_heap(heap_.begin(), heap_.end(), later);
    current_ = std::move(heap_.back());
    heap_.pop_back();
    if (decode(*current_, record)) {
      head = current_->head;
      return true;
    }
    if (advance(*current_)) push(std::move(current_));
    current_.reset();
  }
}

Nanos TraceReader::time_of(std::uint64_t tick) const noexcept {
  if (tick <= start_.ticks) return Nanos();
  const double ns = static_cast<double>(tick - start_.ticks) * ns_per_tick_;
  return ns < 9e18 ? Nanos(static_cast<std::int64_t>(ns)) : Nanos(INT64_MAX);
}

}  // namespace tidepool::plan
