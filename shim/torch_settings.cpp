#include "shim/torch_settings.h"

#include <cstring>

#include "allocator/support/text_writer.h"

namespace tidepool::shim {
namespace {

constexpr char kCudaName[] = "PYTORCH_CUDA_ALLOC_CONF";
constexpr char kName[] = "PYTORCH_ALLOC_CONF";

std::string_view trimmed(std::string_view text) noexcept {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// The value of a key in "key:value,key:value"; values may be lists in brackets, which hold commas and
/// colons. Null data: the key is not there. Of several the last counts, as in PyTorch.
std::string_view value_of(std::string_view settings, std::string_view key) noexcept {
  std::string_view found;
  while (!settings.empty()) {
    std::size_t end = 0;
    int depth = 0;
    for (; end < settings.size() && (settings[end] != ',' || depth > 0); ++end) {
      if (settings[end] == '[') ++depth;
      if (settings[end] == ']') --depth;
    }
    const std::string_view entry = settings.substr(0, end);
    const std::size_t colon = entry.find(':');
    if (colon != entry.npos && trimmed(entry.substr(0, colon)) == key)
      found = trimmed(entry.substr(colon + 1));
    settings.remove_prefix(end < settings.size() ? end + 1 : end);
  }
  return found;
}

}  // namespace

bool is_torch_settings(const char* variable) noexcept {
  return variable[0] == 'P' && (std::strcmp(variable, kCudaName) == 0 || std::strcmp(variable, kName) == 0);
}

const char* other_torch_settings(const char* variable) noexcept {
  return std::strcmp(variable, kCudaName) == 0 ? kName : kCudaName;
}

bool merge_torch_settings(std::string_view user, AllocChoice choice, char* out, std::size_t size) noexcept {
  std::string_view added = "backend:cudaMallocAsync";
  const std::string_view backend = value_of(user, "backend");
  if (choice == AllocChoice::kNative) {
    added = "max_split_size_mb:21";
    if (value_of(user, "max_split_size_mb").data() != nullptr) return false;
    if (backend.data() != nullptr && backend != "native") return false;
  } else if (backend.data() != nullptr) {
    return false;
  }
  const std::string_view kept = trimmed(user);
  const bool is_joined = !kept.empty() && kept.back() != ',';
  if (kept.size() + added.size() + 2 > size) return false;
  TextWriter(out, size).put(kept).put(is_joined ? "," : "").put(added);
  return true;
}

}  // namespace tidepool::shim
