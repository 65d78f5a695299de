#include "tools/simgpu/digest/role_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace simgpu::digest {
namespace {

bool fits(const Rule& rule, const std::vector<Slot>& layout) {
  if (rule.param_count.has_value() && *rule.param_count != layout.size()) return false;
  for (const Rule::ParamSize& size : rule.sizes) {
    if (size.param >= layout.size() || layout[size.param].size != size.bytes) return false;
  }
  return true;
}

}  // namespace

const Rule* RoleFile::find(std::string_view plain_name, std::string_view mangled_name,
                           const std::vector<Slot>& layout) const {
  for (const Rule& rule : rules) {
    if (fits(rule, layout) && (matches(rule.pattern, plain_name) || matches(rule.pattern, mangled_name))) {
      return &rule;
    }
  }
  return nullptr;
}

std::uint32_t RoleLine::last_param() const {
  return std::max({place.param, count.place.param, from.param, step.param});
}

ParsedRoles load_roles(const std::string& path) {
  constexpr std::size_t kMaxBytes = std::size_t{4} << 20;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), &std::fclose);
  ParsedRoles failed;
  if (file == nullptr) {
    failed.error = "role file " + path + ": " + std::strerror(errno) + "; name a file that can be read";
    return failed;
  }
  std::string text;
  char buffer[1 << 14];
  for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, file.get())) > 0;) {
    text.append(buffer, n);
    if (text.size() > kMaxBytes) {
      failed.error = "role file " + path + ": larger than 4 MiB; is it the right file?";
      return failed;
    }
  }
  if (std::ferror(file.get()) != 0) {
    failed.error = "role file " + path + ": it cannot be read; is it a folder?";
    return failed;
  }
  return parse_roles(text, path);
}

bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;  // the last * that was met, and where its text would end
  std::size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace simgpu::digest
