#include "tools/simgpu/timing/engines.h"

#include <algorithm>

namespace simgpu::timing {
namespace {

constexpr Nanos kPermille = 1000;

Engine opposite(Engine engine) {
  return engine == Engine::kCopyIn ? Engine::kCopyOut : Engine::kCopyIn;
}

/// How long `busy`, more than none, takes if for the time `shared` only `speed` thousandths of it pass.
Nanos beside(Nanos busy, Nanos shared, Nanos speed) {
  const Nanos all = busy * kPermille;
  const Nanos passes = shared * speed;
  if (passes >= all) return (all + speed - 1) / speed;
  return shared + (all - passes + kPermille - 1) / kPermille;
}

}  // namespace

const char* engine_name(Engine engine) noexcept {
  switch (engine) {
    case Engine::kCompute:
      return "compute";
    case Engine::kCopyIn:
      return "copy host to device";
    case Engine::kCopyOut:
      return "copy device to host";
    case Engine::kCopyLocal:
      return "copy on the device";
    case Engine::kNone:
      break;
  }
  return "none";
}

Span occupy(EngineClocks& clocks, const Work& work, Nanos ready, const Link& link) noexcept {
  if (work.engine == Engine::kNone) return {ready, ready + work.fixed + work.busy};
  const bool turns = link.copy_engines == 1 && work.engine != Engine::kCompute;
  Nanos& free = clocks.free[static_cast<std::size_t>(turns ? Engine::kCopyIn : work.engine)];
  Span span{std::max(ready, free), 0};
  span.end = span.start + work.fixed + work.busy;
  if (!turns && work.busy > 0 && (work.engine == Engine::kCopyIn || work.engine == Engine::kCopyOut)) {
    const Nanos from = span.start + work.fixed;
    const Nanos until = clocks.free[static_cast<std::size_t>(opposite(work.engine))];
    span.end = from + beside(work.busy, std::max<Nanos>(0, until - from), link.duplex_permille - kPermille);
  }
  free = span.end;
  return span;
}

bool LocalEngines::take(const Work& work, Nanos ready, bool, Span* out) {
  *out = occupy(clocks_[work.device], work, ready, links_[work.device]);
  return true;
}

}  // namespace simgpu::timing
