#include "tools/simgpu/fatbin/arch.h"

namespace simgpu::fatbin {
namespace {

int rank(char suffix) {
  if (suffix == 'a') return 2;
  return suffix == 'f' ? 1 : 0;
}

}  // namespace

std::string Arch::text() const {
  std::string text = std::to_string(number);
  if (suffix != 0) text += suffix;
  return text;
}

bool sass_runs_on(Arch arch, Capability device) {
  if (arch.major() != device.major) return false;
  return arch.suffix == 'a' ? arch.minor() == device.minor : arch.minor() <= device.minor;
}

bool ptx_runs_on(Arch arch, Capability device) {
  if (arch.suffix != 0) return sass_runs_on(arch, device);
  return arch.number <= device.major * 10 + device.minor;
}

bool suits_better(Arch first, Arch second) {
  if (first.number != second.number) return first.number > second.number;
  return rank(first.suffix) > rank(second.suffix);
}

}  // namespace simgpu::fatbin
