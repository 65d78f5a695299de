#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "tools/simgpu/digest/memory.h"
#include "tools/simgpu/digest/span_set.h"

namespace simgpu::digest {

/// The program's pieces of device memory: which are alive, what of them was ever written, and which of their
/// words are known to hold pointers.
///
/// Calls are numbered: a launch sees the memory that was alive when it was *called*, even if it runs after
/// the memory was freed in stream order. What was written is noted when work runs: work that conflicts is
/// ordered, so a launch finds the state that belongs to it. Not thread-safe.
class ExtentMap {
 public:
  /// The number of a call; later calls have larger ones.
  using Stamp = std::uint64_t;

  /// New memory, of which nothing is written. Live memory that it overlaps is dead from then on. Where `unit`
  /// is not zero (a power of two, at least 8), a pointer stands only for the memory to the next multiple of
  /// it: several tensors share an allocation, as in the segments of PyTorch's own allocator.
  void add(std::uint64_t base, std::uint64_t bytes, std::uint32_t unit, Stamp now);
  /// Memory is freed: launches that are called from now on do not find it.
  void remove(std::uint64_t base, Stamp now);
  /// The same for all memory that starts in the span.
  void remove_all(const Span& span, Stamp now);
  /// No launch called before `oldest` will be asked for any more.
  void forget(Stamp oldest);

  /// The extent that holds the address for a call; with kNever the one that is alive now.
  [[nodiscard]] std::optional<Extent> find(std::uint64_t address, Stamp call) const;
  void written_parts(const Span& span, Stamp call, std::vector<Span>* parts) const;
  void pointer_words(const Span& span, Stamp call, std::vector<PointerWord>* words) const;

  /// Work called at `call` wrote the span; no pointers are known to be in it.
  void wrote(const Span& span, Stamp call);
  /// Words from `address` on hold pointers, because the work that wrote them writes pointers. Reads them.
  void wrote_pointers(std::uint64_t address, std::uint64_t words, Stamp call);
  /// Bytes of the host were copied to `to`: wrote(), and those of its words that point to live memory are
  /// taken for pointers. Reads the bytes at `to`.
  void wrote_payload(const Span& to, Stamp call);
  /// Device memory was copied: what was written, and where pointers are, moves along.
  void copied(std::uint64_t to, const Span& from, Stamp call);

  /// Freed memory that is still remembered.
  [[nodiscard]] std::size_t dead() const { return dead_.size(); }
  /// Words in live memory that are known to hold pointers.
  [[nodiscard]] std::uint64_t pointers_known() const { return pointers_known_; }

  static constexpr Stamp kNever = std::numeric_limits<Stamp>::max();

 private:
  struct Target {
    std::uint64_t value = 0;
    std::uint64_t entry = 0;  ///< the id of what it pointed to; 0: nothing
  };
  struct Entry {
    std::uint64_t id = 0;  ///< from 1, never used again
    std::uint64_t base = 0;
    std::uint64_t bytes = 0;
    std::uint32_t unit = 0;
    Stamp born = 0;
    Stamp died = kNever;
    SpanSet written;
    std::map<std::uint64_t, Target> pointers;  ///< by the address of the word

    [[nodiscard]] bool covers(std::uint64_t address) const { return address - base < bytes; }
  };

  [[nodiscard]] const Entry* entry(std::uint64_t address, Stamp call) const;
  [[nodiscard]] Entry* entry(std::uint64_t address, Stamp call) {
    return const_cast<Entry*>(static_cast<const ExtentMap*>(this)->entry(address, call));
  }
  /// Calls f(entry, part) for the parts of the span that lie in extents.
  template <class F>
  void each_part(const Span& span, Stamp call, F&& f);
  void drop_pointers(Entry* e, const Span& span);
  void add_pointer(Entry* e, std::uint64_t address, const Target& target);
  [[nodiscard]] Target target_of(std::uint64_t value, Stamp call) const;

  std::map<std::uint64_t, Entry> live_;  ///< by base
  std::vector<Entry> dead_;
  std::uint64_t pointers_known_ = 0;
  std::uint64_t last_id_ = 0;
};

/// Device memory as a launch called at `call` sees it.
class LaunchMemory : public Memory {
 public:
  LaunchMemory(const ExtentMap& map, ExtentMap::Stamp call) : map_(map), call_(call) {}

  [[nodiscard]] std::optional<Extent> find(std::uint64_t address) const override {
    return map_.find(address, call_);
  }
  void written_parts(const Span& span, std::vector<Span>* parts) const override {
    map_.written_parts(span, call_, parts);
  }
  void pointer_words(const Span& span, std::vector<PointerWord>* words) const override {
    map_.pointer_words(span, call_, words);
  }

 private:
  const ExtentMap& map_;
  const ExtentMap::Stamp call_;
};

}  // namespace simgpu::digest
