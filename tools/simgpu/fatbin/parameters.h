#pragma once

#include <cstdint>
#include <vector>

#include "tools/simgpu/fatbin/attributes.h"
#include "tools/simgpu/fatbin/module.h"

namespace simgpu::fatbin {

/// Puts the parameters of one kernel together from its attributes, which stand in any order.
class ParamCollector {
 public:
  void take(const Attribute& attribute);

  /// True if what was taken is a whole layout: numbers without a gap, nothing overlapping, the end where the
  /// constant bank says it is. *out is the layout, or empty.
  [[nodiscard]] bool finish(std::vector<Param>* out);

 private:
  struct Numbered {
    std::uint16_t number;
    Param param;
  };

  void take_param(const Attribute& attribute);

  std::vector<Numbered> params_;
  std::uint32_t bank_bytes_ = 0;
  bool sound_ = true;
};

}  // namespace simgpu::fatbin
