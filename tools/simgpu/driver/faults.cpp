#include "tools/simgpu/driver/faults.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
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

/// "fault plan, line 3: ".
std::string line_of(const FaultRule& rule) {
  return "fault plan, line " + std::to_string(rule.line) + ": ";
}

std::string code_name(int code) {
  for (const tidepool::FaultWords::Code& known : fault_words().codes) {
    if (known.value == code) return std::string(known.name);
  }
  return "error " + std::to_string(code);
}

const char* way(CopyDirection direction) {
  if (direction == CopyDirection::kH2d) return "to the device";
  return direction == CopyDirection::kD2h ? "from the device" : "between places of devices";
}

/// What a rule makes of a copy that it hits.
std::string piece_text(const Copy& copy, const FaultRule& rule, CopyDirection direction) {
  const Piece piece = piece_of(copy, rule, nullptr, false);
  const std::string what = "a copy of " + std::to_string(copy.bytes()) + " bytes " + way(direction);
  if (piece.bytes == 0) return what + " ends before the piece starts; nothing of it is changed";
  constexpr const char* kArrive[] = {"do not arrive", "arrive inverted",
                                     "arrive as those of the copy before"};
  return what + ": " + std::to_string(piece.bytes) + " bytes, from byte " + std::to_string(piece.start) +
         " on, " + kArrive[static_cast<std::size_t>(rule.copy)];
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
  return d.faults.meet_call(&d, name.exported, name.base, size);
}

Faults::Faults(const char* text) {
  auto rules = tidepool::parse_fault_rules(text, fault_words());
  if (!rules) {
    report_error("fault plan: " + rules.error().text);
    return;
  }
  rules_ = std::move(rules.value());
  previous_.resize(rules_.size());
  told_.resize(rules_.size());
  plan_.add(rules_);
}

CUresult Faults::meet_call(Driver* d, std::string_view name, std::string_view base, std::uint64_t size) {
  if (lost_ != CUDA_SUCCESS) return lost_;
  const auto now = d == nullptr ? 0 : static_cast<std::uint64_t>(d->ledger.now());
  const CallFault fault = plan_.on_call(name, base, tidepool::Bytes(size), now);
  if (fault.action == CallFault::Action::kGoOn) return CUDA_SUCCESS;
  add(page().faults);
  const std::string call(name);
  if (fault.action == CallFault::Action::kKill) {
    tell(fault.rule, "the process is killed in " + call);
    ::kill(::getpid(), SIGKILL);
    for (;;) ::pause();
  }
  if (fault.action == CallFault::Action::kFail) {
    tell(fault.rule, call + " returns " + code_name(fault.code));
    return static_cast<CUresult>(fault.code);
  }
  lost_ = fault.code == 0 ? kUsualLoss : static_cast<CUresult>(fault.code);
  // discard() lets other threads in; they may make contexts.
  std::vector<Context*> all;
  if (d != nullptr) {
    for (const auto& [handle, context] : d->contexts) all.push_back(context);
  }
  for (Context* context : all) context->sticky = lost_;
  for (Context* context : all) d->scheduler.discard(context);
  report_error(line_of(rules_[fault.rule]) + "the device is lost in " + call +
               "; from now on every call returns " + code_name(lost_));
  return lost_;
}

void Faults::tell(std::size_t rule, const std::string& what) const {
  if (told_[rule]) return;
  told_[rule] = true;
  std::fprintf(stderr, "simgpu: %s%s\n", line_of(rules_[rule]).c_str(), what.c_str());
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
    if (hit) {
      add(page().faults);
      tell(i, piece_text(copy, rule, *direction));
    }
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
  if (!direction) return 1;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (rules_[i].kind != FaultKind::kLink || told_[i] || !plan_.slows(i, *direction, now_ns)) continue;
    std::array<char, 32> factor{};
    std::snprintf(factor.data(), factor.size(), "%g", rules_[i].factor);
    tell(i, std::string("copies ") + way(*direction) + " have " + factor.data() + " of the link's rate");
  }
  return plan_.link_factor(*direction, now_ns);
}

}  // namespace simgpu
