#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "tests/sim/storm/options.h"
#include "tests/sim/storm/program.h"

namespace storm {

inline constexpr std::size_t kGranule = std::size_t{2} << 20;
inline constexpr unsigned kSlots = 40;
inline constexpr unsigned kHostSlots = 6;

inline std::size_t granules(std::size_t bytes) {
  return (bytes + kGranule - 1) / kGranule * kGranule;
}

/// Device memory that an allocation counts as: small ones share.
inline std::size_t weight(std::size_t bytes) {
  return bytes < kGranule ? bytes : granules(bytes);
}

/// A place for a buffer. Steps name places, not buffers, so that they mean the same when others are left out.
struct Slot {
  unsigned buffer = kNone;
  bool defined = false;    ///< every byte has been written, and none is of a table
  unsigned graph = kNone;  ///< one that names it
  unsigned table = kNone;  ///< the operation that put a table there
};

/// What a stream that awaits a value is to use when it goes on.
struct Awaiting {
  std::set<unsigned> read;     ///< buffers
  std::set<unsigned> written;  ///< or freed
  std::size_t bytes = 0;       ///< of device memory, all together
};

/// What generate.h promises, in four files: memory and streams in generate.cpp, work in generate_work.cpp,
/// tables of addresses in generate_tables.cpp, streams that await values in generate_awaits.cpp.
class Generator {
 public:
  explicit Generator(const Options& options) : options_(options) {
    for (unsigned device = 0; device < options.devices; ++device) {
      legacy_.push_back(add_stream({StreamKind::kLegacy, device, 0}));
      for (unsigned thread = 0; thread < options.threads; ++thread) {
        own_.push_back(add_stream({StreamKind::kPerThread, device, thread}));
      }
    }
    for (unsigned i = 0; i < kHostSlots; ++i) {
      const Home home = i % 3 == 2 ? Home::kPageable : Home::kPinned;
      host_.push_back({add_buffer({home, 0, options.largest_bytes}), false, kNone});
    }
    for (unsigned i = 0; i < options.threads * options.devices * options.streams; ++i)
      streams_.push_back(kNone);
    slots_.resize(kSlots);
  }

  Program run() {
    for (step_ = 0; step_ < options_.steps; ++step_) {
      if (options_.dropped.count(step_) != 0) continue;
      random_.seed(options_.seed * 1'000'003 + step_);
      random_.discard(8);
      thread_ = draw(options_.threads);
      device_ = draw(options_.devices);
      act();
    }
    random_.seed(options_.seed);
    finish();
    return std::move(program_);
  }

 private:
  unsigned draw(unsigned below) { return static_cast<unsigned>(random_() % below); }
  bool chance(unsigned percent) { return draw(100) < percent; }
  bool has(Feature feature) const { return options_.has(feature); }

  unsigned add_stream(Stream stream) {
    program_.streams.push_back(stream);
    return static_cast<unsigned>(program_.streams.size() - 1);
  }
  unsigned add_buffer(Buffer buffer) {
    program_.buffers.push_back(buffer);
    return static_cast<unsigned>(program_.buffers.size() - 1);
  }
  const Buffer& buffer(const Slot& slot) const { return program_.buffers[slot.buffer]; }
  Region whole(const Slot& slot) const { return {slot.buffer, 0, buffer(slot).bytes}; }

  Operation operation(Kind kind, unsigned stream = kNone) const {
    Operation made;
    made.kind = kind;
    made.step = step_;
    made.thread = thread_;
    made.stream = stream;
    return made;
  }
  void emit(Operation made) {
    made.section = section_;
    program_.operations.push_back(std::move(made));
  }

  /// A stream for work of this step's thread on a device.
  unsigned stream(unsigned device) {
    const unsigned what = draw(20);
    const unsigned other = has(Feature::k_share) && chance(15) ? draw(options_.threads) : thread_;
    unsigned& made =
        streams_[(other * options_.devices + device) * options_.streams + draw(options_.streams)];
    const StreamKind kind = std::array{StreamKind::kBlocking, StreamKind::kNonBlocking,
                                       StreamKind::kNonBlocking, StreamKind::kUrgent}[draw(4)];
    if (what == 0 && has(Feature::k_legacy)) return legacy_[device];
    if (what <= 2 && has(Feature::k_perthread)) return own_[device * options_.threads + thread_];
    if (made == kNone) {
      made = add_stream({kind, device, 0});
      emit(operation(Kind::kStreamCreate, made));
    }
    return made;
  }

  /// The stream of calls that take none.
  unsigned default_stream(unsigned device) const {
    return options_.is_per_thread(thread_) ? own_[device * options_.threads + thread_] : legacy_[device];
  }

  /// A slot that this step may use, or null: those of its thread rather than others'.
  Slot& any_slot() {
    const unsigned at = draw(kSlots);
    if (has(Feature::k_share) && chance(25)) return slots_[at];
    const unsigned mine = at - at % options_.threads + thread_;
    return slots_[mine < kSlots ? mine : thread_];
  }
  template <class Fits>
  Slot* find(Fits fits) {
    const unsigned first = draw(kSlots);
    const bool home = !has(Feature::k_share) || chance(75);
    for (unsigned pass = home ? 0 : 1; pass < (has(Feature::k_share) ? 2 : 1); ++pass) {
      for (unsigned i = 0; i < kSlots; ++i) {
        const unsigned at = (first + i) % kSlots;
        if (pass == 0 && at % options_.threads != thread_) continue;
        if (fits(slots_[at])) return &slots_[at];
      }
    }
    return nullptr;
  }
  Slot* find_defined(unsigned device, const Slot* but = nullptr) {
    return find([&](const Slot& slot) {
      return &slot != but && slot.buffer != kNone && slot.defined && buffer(slot).device == device;
    });
  }
  Slot* find_any(unsigned device, const Slot* but = nullptr) {
    return find([&](const Slot& slot) {
      return &slot != but && slot.buffer != kNone && buffer(slot).device == device;
    });
  }

  Region part(const Slot& slot, std::size_t unit) {
    Region region = whole(slot);
    if (has(Feature::k_halves) && region.bytes >= 64 && chance(50)) {
      const std::size_t half = middle(buffer(slot));
      return chance(50) ? Region{slot.buffer, 0, half} : Region{slot.buffer, half, region.bytes - half};
    }
    if (region.bytes <= 2 * unit || chance(50)) return region;
    const std::size_t units = region.bytes / unit;
    const std::size_t from = random_() % units;
    region.offset = from * unit;
    region.bytes = (1 + random_() % (units - from)) * unit;
    return region;
  }

  std::size_t size() {
    const unsigned kind = draw(100);
    const bool small = has(Feature::k_small) && kind < 35;
    const std::size_t high = small ? std::size_t{64} << 10 : options_.largest_bytes;
    std::size_t bytes = 4 + random_() % high;
    if (small) bytes >>= draw(14);
    if (!small && kind < 97) bytes = std::max(bytes, std::min(kGranule, high));  // one that moves
    if (!small && kind % 4 == 0) bytes = granules(bytes);
    return std::clamp<std::size_t>(bytes / 4 * 4, 4, options_.largest_bytes);
  }

  void act();
  void churn(Slot& slot);
  /// `in`: the stream of all that it does, or kNone.
  void allocate(Slot& slot, unsigned in = kNone);
  void release(Slot& slot);
  void free(const Slot& slot);
  /// Frees what a graph or a table names, or where a table is, and allocates it again, as theirs.
  void renew(Slot& slot);
  static void define(Slot& slot) {
    slot.defined = true;
    slot.table = kNone;
  }
  void initialise(Slot& slot);
  void fill(Slot& slot, unsigned in = kNone);
  void launch();
  void memset(Slot& slot);
  void copy();
  void copy_rows();
  void fill_host();
  void check(const Region& region, unsigned device);
  void graph();
  void drop_graph(unsigned graph);
  void table();
  void follow(const Slot& holder);
  /// Whether the table there names it.
  bool names(const Slot& holder, const Slot& named) const;
  bool is_of_table(const Slot& slot) const;
  void write_tables_again(const Slot& slot);
  void drop_tables_of(const Slot& slot);
  void await_value();
  /// A stream that no other waits for by itself, and which is not `other`.
  unsigned loose_stream(unsigned other);
  /// Work of a section; `waits`: of the stream that awaits the value, which is noted in `awaiting`. What it
  /// has no memory for is left out.
  void work_of_section(unsigned stream, bool waits, Awaiting& awaiting);
  void free_in_section(unsigned stream, bool waits, Awaiting& awaiting);
  void finish();

  const Options& options_;
  Program program_;
  std::mt19937_64 random_;
  unsigned step_ = 0;
  unsigned thread_ = 0;
  unsigned device_ = 0;
  std::size_t live_ = 0;
  std::vector<Slot> slots_;
  std::vector<Slot> host_;
  std::vector<unsigned> legacy_;   ///< by device
  std::vector<unsigned> own_;      ///< by device and thread
  std::vector<unsigned> streams_;  ///< by thread, device and number
  std::vector<unsigned> graphs_;   ///< that may be launched
  std::vector<unsigned> loose_;    ///< streams for sections alone
  unsigned section_ = kNone;       ///< that operations are part of
};

}  // namespace storm
