#include "tools/simgpu/cmd/suggest.h"

#include <algorithm>
#include <numeric>

namespace simgpu::cmd {
namespace {

std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr std::size_t kFurthest = 3;
  std::size_t best = kFurthest + 1;
  const std::string* found = nullptr;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edits(word, candidate);
    if (distance < best && distance < candidate.size()) {
      best = distance;
      found = &candidate;
    }
  }
  return found == nullptr ? "" : " (did you mean '" + *found + "'?)";
}

}  // namespace simgpu::cmd
