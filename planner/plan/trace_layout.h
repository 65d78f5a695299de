#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tidepool::plan {

// docs/reference/trace-format.md describes the file; these are its fixed parts. Little-endian.

inline constexpr std::uint64_t kTraceMagic = 0x0065'6361'7274'7074;  // "tptrace\0" in memory
inline constexpr std::uint32_t kTraceVersion = 1;
inline constexpr std::uint32_t kChunkMagic = 0x6b68'6374;  // "tchk" in memory

/// Size of the file's header, and of every chunk with its own header.
inline constexpr std::uint32_t kTraceHeaderBytes = 4096;
inline constexpr std::uint32_t kChunkBytes = 64 << 10;

/// Ticks of a record are the processor's time stamp shifted right by so many bits.
inline constexpr std::uint32_t kTickShift = 6;

/// How the writer ended; in a file of a killed process still kRunning.
enum class TraceEnd : std::uint32_t {
  kRunning = 0,
  kClosed = 1,   ///< the process ended the recording
  kFull = 2,     ///< the size that it may have was reached
  kNoSpace = 3,  ///< the file could not grow; `end_errno` says why
};

/// The same moment on both clocks.
struct TraceAnchor {
  std::uint64_t ticks;
  std::int64_t monotonic_ns;
};

/// The first kTraceHeaderBytes of the file.
struct TraceHeader {
  std::atomic<std::uint64_t> magic;  ///< written last, so that a header with it is complete
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint32_t chunk_bytes;
  std::uint32_t chunk_header_bytes;
  std::uint32_t tick_shift;
  std::uint32_t reserved;
  std::int64_t pid;
  std::int64_t start_unix_ns;  ///< CLOCK_REALTIME when the file was made
  std::uint64_t max_bytes;     ///< the file grows no further
  char program[64];            ///< name of the program, cut and zero-terminated
  std::atomic<std::uint64_t>
      chunks;  ///< chunks that threads have asked for; those past the file's end were refused
  std::atomic<std::uint64_t>
      dropped;  ///< records that were not written: too many threads, or on their way at the end
  std::atomic<std::uint32_t> end;  ///< a TraceEnd
  std::atomic<std::uint32_t> end_errno;
  TraceAnchor start;      ///< when the file was made
  TraceAnchor latest[2];  ///< a later moment: the one that latest_index names
  std::atomic<std::uint32_t> latest_index;
};
static_assert(sizeof(TraceHeader) <= kTraceHeaderBytes);
static_assert(std::is_trivially_destructible_v<TraceHeader>);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// The start of every chunk. Chunk N begins at header_bytes + N * chunk_bytes.
struct ChunkHeader {
  std::atomic<std::uint32_t> magic;  ///< written when everything else here is
  std::atomic<std::uint32_t> used;   ///< bytes of whole records behind this header; only grows
  std::uint64_t first_sequence;      ///< sequence number of the first record
  std::uint64_t first_tick;          ///< what the first record's time is a difference to
  std::uint32_t writer;              ///< chunks of one writer follow each other; at any time it is one thread
  std::uint32_t thread;              ///< gettid() of that thread when the chunk began
  std::uint8_t reserved[32];
};
static_assert(sizeof(ChunkHeader) == 64);
inline constexpr std::uint32_t kChunkRoom = kChunkBytes - sizeof(ChunkHeader);

}  // namespace tidepool::plan
