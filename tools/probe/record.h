#pragma once

#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tidepool::probe {

/// Measurements of one thing. Quantiles are by nearest rank, so each is a value that was measured; the median
/// is the mean of the middle two of an even number.
class Samples {
 public:
  void add(double value) { values_.push_back(value); }
  [[nodiscard]] std::size_t count() const noexcept { return values_.size(); }
  [[nodiscard]] bool empty() const noexcept { return values_.empty(); }
  /// The value at this quantile, from 0 (the least) to 1 (the greatest); 0 if nothing was measured.
  [[nodiscard]] double quantile(double q) const;
  [[nodiscard]] double median() const;
  /// Sum of what values are above `limit`.
  [[nodiscard]] double excess_over(double limit) const;

 private:
  std::vector<double> values_;
};

/// What a field of a record can hold.
using Value = std::variant<bool, std::int64_t, std::uint64_t, double, std::string>;

/// A field of a record, in the order in which it is written.
struct Field {
  Field(std::string_view field, bool v) : name(field), value(v) {}
  Field(std::string_view field, int v) : name(field), value(std::int64_t{v}) {}
  Field(std::string_view field, std::int64_t v) : name(field), value(v) {}
  Field(std::string_view field, std::uint64_t v) : name(field), value(v) {}
  Field(std::string_view field, double v) : name(field), value(v) {}
  Field(std::string_view field, std::string_view v) : name(field), value(std::string(v)) {}
  Field(std::string_view field, const std::string& v) : name(field), value(v) {}
  Field(std::string_view field, const char* v) : name(field), value(std::string(v)) {}
  std::string name;
  Value value;
};
using Fields = std::vector<Field>;

/// Text as a JSON string, with its quotes. Control characters are escaped; bytes that are not ASCII are kept.
std::string json_text(std::string_view text);
/// A value in JSON; fractions with nine significant digits. Numbers that are not finite have no form there
/// and are written as null.
std::string json_value(const Value& value);

/// Writes what a section finds, one JSON object a line ("JSON Lines"), each flushed at once, so that a
/// section that is cut off has told what it knew. Not thread-safe.
///
/// Every line has "section" and "kind". Further members, by kind:
/// - start: "schema" ("tidepool.probe/1"), "unix_seconds", "preloaded", "quick" and, where a device could be
///   opened, "driver_version", "device", "compute_capability", "multiprocessors", "total_bytes",
///   "simulated" (the driver is simgpu). First line.
/// - result: "name", "params" (an object), "unit", "n", "min", "p50" (the median), "p90", "max". A measured
///   figure.
/// - answer: "name", "params" (left out if empty), "value" (text, number or truth value), "detail" (left out
///   if empty). What was observed.
/// - skipped: "name", "why". What could not be measured; nothing stands in for it.
/// - end: "seconds". Last line; if it is missing the section was cut off.
class Records {
 public:
  static constexpr std::string_view kSchema = "tidepool.probe/1";

  Records(std::FILE* out, std::string_view section) : out_(out), section_(section) {}

  void start(const Fields& fields);
  /// Samples that are empty are written as skipped.
  void result(std::string_view name, const Fields& params, std::string_view unit, const Samples& samples);
  void answer(std::string_view name, const Fields& params, const Value& value, std::string_view detail = "");
  void skipped(std::string_view name, std::string_view why);
  void end(double seconds);
  /// A line that is already complete, from a child of the same section.
  void forward(std::string_view line);

 private:
  void write(std::string_view kind, const std::string& members);

  std::FILE* out_;
  std::string section_;
};

}  // namespace tidepool::probe
