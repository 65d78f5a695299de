// libraries: tp_plan
#include <cstddef>
#include <cstring>
#include <vector>

#include "planner/plan/trace_reader.h"
#include "tests/fuzz/fuzzer.h"

/// Traces. Whatever the bytes are, records come out in order and within bounds.
namespace {

using namespace tidepool::plan;

/// What follows a header that is taken, so that the fuzzer need not find one: the input is chunks, each
/// behind two bytes that say how long its records are.
std::vector<std::uint8_t> with_header(const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint8_t> bytes(kTraceHeaderBytes);
  const auto put = [&](std::size_t offset, auto value) {
    std::memcpy(bytes.data() + offset, &value, sizeof value);
  };
  put(offsetof(TraceHeader, magic), kTraceMagic);
  put(offsetof(TraceHeader, version), kTraceVersion);
  put(offsetof(TraceHeader, header_bytes), kTraceHeaderBytes);
  put(offsetof(TraceHeader, chunk_bytes), kChunkBytes);
  put(offsetof(TraceHeader, chunk_header_bytes), static_cast<std::uint32_t>(sizeof(ChunkHeader)));
  while (size > 2 && bytes.size() < 8 * kChunkBytes) {
    const std::size_t at = bytes.size();
    std::size_t used = (data[0] | static_cast<std::size_t>(data[1]) << 8) % kChunkRoom;
    const auto first = static_cast<std::uint64_t>(data[1] % 4);
    data += 2;
    size -= 2;
    used = used < size ? used : size;
    bytes.resize(at + kChunkBytes);
    put(at + offsetof(ChunkHeader, magic), kChunkMagic);
    put(at + offsetof(ChunkHeader, used), static_cast<std::uint32_t>(used));
    put(at + offsetof(ChunkHeader, first_sequence), first);
    std::memcpy(bytes.data() + at + sizeof(ChunkHeader), data, used);
    data += used;
    size -= used;
  }
  return bytes;
}

void check(std::span<const std::uint8_t> bytes) {
  const TraceBytes source(bytes);
  auto reader = TraceReader::open(source);
  if (!reader.ok()) {
    fuzz_require(reader.error().starts_with("is "));
    return;
  }
  RecordHead head;
  AnyRecord record;
  std::uint64_t last = 0;
  std::size_t count = 0;
  while (reader->next(head, record)) {
    // A chunk may claim any first number; within what is sorted nothing goes back.
    fuzz_require(count == 0 || head.sequence >= last);
    last = head.sequence;
    ++count;
    fuzz_require(reader->time_of(head.tick) >= tidepool::Nanos());
    if (const auto* launch = std::get_if<LaunchRecord>(&record))
      fuzz_require(launch->blocks.size() <= kMostListed);
    if (const auto* stack = std::get_if<StackRecord>(&record))
      fuzz_require(stack->frames.size() <= kMostFrames);
    if (const auto* kernel = std::get_if<KernelRecord>(&record))
      fuzz_require(kernel->name.size() <= kLongestText);
  }
  fuzz_require(count <= bytes.size() / 3);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check({data, size});
  check(with_header(data, size));
  return 0;
}
