#include "tools/simgpu/driver/race_log.h"

#include "tools/simgpu/driver/driver.h"
#include "tools/simgpu/driver/footprint.h"
#include "tools/simgpu/driver/report.h"

namespace simgpu {
namespace {

using ordering::Access;
using ordering::Race;

/// Different lines that are remembered; a program with more has other troubles.
constexpr std::size_t kMaxTold = 4096;

std::string stream_of(const Access& access) {
  const ordering::Owner& owner = access.lane->owner();
  return owner.legacy ? "the legacy default stream" : "stream " + std::to_string(owner.stream);
}

std::string remedy(const Race& race) {
  // In one stream there are two ways only.
  if (race.first.lane->owner().stream == race.second.lane->owner().stream) {
    if (race.first.lane->owner().graph && race.second.lane->owner().graph)
      return "make the graph's node of the second depend on that of the first";
    return "the copies of a batch have no order among each other, and sources that are not read in stream "
           "order have none with the stream; make two batches, or choose the access order STREAM";
  }
  return "let " + stream_of(race.second) + " wait for an event that is recorded in " + stream_of(race.first) +
         " after it";
}

std::string who(const Access& access) {
  return (is_kernel_name(access.name) ? "kernel '" + *access.name + "'" : "a " + *access.name) +
         (access.lane->owner().graph ? " of a graph in " : " in ") + stream_of(access);
}

std::string where(const Race& race, const Access& access) {
  return std::to_string(race.bytes) + " bytes at " + hex(race.place + access.shift);
}

const char* lead(const Race& race) {
  return race.possible() ? "possible race (what is touched was inferred): " : "race: ";
}

}  // namespace

bool RaceLog::count(const Race& race, const Key& key) {
  add(race.possible() ? page().possible_races_total : page().races_total);
  return told_.size() < kMaxTold && told_.insert(key).second;
}

void RaceLog::unordered(const std::vector<Race>& races) {
  for (const Race& race : races) {
    if (!count(race, {race.first.name, race.second.name, race.first.write, race.second.write})) continue;
    std::string text = lead(race) + who(race.second);
    text += race.second.write ? " writes " : " reads ";
    text += where(race, race.second) + " (" + driver()->describe(race.place + race.second.shift) + ") that ";
    text += who(race.first) + (race.first.write ? " writes" : " reads");
    if (race.first.shift != race.second.shift) text += " at " + hex(race.place + race.first.shift);
    report_race(text + ", and nothing orders them: " + remedy(race));
  }
}

void RaceLog::taken_away(const std::vector<Race>& users, const char* call) {
  for (const Race& race : users) {
    if (!count(race, {race.first.name, call, race.first.write, true})) continue;
    report_race(lead(race) + std::string(call) + " takes away " + where(race, race.first) + " that " +
                who(race.first) + " may still " + (race.first.write ? "write" : "read") + ": " + call +
                " does not wait for it, so wait first");
  }
}

}  // namespace simgpu
