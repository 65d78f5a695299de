#include <string>

#include "allocator/support/event_ring.h"
#include "allocator/support/events.h"
#include "tools/gen/page.h"

namespace tidepool::gen {
namespace {

const char* kind_name(FieldKind kind) {
  switch (kind) {
    case FieldKind::kNumber:
      return "number";
    case FieldKind::kBytes:
      return "bytes";
    case FieldKind::kNanos:
      return "nanoseconds";
    case FieldKind::kAddress:
      return "address, as text in hex";
    case FieldKind::kCode:
      return "a message's code, as text";
    case FieldKind::kWord:
      return "a word";
    case FieldKind::kText:
      return "text";
  }
  return "";
}

std::string note_of(const EventField& field) {
  std::string text;
  for (const char* at = field.note; *at != '\0'; ++at)
    text += *at == '|' ? std::string(", ") : std::string(1, *at);
  return text;
}

}  // namespace

Page events_page() {
  std::string text =
      "# Events and logs\n\n"
      "<!-- Written by tidepool-gen from allocator/support/events.def; change that and run it again. -->\n\n"
      "Each process that uses CUDA records events in a file of its run folder, `events.PID`: the last " +
      std::to_string(kEventRecordCount) +
      " of them, in memory that\nit shares, so that they outlive it however it ends. `tidepool run` writes "
      "them into logs "
      "while the program runs\n(`TIDEPOOL_LOG_FILE`); without it they can be read with `tidepool report`. "
      "`TIDEPOOL_LOG` "
      "says which are recorded.\n\n"
      "A log is one JSON object a line. The first is the header: `schema` (`tidepool.log/1`), `run` (name of "
      "the run "
      "folder), `start`\n(UTC), `host`, `pid`, `rank` (where a job starter gave one), `version`, `argv`, "
      "`options` (those that "
      "are not at their\ndefault, as text). Each other line is an event:\n\n"
      "| key | meaning |\n|---|---|\n"
      "| `t` | seconds since `start`, from a clock that does not jump |\n"
      "| `lvl` | E, W, I, D or T: error, warn, info, debug, trace |\n"
      "| `sub` | the part of Tidepool |\n"
      "| `ev` | the event |\n"
      "| `tid` | the thread |\n\n"
      "and the event's own fields. `events_lost` with a `count` stands where events came faster than they "
      "could be "
      "written. A log\nthat has grown to `TIDEPOOL_LOG_MAX` becomes `NAME.1.jsonl`, and a new one begins "
      "with the header.\n";
  for (std::size_t part = 0; part < kSubsystemCount; ++part) {
    const auto subsystem = static_cast<Subsystem>(part);
    text +=
        std::string("\n## ") + subsystem_row(subsystem).name + "\n\n" + subsystem_row(subsystem).help + "\n";
    for (const EventRow& row : event_rows()) {
      if (row.subsystem != subsystem) continue;
      text += std::string("\n**`") + row.name + "`** (" + std::string(level_name(row.level)) +
              "): " + row.help + "\n\n";
      for (const EventField& field : row.fields) {
        text +=
            std::string("- `") + field.name + "`: " + kind_name(field.kind) + "; " + note_of(field) + "\n";
      }
    }
  }
  return {"docs/reference/events.md", text};
}

}  // namespace tidepool::gen
