#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace simgpu::timing {

/// Nanoseconds of virtual time since the first process of the run called cuInit.
using Nanos = std::int64_t;

/// The parts of a device that work at the same time as each other and on one thing at a time each.
enum class Engine : std::uint8_t {
  kCompute,    ///< kernels and memsets
  kCopyIn,     ///< host to device
  kCopyOut,    ///< device to host
  kCopyLocal,  ///< inside the device and between devices
  kNone,       ///< needs no engine: events, waits, host functions
};
inline constexpr std::size_t kEngines = 4;
inline constexpr std::size_t kDevices = 16;

/// The word that reports and traces use.
const char* engine_name(Engine engine) noexcept;

/// What one operation asks of an engine.
struct Work {
  Engine engine = Engine::kNone;
  std::uint8_t device = 0;  ///< below kDevices
  Nanos fixed = 0;          ///< from the start until it moves or computes anything
  Nanos busy = 0;           ///< the rest, at full speed
};

/// From when to when an operation runs.
struct Span {
  Nanos start = 0;
  Nanos end = 0;
};

/// When each engine of a device is free again. All zero is the valid initial state, also in shared memory.
struct EngineClocks {
  std::array<Nanos, kEngines> free{};
};

/// What a device's copies can do.
struct Link {
  /// What both directions can do together, in thousandths of what one can do alone: 2000 is a link whose
  /// directions do not disturb each other, 1000 one that is used in turns.
  int duplex_permille = 2000;
  /// With one engine all copies take turns; with more the three kinds have one each.
  int copy_engines = 3;
};

/// Lets `work`, which is ready at `ready`, run on its engine as soon as that is free. Calls for one device
/// come in the order of `ready`.
///
/// A copy that starts while one in the other direction runs gets what that one leaves of the link; the one
/// that runs keeps its speed. So the sum is never more than the limit, and an end that was told stays true.
Span occupy(EngineClocks& clocks, const Work& work, Nanos ready, const Link& link) noexcept;

/// Who grants engines.
class Engines {
 public:
  Engines() = default;
  Engines(const Engines&) = delete;
  Engines& operator=(const Engines&) = delete;
  virtual ~Engines() = default;

  /// Gives the engine to work that is ready at `ready`. One caller's requests come in the order of `ready`.
  /// False, only if it may not wait: somebody else may still ask for an earlier time.
  virtual bool take(const Work& work, Nanos ready, bool may_wait, Span* out) = 0;
  /// This caller will ask for no time before `bound`; idle: and has nothing queued to ask for.
  virtual void promise(Nanos bound, bool idle) = 0;
};

/// Engines that nobody else uses.
class LocalEngines final : public Engines {
 public:
  explicit LocalEngines(const std::array<Link, kDevices>& links) : links_(links) {}

  bool take(const Work& work, Nanos ready, bool may_wait, Span* out) override;
  void promise(Nanos, bool) override {}

 private:
  std::array<Link, kDevices> links_;
  std::array<EngineClocks, kDevices> clocks_{};
};

}  // namespace simgpu::timing
