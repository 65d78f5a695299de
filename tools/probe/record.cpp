#include "tools/probe/record.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace tidepool::probe {
namespace {

std::string member(const Field& field) {
  return json_text(field.name) + ":" + json_value(field.value);
}

std::string members(const Fields& fields) {
  std::string text;
  for (const Field& field : fields) text += (text.empty() ? "" : ",") + member(field);
  return text;
}

/// `how`: what to_chars takes besides the number.
template <class Number, class... How>
std::string decimal(Number number, How... how) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), number, how...);
  return error == std::errc{} ? std::string(text.data(), end) : "null";
}

}  // namespace

double Samples::quantile(double q) const {
  if (values_.empty()) return 0;
  std::vector<double> sorted = values_;
  std::sort(sorted.begin(), sorted.end());
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

double Samples::median() const {
  if (values_.empty()) return 0;
  std::vector<double> sorted = values_;
  std::sort(sorted.begin(), sorted.end());
  return (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
}

double Samples::excess_over(double limit) const {
  double sum = 0;
  for (const double value : values_) sum += std::max(0.0, value - limit);
  return sum;
}

std::string json_text(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (code < 0x20 || code == 0x7f) {
      out += "\\u00";
      out += kHex[code >> 4];
      out += kHex[code & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string json_value(const Value& value) {
  struct Writer {
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(std::int64_t v) const { return decimal(v); }
    std::string operator()(std::uint64_t v) const { return decimal(v); }
    std::string operator()(double v) const {
      constexpr int kDigits = 9;  // more than any clock here can tell
      return std::isfinite(v) ? decimal(v, std::chars_format::general, kDigits) : "null";
    }
    std::string operator()(const std::string& v) const { return json_text(v); }
  };
  return std::visit(Writer{}, value);
}

void Records::start(const Fields& fields) {
  std::string line = "{" + member({"schema", kSchema}) + "," + member({"section", section_}) + ",";
  line += member({"kind", "start"}) + "," + members(fields) + "}";
  forward(line);
}

void Records::result(std::string_view name, const Fields& params, std::string_view unit,
                     const Samples& samples) {
  if (samples.empty()) return skipped(name, "nothing was measured in the time given");
  const Fields figures = {{"unit", unit},
                          {"n", std::uint64_t{samples.count()}},
                          {"min", samples.quantile(0)},
                          {"p50", samples.median()},
                          {"p90", samples.quantile(0.9)},
                          {"max", samples.quantile(1)}};
  write("result", member({"name", name}) + ",\"params\":{" + members(params) + "}," + members(figures));
}

void Records::answer(std::string_view name, const Fields& params, const Value& value,
                     std::string_view detail) {
  std::string line = member({"name", name});
  if (!params.empty()) line += ",\"params\":{" + members(params) + "}";
  line += ",\"value\":" + json_value(value);
  if (!detail.empty()) line += "," + member({"detail", detail});
  write("answer", line);
}

void Records::skipped(std::string_view name, std::string_view why) {
  write("skipped", members({{"name", name}, {"why", why}}));
}

void Records::end(double seconds) {
  write("end", member({"seconds", seconds}));
}

void Records::write(std::string_view kind, const std::string& members) {
  forward("{" + member({"section", section_}) + "," + member({"kind", kind}) + "," + members + "}");
}

void Records::forward(std::string_view line) {
  std::fwrite(line.data(), 1, line.size(), out_);
  std::fputc('\n', out_);
  std::fflush(out_);
}

}  // namespace tidepool::probe
