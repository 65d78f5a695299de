#pragma once

#include <cstdint>
#include <optional>

#include "tools/simgpu/driver/operation.h"
#include "tools/simgpu/machine/machine.h"

namespace simgpu {

struct Driver;
struct Event;

/// What one process must do for another that waits for it. There is no thread of the device's own, so work
/// that is queued here runs only in calls; a process whose events others wait for needs one that runs it
/// while the program is elsewhere.

/// Starts that thread, once. It sleeps unless some process of the machine waits (SharedEvents::waited_at), so
/// processes that do not share events never notice it.
void serve_other_processes(Driver& driver);

/// Called with the driver's lock held by a call that can only go on when another process or thread does
/// something: lets go of the lock for a moment, and takes it again. Until the call ends no other process
/// waits for this one's virtual time.
void wait_for_others(Driver& driver);

/// What work, or the host, must wait for that waits for this event now, where its latest record is another
/// process' and is not over.
std::optional<Condition> foreign_record(const Driver& driver, const Event& event);

/// Gives an event's record its number, if processes share it.
void number_record(Driver& driver, const Event& event, EventRecord* record);

/// The process that made a shared event is done with it.
void end_shared_event(const Event& event);

/// Takes an event for this process, or one whose maker has ended. Null if there are too many.
SharedEvent* new_shared_event(Driver& driver, std::uint32_t* index);

}  // namespace simgpu
