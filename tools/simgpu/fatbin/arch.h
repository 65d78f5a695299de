#pragma once

#include <string>

namespace simgpu::fatbin {

/// A compute capability, such as 9.0.
struct Capability {
  int major = 0;
  int minor = 0;
};

/// What code was compiled for: 90 and 'a' for sm_90a or compute_90a. The suffix is 0 for code that runs on
/// later devices too, 'a' for code of one device alone, 'f' for a family (CUDA C++ programming guide,
/// "Compute capabilities", and nvcc's "GPU feature list").
struct Arch {
  int number = 0;
  char suffix = 0;

  friend bool operator==(const Arch&, const Arch&) = default;
  [[nodiscard]] int major() const { return number / 10; }
  [[nodiscard]] int minor() const { return number % 10; }
  /// "90a".
  [[nodiscard]] std::string text() const;
};

/// Binary code: same major number, and minor number not above the device's; with 'a' exactly the device's,
/// with 'f' the same family, whose members share the major number.
bool sass_runs_on(Arch arch, Capability device);

/// PTX is compiled for every device at or above its version; with 'a' or 'f' as binary code.
bool ptx_runs_on(Arch arch, Capability device);

/// True if the first suits a device better, where both run: the higher number, then 'a', 'f' and none.
bool suits_better(Arch first, Arch second);

}  // namespace simgpu::fatbin
