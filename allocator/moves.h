#pragma once

#include <array>
#include <cstdint>

#include "allocator/block.h"
#include "allocator/host_arena.h"
#include "allocator/support/content_hash.h"
#include "allocator/swap_engine.h"

// What Residency notes of moves under way.
namespace tidepool::runtime {

/// How far an eviction has come.
enum class Step : std::uint8_t {
  kNothing,  ///< the block was never touched: there is nothing to copy
  kAsking,   ///< the slot has a copy of it, and the device is asked for a hash, to see whether it is current
  kUnchanged,  ///< it is
  kCopying,    ///< the block is copied to the slot, and hashed beside that if there is an answer to come
};
/// An eviction between its first step and its end.
struct Eviction {
  BlockId id = kNoBlock;
  StateWord word;  ///< of the block; with another one, the eviction is void
  HostSlot slot{};
  Use copied{};                   ///< comes after the copy; none: there is none
  ContentHash* answer = nullptr;  ///< of questions_; null: nothing was asked
  Step step = Step::kNothing;
  SwapEngine::Lane lane = SwapEngine::kReady;  ///< of its copy
  bool is_ready = false;                       ///< no work of the program is before its end
  bool is_noted = false;                       ///< HostCopies knows the hash of what will be in the slot
};
/// A block that could not leave in this turn, or whose memory could not, and how often that was tried.
struct Refusal {
  BlockId id = kNoBlock;
  int times = 0;
};
/// TIDEPOOL_CHECK=full: what has come in is copied back behind that, to see whether it is what had left.
struct Arrival {
  HostSlot seen{};  ///< empty: nobody looks
  DevicePtr base{};
  Bytes size{};
  ContentHash left{};
};
/// A host slot that a copy out of a device that answered with an error may still write.
struct Lost {
  HostSlot slot;
  Use copied;
};
/// A host slot that a copy in still reads.
struct Incoming {
  BlockId id;
  StateWord word;
  HostSlot slot;
  Use copied;
  Arrival arrival{};
};

/// Copies that work on some blocks has to come after: the newest of each stream.
struct Copies {
  Use incoming;
  std::array<Use, SwapEngine::kLanes> outgoing{};
  void note_incoming(Use use) noexcept {
    if (use.ticket() > incoming.ticket()) incoming = use;
  }
  void note_outgoing(Use use) noexcept {
    for (Use& one : outgoing) {
      if (one && one.stream() != use.stream()) continue;
      if (use.ticket() > one.ticket()) one = use;
      return;
    }
  }
};

}  // namespace tidepool::runtime
