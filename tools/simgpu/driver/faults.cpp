#include "tools/simgpu/driver/faults.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "tools/simgpu/driver/api.h"
#include "tools/simgpu/driver/driver.h"
#include "tools/simgpu/driver/guard.h"
#include "tools/simgpu/driver/report.h"
#include "tools/simgpu/machine/fault_words.h"

namespace simgpu {
namespace {

using tidepool::CallFault;
using tidepool::CopyDirection;
using tidepool::CopyFault;
using tidepool::FaultKind;
using tidepool::FaultRule;

/// "An exception occurred on the device … any further CUDA work will return the same error" (cuda.h).
constexpr CUresult kUsualLoss = CUDA_ERROR_LAUNCH_FAILED;

/// Nothing for copies between host addresses, which pass no link.
std::optional<CopyDirection> direction_of(const Copy& copy) {
  if (copy.src_device) return copy.dst_device ? CopyDirection::kD2d : CopyDirection::kD2h;
  if (copy.dst_device) return CopyDirection::kH2d;
  return std::nullopt;
}

/// The bytes of a copy that a rule is about, row by row in the order in which they lie.
struct Piece {
  const Copy* copy;
  std::uint64_t start, bytes;
  unsigned char* buffer;
  bool into_buffer;
};

Piece piece_of(const Copy& copy, const FaultRule& rule, unsigned char* buffer, bool into_buffer) {
  const std::uint64_t start = std::min(rule.offset.count(), copy.bytes());
  return {&copy, start, std::min(rule.bytes.count(), copy.bytes() - start), buffer, into_buffer};
}

/// Between the destination of the copy and the buffer.
void move_piece(void* argument) {
  const Piece& piece = *static_cast<const Piece*>(argument);
  const Copy& c = *piece.copy;
  for (std::uint64_t done = 0; done < piece.bytes;) {
    const std::uint64_t at = piece.start + done;
    const std::uint64_t row = at / c.width;
    const std::uint64_t n = std::min(c.width - at % c.width, piece.bytes - done);
    void* there = reinterpret_cast<void*>(c.dst + row / c.height * c.dst_slice +
                                          row % c.height * c.dst_pitch + at % c.width);
    if (piece.into_buffer) {
      std::memcpy(piece.buffer + done, there, n);
    } else {
      std::memcpy(there, piece.buffer + done, n);
    }
    done += n;
  }
}

/// The piece as it is at the destination; empty where that is not to be read: the copy then fails by itself.
Faults::Kept read_piece(const Copy& copy, const FaultRule& rule) {
  Faults::Kept bytes(piece_of(copy, rule, nullptr, true).bytes);
  Piece piece = piece_of(copy, rule, bytes.data(), true);
  Fault fault;
  if (!run_guarded(&move_piece, &piece, &fault)) bytes.clear();
  return bytes;
}

void write_piece(const Copy& copy, const FaultRule& rule, Faults::Kept bytes) {
  bytes.resize(piece_of(copy, rule, nullptr, false).bytes);
  Piece piece = piece_of(copy, rule, bytes.data(), false);
  Fault fault;
  if (!run_guarded(&move_piece, &piece, &fault))
    report_error("a fault plan could not write its piece of a copy");
}

struct EntryName {
  std::string_view exported, base;
};
constexpr EntryName kEntries[] = {
#define SIMGPU_ENTRY(base, exported, since, twin) {#exported, #base},
#include "tools/simgpu/driver/entries.def"
#undef SIMGPU_ENTRY
};

}  // namespace

CUresult meet_call(Driver& d, Entry entry, std::uint64_t size) {
  const EntryName& name = kEntries[static_cast<std::size_t>(entry)];
  return d.faults.meet_call(d, name.exported, name.base, size);
}

Faults::Faults(const char* text) {
  auto rules = tidepool::parse_fault_rules(text, fault_words());
  if (!rules) {
    report_error("fault plan: " + rules.error().text);
    return;
  }
  rules_ = std::move(rules.value());
  previous_.resize(rules_.size());
  plan_.add(rules_);
}

CUresult Faults::meet_call(Driver& d, std::string_view name, std::string_view base, std::uint64_t size) {
  if (lost_ != CUDA_SUCCESS) return lost_;
  const auto now = static_cast<std::uint64_t>(d.ledger.now());
  const CallFault fault = plan_.on_call(name, base, tidepool::Bytes(size), now);
  if (fault.action == CallFault::Action::kGoOn) return CUDA_SUCCESS;
  add(page().faults);
  if (fault.action == CallFault::Action::kKill) {
    ::kill(::getpid(), SIGKILL);
    for (;;) ::pause();
  }
  if (fault.action == CallFault::Action::kFail) return static_cast<CUresult>(fault.code);
  lost_ = fault.code == 0 ? kUsualLoss : static_cast<CUresult>(fault.code);
  // discard() lets other threads in; they may make contexts.
  std::vector<Context*> all;
  for (const auto& [handle, context] : d.contexts) all.push_back(context);
  for (Context* context : all) context->sticky = lost_;
  for (Context* context : all) d.scheduler.discard(context);
  report_error("the fault plan has lost the device, in " + std::string(name));
  return lost_;
}

void Faults::meet_copy(Copy* copy) {
  const auto direction = direction_of(*copy);
  if (!direction) return;
  const tidepool::CopyHit hit = plan_.on_copy(*direction, tidepool::Bytes(copy->bytes()));
  if (hit.rule != nullptr) copy->fault_rule = static_cast<std::int32_t>(hit.index);
}

Faults::Kept Faults::before_copy(const Copy& copy) const {
  if (copy.fault_rule < 0) return {};
  const FaultRule& rule = rules_[static_cast<std::size_t>(copy.fault_rule)];
  return rule.copy == CopyFault::kDrop ? read_piece(copy, rule) : Kept{};
}

void Faults::after_copy(const Copy& copy, const Kept& kept) {
  const auto direction = direction_of(copy);
  if (!direction) return;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    const FaultRule& rule = rules_[i];
    if (rule.kind != FaultKind::kCopy) continue;
    if (rule.direction != CopyDirection::kAny && rule.direction != *direction) continue;
    const bool hit = copy.fault_rule == static_cast<std::int32_t>(i);
    if (!hit && rule.copy != CopyFault::kStale) continue;
    if (hit) add(page().faults);
    if (rule.copy == CopyFault::kDrop) {
      write_piece(copy, rule, kept);
      continue;
    }
    Kept now = read_piece(copy, rule);
    if (rule.copy == CopyFault::kStale) {
      if (hit) write_piece(copy, rule, previous_[i]);
      previous_[i] = std::move(now);
    } else {
      for (unsigned char& byte : now) byte = static_cast<unsigned char>(~byte);
      write_piece(copy, rule, std::move(now));
    }
  }
}

double Faults::link_factor(const Copy& copy, std::uint64_t now_ns) const {
  const auto direction = direction_of(copy);
  return direction ? plan_.link_factor(*direction, now_ns) : 1;
}

}  // namespace simgpu
