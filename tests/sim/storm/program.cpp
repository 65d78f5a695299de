#include "tests/sim/storm/program.h"

namespace storm {
namespace {

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kAllocate:
      return "allocate";
    case Kind::kFree:
      return "free";
    case Kind::kFill:
      return "fill";
    case Kind::kMap:
      return "map";
    case Kind::kUpdate:
      return "update";
    case Kind::kGather:
      return "gather";
    case Kind::kSum:
      return "sum";
    case Kind::kMemset:
      return "memset";
    case Kind::kCopy:
      return "copy";
    case Kind::kCopyRows:
      return "copy rows";
    case Kind::kHostFill:
      return "host fills";
    case Kind::kHostFunction:
      return "host function fills";
    case Kind::kCheck:
      return "check";
    case Kind::kStreamCreate:
      return "create stream";
    case Kind::kStreamDestroy:
      return "destroy stream";
    case Kind::kSynchronize:
      return "synchronize";
    case Kind::kAsk:
      return "ask about";
    case Kind::kCapture:
      return "capture";
    case Kind::kGraphLaunch:
      return "launch graph";
    case Kind::kGraphDestroy:
      return "destroy graph";
    case Kind::kAwaitValue:
      return "await";
    case Kind::kWriteValue:
      return "write awaited";
    case Kind::kTable:
      return "table";
  }
  return "?";
}

const char* name_of(Home home) {
  switch (home) {
    case Home::kMalloc:
      return "malloc";
    case Home::kAsync:
      return "async";
    case Home::kOwnPool:
      return "pool";
    case Home::kDefaultPool:
      return "default pool";
    case Home::kPinned:
      return "pinned";
    case Home::kPageable:
      return "pageable";
  }
  return "?";
}

const char* name_of(StreamKind kind) {
  switch (kind) {
    case StreamKind::kBlocking:
      return "blocking";
    case StreamKind::kNonBlocking:
      return "non-blocking";
    case StreamKind::kUrgent:
      return "urgent";
    case StreamKind::kLegacy:
      return "legacy";
    case StreamKind::kPerThread:
      return "per-thread";
  }
  return "?";
}

void add_uses(std::vector<Use>& uses, const Program& program, const Region& region, bool writes) {
  const std::size_t half = middle(program.buffers[region.buffer]);
  if (region.offset < half) uses.push_back({2 * region.buffer, writes});
  if (region.offset + region.bytes > half) uses.push_back({2 * region.buffer + 1, writes});
}

void add_uses(std::vector<Use>& uses, const Program& program, const Operation& operation) {
  if (operation.to.bytes != 0) add_uses(uses, program, operation.to, true);
  for (const Region& region : operation.from) add_uses(uses, program, region, false);
  if (operation.through.bytes != 0) add_uses(uses, program, operation.through, false);
}

std::string text_of(const Program& program, const Region& region) {
  const Buffer& buffer = program.buffers[region.buffer];
  std::string text = "b" + std::to_string(region.buffer) + "(" + name_of(buffer.home);
  if (buffer.device != 0) text += " of device " + std::to_string(buffer.device);
  text += ")";
  if (region.offset == 0 && region.bytes == buffer.bytes)
    return text + "[" + std::to_string(buffer.bytes) + "]";
  return text + "[" + std::to_string(region.offset) + "+" + std::to_string(region.bytes) + " of " +
         std::to_string(buffer.bytes) + "]";
}

std::string text_of(const Program& program, const Operation& operation) {
  std::string text = name_of(operation.kind);
  if (operation.section != kNone) text += " in s" + std::to_string(operation.section);
  if (operation.graph != kNone) text += " g" + std::to_string(operation.graph);
  if (operation.to.bytes != 0) text += " " + text_of(program, operation.to);
  for (const Region& region : operation.from) text += " <- " + text_of(program, region);
  if (operation.through.bytes != 0) text += " through " + text_of(program, operation.through);
  if (operation.rows != 0) {
    text += " rows " + std::to_string(operation.rows) + " x " + std::to_string(operation.row_bytes) +
            " pitch " + std::to_string(operation.to_pitch) + " <- " + std::to_string(operation.from_pitch);
  }
  if (operation.salt != 0) text += " salt " + std::to_string(operation.salt);
  if (operation.stride != 1) text += " stride " + std::to_string(operation.stride);
  if (!operation.asynchronous) text += " sync";
  for (const Operation& node : operation.nodes) text += "; " + text_of(program, node);
  return text;
}

void add_list(std::string& text, const char* what, const std::vector<unsigned>& list) {
  if (list.empty()) return;
  text += what;
  for (const unsigned index : list) text += " " + std::to_string(index);
}

}  // namespace

std::vector<Use> uses_of(const Program& program, const Operation& operation) {
  std::vector<Use> uses;
  add_uses(uses, program, operation);
  if (operation.graph != kNone) {
    const bool launch = operation.kind == Kind::kGraphLaunch;
    uses.push_back({objects_of_buffers(program) + operation.graph, !launch});
    if (launch) {
      for (const Operation& node : program.operations[program.captures[operation.graph]].nodes)
        add_uses(uses, program, node);
    }
  }
  return uses;
}

std::string text_of(const Program& program, unsigned index) {
  const Operation& operation = program.operations[index];
  std::string text = "#" + std::to_string(index) + " step " + std::to_string(operation.step) + " thread " +
                     std::to_string(operation.thread);
  if (operation.stream != kNone) {
    const Stream& stream = program.streams[operation.stream];
    text += " stream " + std::to_string(operation.stream) + " (" + name_of(stream.kind) + ")";
  }
  text += ": " + text_of(program, operation);
  add_list(text, " | issued:", operation.after_issue);
  add_list(text, " | stream waits:", operation.stream_waits);
  add_list(text, " | host waits:", operation.host_waits);
  return text;
}

std::string text_of(const Program& program) {
  std::string text;
  for (unsigned i = 0; i < program.operations.size(); ++i) text += text_of(program, i) + "\n";
  return text;
}

}  // namespace storm
