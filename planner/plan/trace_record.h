#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <variant>

namespace tidepool::plan {

/// The byte that says what a record is. Numbers are never used again for something else; a reader skips those
/// that it does not know.
enum class RecordKind : std::uint8_t {
  kThread = 1,
  kDevice = 2,
  kKernel = 3,
  kModule = 4,
  kStack = 5,
  kAllocation = 6,
  kFree = 7,
  kLaunch = 8,
  kCopy = 9,
  kMove = 10,
  kIteration = 11,
  kDuration = 12,
  kProfile = 13,
};

// Each record lists its fields once, for writing and for reading (trace_codec.h). New fields go to the end:
// older readers stop before them, newer readers find zero in older files. Texts and lists point into the
// caller's memory when written, into the reader's when read (until its next record).

/// From here on, this thread writes in this chunk.
struct ThreadRecord {
  static constexpr RecordKind kKind = RecordKind::kThread;
  std::uint32_t thread = 0;  ///< gettid()
  template <class Codec, class Self>
  static void fields(Codec& codec, Self& self) {
    codec.number(self.thread);
  }
};

/// A device is managed, or watched, from here on.
struct DeviceRecord {
  static constexpr RecordKind kKind = RecordKind::kDevice;
  std::uint32_t device = 0;          ///< ordinal, as the program counts
  std::uint64_t total_bytes = 0;     ///< memory of the device
  std::uint64_t capacity_bytes = 0;  ///< what the program may hold of it
  std::uint64_t host_bytes = 0;      ///< pinned host memory that may hold moved blocks
  bool is_observed = false;          ///< its memory is the driver's own: nothing moves
  template <class Codec, class Self>
  static void fields(Codec& codec, Self& self) {
    codec.number(self.device);
    codec.number(self.total_bytes);
    codec.number(self.capacity_bytes);
    codec.number(self.host_bytes);
    codec.number(self.is_observed);
  }
};

/// Names a kernel; precedes every launch of it.
struct KernelRecord {
  static constexpr RecordKind kKind = RecordKind::kKernel;
  std::uint32_t kernel = 0;
  std::string_view name;  ///< as in the image (mangled)
  template <class Codec, class Self>
  static void fields(Codec& codec, Self& self) {
    codec.number(self.kernel);
    codec.text(self.name);
  }
};

/// Names a file of code; precedes every stack that has frames in it.
struct ModuleRecord {
  static constexpr RecordKind kKind = RecordKind::kModule;
  std::uint32_t module = 0;
  std::string_view path;
  template <class Codec, class Self>
  static void fields(Codec& codec, Self& self) {
    codec.number(self.module);
    codec.text(self.path);
  }
};

/// A place in a module. Module 0: the code belongs to no file, and the offset is an address.
struct Frame {
  std::uint32_t module = 0;
  std::uint64_t offset = 0;  ///< from the module's load address
  bool operator==(const Frame&) const = default;
};

/// A call stack, innermost frame first; precedes every record that names it.
struct StackRecord {
  static constexpr RecordKind kKind = RecordKind::kStack;
  std::uint32_t stack = 0;
  std::span<const Frame> frames;
  template <class Codec, class Self>
  static void fields(Codec& codec, Self& self) {
    codec.number(self.stack);
    codec.frames(self.frames);
  }
};

/// By which kind of call memory was allocated or freed.
enum class MemoryApi : std::uint32_t { kPlain = 0, kAsync = 1, kPool = 2, kPitch = 3, kMapping = 4 };

/// The program was given memory.
struct AllocationRecord {
  static constexpr RecordKind kKind = RecordKind::kAllocation;
  static constexpr std::uint32_t kShared = 1;  ///< flag: a piece of a block that small ones share
  static constexpr std::uint32_t kStays = 2;   ///< flag: the block is never moved
  std::uint32_t block = 0;
  std::uint64_t bytes = 0;  ///< as asked for
  std::uint64_t address = 0;
  std::uint64_t stream = 0;  ///< in whose order; 0 for calls without stream
  MemoryApi api = MemoryApi::kPlain;
  std::uint32_t device = 0;
  std::uint32_t flags = 0;
  std::uint32_t stack = 0;  ///< where in the program; 0: not known
  template <class Codec, class Self>
  static void fields(Codec& codec, Self& self) {
    codec.number(self.block);
    codec.number(self.bytes);
    codec.address(self.address);
    codec.stream(self.stream);
    codec.number(self.api);
    codec.number(self.device);
    codec.number(self.flags);
    codec.number(self.stack);
  }
};

/// The program gave memory back.
struct FreeRecord {
  static constexpr RecordKind kKind = RecordKind::kFree;
  std::uint32_t block = 0;
  std::uint64_t bytes = 0;  ///< as was asked for
  std::uint64_t address = 0;
  std::uint64_t stream = 0;
  MemoryApi api = MemoryApi::kPlain;
  template <class Codec, class Self>
  static void fields(Codec& codec, Self& self) {
    codec.number(self.block);
    codec.number(self.bytes);
    codec.address(self.address);
    codec.stream(self.stream);
    codec.number(self.api);
  }
};

/// Blocks and threads of a launch, in x, y, z.
struct Grid {
  std::uint32_t blocks[3] = {1, 1, 1};
  std::uint32_t threads[3] = {1, 1, 1};
  bool operator==(const Grid&) const = default;
};

/// A kernel was enqueued.
struct LaunchRecord {
  static constexpr RecordKind kKind = RecordKind::kLaunch;
  std::uint64_t stream = 0;
  std::uint32_t kernel = 0;
  Grid grid;
  std::uint32_t shared_bytes = 0;
  bool any_block = false;                 ///< it may touch any live block; no list
  std::span<const std::uint32_t> blocks;  ///< in the order of the parameters; may repeat
  template <class Codec, class Self>
  static void fields(Codec& codec, Self& self) {
    codec.stream(self.stream);
    codec.number(self.kernel);
    codec.shape(self.grid, self.shared_bytes, self.any_block);
    codec.list(self.blocks);
  }
};

enum class CopyKind : std::uint32_t {
  kOther = 0,  ///< direction not told by the call
  kToDevice = 1,
  kToHost = 2,
  kOnDevice = 3,
  kMemset = 4,
};

/// A copy or memset was enqueued, or done if it is a call that waits.
struct CopyRecord {
  static constexpr RecordKind kKind = RecordKind::kCopy;
  CopyKind kind = CopyKind::kOther;
  std::uint64_t bytes = 0;  ///< 0: not told by the call
  std::uint64_t stream = 0;
  bool any_block = false;
  std::span<const std::uint32_t> blocks;
  template <class Codec, class Self>
  static void fields(Codec& codec, Self& self) {
    codec.number(self.kind);
    codec.number(self.bytes);
    codec.stream(self.stream);
    codec.list(self.blocks);
    codec.number(self.any_block);
  }
};

enum class MoveKind : std::uint32_t {
  kOut = 0,     ///< to the host
  kIn = 1,      ///< back to the device
  kDrop = 2,    ///< off the device without a copy: nothing had been written
  kCancel = 3,  ///< a move out was taken back
  kClean = 4,   ///< off the device without a copy: the host still had the contents
};

enum class MoveCause : std::uint32_t {
  kDemand = 0,  ///< for a launch or copy
  kAhead = 1,   ///< before anybody needed it
  kBudget = 2,  ///< the budget became smaller
};

/// Tidepool moved a block.
struct MoveRecord {
  static constexpr RecordKind kKind = RecordKind::kMove;
  std::uint32_t block = 0;
  MoveKind kind = MoveKind::kOut;
  MoveCause cause = MoveCause::kDemand;
  std::uint64_t bytes = 0;
  template <class Codec, class Self>
  static void fields(Codec& codec, Self& self) {
    codec.number(self.block);
    codec.number(self.kind);
    codec.number(self.cause);
    codec.number(self.bytes);
  }
};

/// An iteration begins with the next operation. Marks of another period than the last one's were mistaken.
struct IterationRecord {
  static constexpr RecordKind kKind = RecordKind::kIteration;
  std::uint64_t number = 0;  ///< counted from the first that was recognised
  std::uint64_t period = 0;  ///< operations of one iteration
  std::uint32_t exact = 0;   ///< 1: the one that ended here had exactly the operations of the others
  template <class Codec, class Self>
  static void fields(Codec& codec, Self& self) {
    codec.number(self.number);
    codec.number(self.period);
    codec.number(self.exact);
  }
};

/// How long a kernel ran on the device at most, by events around its launch: the time in which the device
/// waited for the host or for other streams is in it.
struct DurationRecord {
  static constexpr RecordKind kKind = RecordKind::kDuration;
  std::uint64_t launch = 0;  ///< sequence number of the launch
  std::uint64_t ns = 0;
  template <class Codec, class Self>
  static void fields(Codec& codec, Self& self) {
    codec.number(self.launch);
    codec.number(self.ns);
  }
};

/// What the durations so far cost. The last one counts.
struct ProfileRecord {
  static constexpr RecordKind kKind = RecordKind::kProfile;
  std::uint64_t timed = 0;    ///< launches with a duration
  std::uint64_t skipped = 0;  ///< launches in the same iterations that could not be timed
  std::uint64_t host_ns = 0;  ///< that the program's threads spent on it
  template <class Codec, class Self>
  static void fields(Codec& codec, Self& self) {
    codec.number(self.timed);
    codec.number(self.skipped);
    codec.number(self.host_ns);
  }
};

using AnyRecord = std::variant<ThreadRecord, DeviceRecord, KernelRecord, ModuleRecord, StackRecord,
                               AllocationRecord, FreeRecord, LaunchRecord, CopyRecord, MoveRecord,
                               IterationRecord, DurationRecord, ProfileRecord>;

/// What every record has.
struct RecordHead {
  std::uint64_t sequence = 0;  ///< place in the order of all records of the process
  std::uint64_t tick = 0;      ///< time stamp of the processor, shifted (kTickShift)
  std::uint32_t thread = 0;    ///< gettid() of the thread that wrote it
};

/// More ids than this are not listed: a launch cannot name more (its parameters hold 4,095 pointers).
inline constexpr std::size_t kMostListed = 4096;
inline constexpr std::size_t kMostFrames = 64;
/// Longer texts are cut.
inline constexpr std::size_t kLongestText = 1024;

}  // namespace tidepool::plan
