#include "tools/simgpu/fatbin/problem.h"

namespace simgpu::fatbin {

const char* describe(Problem problem) {
  switch (problem) {
    case Problem::kNone:
      return "nothing is wrong";
    case Problem::kUnreadable:
      return "its memory cannot be read";
    case Problem::kNotAnImage:
      return "it is neither a fat binary, a cubin nor PTX";
    case Problem::kTruncated:
      return "a part lies past the end of the image";
    case Problem::kCorrupt:
      return "its tables contradict each other";
    case Problem::kTooLarge:
      return "it is larger than simgpu reads";
    case Problem::kRelocatable:
      return "it has not been linked";
    case Problem::kNothingFits:
      return "nothing in it runs on this device";
  }
  return "unknown";
}

}  // namespace simgpu::fatbin
