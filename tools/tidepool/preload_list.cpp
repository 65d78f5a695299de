#include "tools/tidepool/preload_list.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace tidepool::tools {
namespace {

bool is_sanitizer_runtime(std::string_view entry) {
  const std::size_t slash = entry.rfind('/');
  const std::string_view name = slash == entry.npos ? entry : entry.substr(slash + 1);
  for (const std::string_view start :
       {"libasan.", "libtsan.", "libubsan.", "liblsan.", "libhwasan.", "libclang_rt."}) {
    if (name.starts_with(start)) return true;
  }
  return false;
}

}  // namespace

std::string preload_list(const char* before, const std::string& library) {
  const std::string_view text = before == nullptr ? "" : before;
  std::vector<std::string_view> entries;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find_first_of(": ", start), text.size());
    if (end > start) entries.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  if (std::find(entries.begin(), entries.end(), library) != entries.end()) return std::string(text);
  const auto place = std::find_if_not(entries.begin(), entries.end(), is_sanitizer_runtime);
  entries.insert(place, library);
  std::string merged;
  for (const std::string_view entry : entries) {
    if (!merged.empty()) merged += ':';
    merged += entry;
  }
  return merged;
}

}  // namespace tidepool::tools
