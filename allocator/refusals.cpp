// The part of Residency that says why memory is refused, and with which limits it would not have been.

#include <algorithm>
#include <cstdio>

#include "allocator/residency.h"
#include "allocator/support/events.h"
#include "allocator/support/message.h"
#include "allocator/support/stats_page.h"

namespace tidepool::runtime {
namespace {

/// A size to ask for, in a text that names no less: 1.04 GiB is "1.1 GiB".
class AtLeast {
 public:
  explicit AtLeast(Bytes n) noexcept : text_(rounded(n)) {}
  [[nodiscard]] const char* c_str() const noexcept { return text_.c_str(); }

 private:
  // Up to the tenths that are shown; a size that is a multiple of a handle's is reached by what they say.
  static Bytes rounded(Bytes n) noexcept {
    unsigned shift = 0;
    while (shift < 50 && n.count() >> shift >= 1024) shift += 10;
    if (shift == 0) return n;
    const std::uint64_t unit = std::uint64_t{1} << shift;
    const std::uint64_t rest = n.count() % unit;
    const std::uint64_t tenths = n.count() / unit * 10 + (rest * 10 + unit - 1) / unit;
    return std::max(n,
                    Bytes(tenths / 10 * unit + (tenths % 10 * unit + 9) / 10));  // the largest do not go up
  }
  BytesText text_;
};

/// What tables of addresses keep, behind what stays; nothing where they keep nothing.
class OfTables {
 public:
  explicit OfTables(Bytes named) noexcept {
    if (named == Bytes()) return;
    std::snprintf(text_, sizeof text_, " (%s that tables of addresses name)", BytesText(named).c_str());
  }
  [[nodiscard]] const char* c_str() const noexcept { return text_; }

 private:
  char text_[kUnitTextBytes + 40] = "";
};

}  // namespace

Status Residency::count_refusal() noexcept {
  StatsPage& stats = StatsPage::instance();
  stats.add(Metric::out_of_memory_total, 1);
  emit<Ev::out_of_memory>(Bytes(stats.get(Metric::allocated_bytes)),
                          Bytes(stats.get(Metric::device_capacity_bytes)));
  return kOutOfMemory;
}

Residency::Surroundings Residency::surroundings(Bytes limit) const noexcept {
  return look_ == nullptr ? Surroundings{} : look_(keeper_, limit);
}

Bytes Residency::budget_for(Bytes limit) const noexcept {
  const Surroundings around = surroundings(limit);
  const Bytes all = around.outside + limit + around.spread;
  return std::max(all, all.round_up(Arena::kChunk));  // the largest do not go up
}

Status Residency::refuse(Bytes asked) noexcept {
  const Bytes limit = pool_.limit();
  const Bytes host = host_.budget();
  const Bytes total = surroundings().allocated + asked;
  const Bytes space = std::max(largest(), asked) * 2;  // as Runtime::reserve() has it
  if (asked > limit - kept()) {
    report_on<Msg::TP2002>(device_.number(), BytesText(asked).c_str(), BytesText(limit).c_str(),
                           BytesText(kept()).c_str(), OfTables(surroundings().named).c_str(),
                           AtLeast(budget_for(kept() + asked)).c_str());
  } else if (host_.is_refused()) {
    report_on<Msg::TP2009>(device_.number(), BytesText(asked).c_str(), BytesText(host_.pinned()).c_str());
  } else if (total + space - host <= limit) {
    return refuse_now(asked);
  } else {
    report_on<Msg::TP2005>(device_.number(), BytesText(asked).c_str(), BytesText(total).c_str(),
                           BytesText(limit).c_str(), BytesText(host).c_str(), BytesText(space).c_str(),
                           AtLeast(total + space - limit).c_str(),
                           AtLeast(budget_for(std::min(total, total + space - host))).c_str());
  }
  return count_refusal();
}

Status Residency::refuse_addresses(Bytes asked) noexcept {
  report_on<Msg::TP2011>(device_.number(), BytesText(asked).c_str(), BytesText(arena_.size()).c_str());
  return count_refusal();
}

Status Residency::refuse_now(Bytes needed) noexcept {
  if (host_.is_refused()) {
    report_on<Msg::TP2009>(device_.number(), BytesText(needed).c_str(), BytesText(host_.pinned()).c_str());
  } else {
    report_on<Msg::TP2012>(device_.number(), BytesText(needed).c_str(), BytesText(pool_.limit()).c_str(),
                           AtLeast(budget_for(pool_.limit() + needed)).c_str());
  }
  return count_refusal();
}

Status Residency::give_up(Bytes span, Status error) noexcept {
  if (loses_device(error)) return error;
  report_on<Msg::TP3007>(device_.number(), BytesText(span).c_str(), error.code());
  return error == kOutOfMemory ? count_refusal() : error;
}

Status Residency::refuse_to_keep(Bytes asked) noexcept {
  const Bytes moving = least() - kept();
  report_on<Msg::TP2004>(device_.number(), BytesText(asked).c_str(), BytesText(pool_.limit()).c_str(),
                         BytesText(kept()).c_str(), OfTables(surroundings().named).c_str(),
                         BytesText(moving).c_str(),
                         AtLeast(budget_for(least() + asked.round_up(Arena::kChunk))).c_str());
  return count_refusal();
}

Status Residency::refuse_set(WorkName what, Bytes whole, Bytes in_the_way) noexcept {
  report_on<Msg::TP2001>(device_.number(), WorkName::Text(what).c_str(), BytesText(whole).c_str(),
                         BytesText(pool_.limit()).c_str(), BytesText(in_the_way).c_str(),
                         OfTables(surroundings().named).c_str(),
                         AtLeast(budget_for(whole + in_the_way)).c_str());
  return count_refusal();
}

}  // namespace tidepool::runtime
