#include "tools/simgpu/cmd/suggest.h"

#include "allocator/support/edit_distance.h"

namespace simgpu::cmd {

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string* const meant =
      tidepool::nearest_item(word, candidates, [](const std::string& c) -> std::string_view { return c; });
  return meant == nullptr ? "" : " (did you mean '" + *meant + "'?)";
}

}  // namespace simgpu::cmd
