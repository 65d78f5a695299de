#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "tools/simgpu/driver/condition.h"
#include "tools/simgpu/driver/cuda_api.h"
#include "tools/simgpu/timing/lane.h"

namespace simgpu {

struct Kernel;
struct SharedEvent;
class Pool;
struct Stream;

/// "Not before `stream` has completed its operation number `ticket`."
struct Wait {
  std::shared_ptr<Stream> stream;
  std::uint64_t ticket;
};

/// What one cuEventRecord call stands for; the event and those who wait for it share it.
struct EventRecord {
  std::shared_ptr<Stream> stream;
  std::uint64_t ticket = 0;
  timing::Stamp when;             ///< once it is known
  SharedEvent* shared = nullptr;  ///< of an event that processes share
  std::uint64_t number = 0;       ///< of the record there
};

/// A kernel launch with its parameters as they were at the call.
struct Launch {
  std::shared_ptr<const Kernel> kernel;  ///< keeps its library, which the program may unload meanwhile
  std::array<std::uint32_t, 3> grid{};
  std::array<std::uint32_t, 3> block{};
  std::uint32_t dynamic_shared = 0;
  bool cooperative = false;
  std::vector<unsigned char> params;
};

/// Rows of bytes from one place to another. A linear copy is one row.
struct Copy {
  std::uint64_t dst = 0, src = 0;
  std::uint64_t width = 0, height = 1, depth = 1;  ///< bytes, rows, slices
  std::uint64_t dst_pitch = 0, src_pitch = 0;      ///< bytes from row to row
  std::uint64_t dst_slice = 0, src_slice = 0;      ///< bytes from slice to slice
  bool dst_device = false, src_device = false;
  bool dst_pinned = false, src_pinned = false;  ///< host memory that must still be pinned when this runs
  bool program = true;                          ///< the program's own, see ProgramMemory
  /// Contexts that a copy between contexts names for its ends; null: the stream's.
  const Context* dst_context = nullptr;
  const Context* src_context = nullptr;
  /// Source bytes that are taken before the copy runs, row by row without gaps; null: it reads them itself.
  std::shared_ptr<unsigned char[]> staged;
  std::uint64_t arrived = 0;  ///< of a single row: so many bytes were copied at the call, the rest is staged
  std::int32_t fault_rule = -1;  ///< of the fault plan, which says what is wrong with it; -1: none

  /// Bytes from the first to behind the last one that is touched, with this pitch and slice.
  [[nodiscard]] std::uint64_t extent(std::uint64_t pitch, std::uint64_t slice) const {
    return width == 0 || height == 0 || depth == 0 ? 0 : (depth - 1) * slice + (height - 1) * pitch + width;
  }
  [[nodiscard]] std::uint64_t bytes() const { return width * height * depth; }
};

/// Takes the source bytes of a copy before its turn. Rare and large, so operations point to it.
struct EarlyRead {
  Copy rows;  ///< into `to`
  std::shared_ptr<unsigned char[]> to;
};

/// Rows of equal elements.
struct Fill {
  std::uint64_t dst = 0;
  std::uint64_t pitch = 0;  ///< bytes from row to row
  std::uint64_t width = 0;  ///< elements in a row
  std::uint64_t height = 1;
  std::uint32_t element = 1;  ///< bytes: 1, 2 or 4
  std::uint32_t value = 0;
  bool program = true;  ///< as in Copy

  [[nodiscard]] std::uint64_t extent() const {
    return width == 0 || height == 0 ? 0 : (height - 1) * pitch + width * element;
  }
};

/// A function of the program that runs in stream order.
struct HostCall {
  CUhostFn function = nullptr;
  void* argument = nullptr;
  CUhostFn discarded = nullptr;  ///< runs in its place when an error of the context discards the call
};

/// Marks the point that an event stands for.
struct Mark {
  std::shared_ptr<EventRecord> record;
};

/// One allocation of a piece of a pool's memory.
struct PieceUse {
  bool ended = false;  ///< its free has run, which nothing need order behind its beginning
};

/// From here on a piece of a pool's memory may be used, or may not any more.
struct PoolChange {
  std::shared_ptr<Pool> pool;  ///< the program may have destroyed it meanwhile
  std::uint64_t base = 0;
  std::uint64_t size = 0;
  bool begin = false;
  std::shared_ptr<PieceUse> use;
};

/// A plain allocation that cuMemFreeAsync was given ends here.
struct PlainFree {
  std::uint64_t base = 0;
};

/// One value in memory, written in stream order.
struct ValueWrite {
  std::uint64_t address = 0;
  std::uint64_t value = 0;
  std::uint32_t bits = 32;  ///< 32 or 64
};

/// Only waits.
struct Nothing {};

/// One piece of queued work.
struct Operation {
  std::vector<Wait> waits;
  std::uint64_t call = 0;          ///< Scheduler::new_call() of it
  std::optional<Condition> until;  ///< not before this has come about
  std::variant<Nothing, Launch, Copy, std::unique_ptr<EarlyRead>, Fill, HostCall, Mark, PoolChange, PlainFree,
               ValueWrite>
      work;
};

}  // namespace simgpu
