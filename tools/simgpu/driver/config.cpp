#include "tools/simgpu/driver/config.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace simgpu {
namespace {

constexpr std::uint64_t kFrame = std::uint64_t{2} << 20;

bool refuse(const char* name, std::string_view value, const char* want) {
  std::fprintf(stderr, "simgpu: error: %s=%.*s: want %s\n", name, static_cast<int>(value.size()),
               value.data(), want);
  return false;
}

template <class T>
bool parse_number(std::string_view text, T* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc{} && end == text.data() + text.size();
}

template <class T>
bool read_number(const char* name, T low, T high, const char* want, T* out) {
  const char* text = std::getenv(name);
  if (text == nullptr) return true;
  T value{};
  if (!parse_number(std::string_view(text), &value) || value < low || value > high) {
    return refuse(name, text, want);
  }
  *out = value;
  return true;
}

bool read_schedule(Schedule* out) {
  const char* text = std::getenv("SIMGPU_SCHEDULE");
  if (text == nullptr) return true;
  const std::string_view word(text);
  if (word == "adversarial") {
    *out = Schedule::kAdversarial;
  } else if (word == "inorder") {
    *out = Schedule::kInOrder;
  } else {
    return refuse("SIMGPU_SCHEDULE", word, "adversarial or inorder");
  }
  return true;
}

}  // namespace

bool Config::from_environment(Config* out) {
  Config c;
  if (const char* name = std::getenv("SIMGPU_NAME")) c.name = name;
  if (const char* path = std::getenv("SIMGPU_PAGE")) c.page_path = path;
  bool ok = read_number<std::uint64_t>("SIMGPU_MEMORY", kFrame, std::uint64_t{1} << 40,
                                       "bytes from 2097152 to 1099511627776", &c.memory_bytes);
  ok = read_number("SIMGPU_COMPUTE_MAJOR", 5, 99, "a number from 5 to 99", &c.compute_major) && ok;
  ok = read_number("SIMGPU_COMPUTE_MINOR", 0, 99, "a number from 0 to 99", &c.compute_minor) && ok;
  ok = read_number("SIMGPU_MULTIPROCESSORS", 1, 4096, "a number from 1 to 4096", &c.multiprocessors) && ok;
  ok = read_number("SIMGPU_DEVICE_BYTES_PER_NS", 1e-3, 1e6, "a rate from 0.001 to 1000000",
                   &c.device_bytes_per_ns) &&
       ok;
  ok = read_number("SIMGPU_LINK_BYTES_PER_NS", 1e-3, 1e6, "a rate from 0.001 to 1000000",
                   &c.link_bytes_per_ns) &&
       ok;
  ok = read_number<std::int64_t>("SIMGPU_LAUNCH_NS", 0, 1'000'000'000, "nanoseconds up to 1000000000",
                                 &c.launch_ns) &&
       ok;
  ok = read_number<std::uint64_t>("SIMGPU_SEED", 0, ~std::uint64_t{0}, "a number", &c.seed) && ok;
  ok = read_schedule(&c.schedule) && ok;
  c.memory_bytes = c.memory_bytes / kFrame * kFrame;
  if (ok) *out = c;
  return ok;
}

}  // namespace simgpu
