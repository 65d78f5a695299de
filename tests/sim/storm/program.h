#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// A random program as data: what is done to which memory, by which thread in which stream. The generator
/// writes it, order.h adds what makes it correctly synchronised, the model computes what it must read, the
/// executor runs it.
///
/// The order of `operations` is the order in which the program means them: whoever runs them one after the
/// other gets what every legal execution gets.
namespace storm {

/// Where a buffer lives, and which call makes it.
enum class Home : std::uint8_t { kMalloc, kAsync, kOwnPool, kDefaultPool, kPinned, kPageable };

struct Buffer {
  Home home;
  unsigned device;
  std::size_t bytes;  ///< a multiple of 4
};

enum class StreamKind : std::uint8_t { kBlocking, kNonBlocking, kUrgent, kLegacy, kPerThread };

struct Stream {
  StreamKind kind;
  unsigned device;
  unsigned owner;  ///< the thread, of a thread's own default stream
};

/// Bytes of a buffer.
struct Region {
  unsigned buffer = 0;
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

enum class Kind : std::uint8_t {
  kAllocate,      ///< `to`: the whole buffer
  kFree,          ///< cudaFree or cudaFreeAsync of `to`, see `asynchronous`
  kFill,          ///< kernel: to[k] = f(salt, k)
  kMap,           ///< kernel: to[k] = f(from[0][k % n], salt, k)
  kUpdate,        ///< kernel: to[k] = f(to[k], salt, k)
  kGather,        ///< kernel: to[k] = f(all of from, salt, k), pointers inside a structure
  kSum,           ///< kernel: to[0] += sum of from[0]
  kMemset,        ///< by bytes, or by words where all is a multiple of 4: `wide`
  kCopy,          ///< from[0] to `to`
  kCopyRows,      ///< rows of `row_bytes` from from[0] with from_pitch to `to` with to_pitch
  kHostFill,      ///< the host writes `to`
  kHostFunction,  ///< a host function in the stream writes `to`
  kCheck,         ///< from[0] is copied to the host and compared
  kStreamCreate,
  kStreamDestroy,
  kSynchronize,  ///< the host waits for the stream, or, without one, for the device
  kAsk,          ///< memory information, attributes of `from[0]`
  kCapture,      ///< a graph of `nodes` (operations without an order among them but the list's); where there
                 ///< is one already, only if their memory is elsewhere now
  kGraphLaunch,
  kGraphDestroy,
  kAwaitValue,  ///< the stream waits for the word of the section to be `salt`; with `wide` as a batch of one
  kWriteValue,  ///< the stream writes it
  kTable,       ///< a table of where `from` is is copied to `to`; where `again`, only if it is elsewhere now
};

constexpr unsigned kNone = ~0u;
constexpr unsigned kMostSources = 4;
constexpr std::size_t kTableBytes = 80;  ///< of a table of as many

struct Operation {
  Kind kind = Kind::kFill;
  unsigned step = 0;
  unsigned thread = 0;
  unsigned stream = kNone;   ///< kNone: the host alone
  bool asynchronous = true;  ///< copies, memsets, frees: the Async call; otherwise the legacy stream's
  bool wide = false;
  bool by_table = false;  ///< a gather: the device has the pointers in memory
  Region through;         ///< where, if a kTable put them there
  bool again = false;     ///< of a kTable
  Region to;
  std::vector<Region> from;
  std::size_t to_pitch = 0;
  std::size_t from_pitch = 0;
  std::size_t row_bytes = 0;
  std::size_t rows = 0;
  std::uint32_t salt = 0;
  unsigned stride = 1;  ///< kernels write each stride-th word
  unsigned grid = 1;
  unsigned graph = kNone;
  std::vector<Operation> nodes;  ///< of a capture
  unsigned section = kNone;      ///< that it is part of

  // What order.h adds.
  std::vector<unsigned> after_issue;   ///< operations of other threads that must have been issued
  std::vector<unsigned> stream_waits;  ///< operations whose event the stream waits for
  std::vector<unsigned> host_waits;    ///< operations whose event the host waits for
  bool waits_for_stream = false;       ///< the host waits for all of the stream afterwards
  bool records = false;                ///< an event is recorded behind it

  // What the model adds.
  std::uint64_t expected = 0;  ///< of a check: the digest of what it reads
};

/// Operations one behind the other in the program and all of one thread: a stream awaits a value and gets
/// work, another one gets work and then writes the value. In between nothing waits for what the first stream
/// does, neither the host nor the other stream: it could wait for ever.
struct Section {
  unsigned first = 0;      ///< the operation that awaits
  unsigned last = 0;       ///< the one that writes
  unsigned device = 0;     ///< of both streams
  bool on_device = false;  ///< where the word is; otherwise in pinned memory
};

struct Program {
  std::vector<Buffer> buffers;
  std::vector<Stream> streams;
  std::vector<Operation> operations;
  std::vector<unsigned> captures;  ///< by graph: the operation that makes it
  std::vector<Section> sections;   ///< in their order
  std::size_t peak_bytes = 0;      ///< of device memory as the program asks for it
};

/// Where the second half of a buffer starts. Work on one half needs no order with work on the other.
inline std::size_t middle(const Buffer& buffer) {
  return buffer.bytes / 8 * 4;
}

/// What one object is to one operation: a half of a buffer, two by two in their order, or a graph, which
/// counts from the last of them on.
struct Use {
  unsigned object;
  bool writes;
  /// Of one that is not a graph.
  [[nodiscard]] unsigned buffer() const { return object / 2; }
};
inline unsigned objects_of_buffers(const Program& program) {
  return static_cast<unsigned>(2 * program.buffers.size());
}
/// Every object that the operation reads or writes; of a graph's launch, what its nodes do.
std::vector<Use> uses_of(const Program& program, const Operation& operation);

/// One line, for people.
std::string text_of(const Program& program, unsigned index);

/// The streams' kinds by name, and the whole program, one operation a line.
std::string text_of(const Program& program);

inline bool on_host(const Buffer& buffer) {
  return buffer.home == Home::kPinned || buffer.home == Home::kPageable;
}

}  // namespace storm
