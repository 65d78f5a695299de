#include "tests/fakes/recording_driver/faults.h"

#include <cstdio>
#include <cstdlib>

namespace tidepool::fakes {
namespace {

bool read_number(std::string_view text, unsigned long& out) {
  const std::string digits(text);
  char* end = nullptr;
  out = std::strtoul(digits.c_str(), &end, 10);
  return !digits.empty() && *end == '\0';
}

bool read_name_and_number(std::string_view text, std::string& name, int& number_after) {
  const std::size_t colon = text.rfind(':');
  unsigned long number = 0;
  if (colon == std::string_view::npos || !read_number(text.substr(colon + 1), number)) return false;
  name = text.substr(0, colon);
  number_after = static_cast<int>(number);
  return true;
}

bool read_word(std::string_view word, Faults& out) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view key = word.substr(0, equals);
  const std::string_view value = word.substr(equals + 1);
  if (key == "newer") {
    out.newer = value;
  } else if (key == "function_params") {
    return read_name_and_number(value, out.function_params, out.function_params_error);
  } else if (key == "no_params") {
    return read_name_and_number(value, out.no_params, out.no_params_error);
  } else if (key == "slow") {
    return read_name_and_number(value, out.slow, out.slow_ms);
  } else if (key == "mps") {
    return read_number(value, out.mps);
  } else if (key == "illegal_sync") {
    return read_number(value, out.illegal_sync);
  } else if (key == "illegal_kernel") {
    out.illegal_kernel = value;
  } else {
    return false;
  }
  return !value.empty();
}

}  // namespace

bool parse_faults(std::string_view text, Faults& out) {
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    if (!read_word(text.substr(0, comma), out)) return false;
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return true;
}

const Faults& faults() {
  static const Faults read_once = [] {
    const char* const text = std::getenv("TP_RECORDING_FAULTS");
    Faults read;
    if (text != nullptr && !parse_faults(text, read)) {
      std::fprintf(stderr, "recording driver: TP_RECORDING_FAULTS=%s is not understood\n", text);
      std::_Exit(2);
    }
    return read;
  }();
  return read_once;
}

}  // namespace tidepool::fakes
