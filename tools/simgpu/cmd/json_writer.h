#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace simgpu::cmd {

/// Writes JSON member by member. Objects and arrays lie on one line each, or one member a line.
class JsonWriter {
 public:
  enum class Layout { kOneLine, kLines };

  JsonWriter() { open("{", Layout::kLines); }

  JsonWriter& object(std::string_view name, Layout layout = Layout::kOneLine);
  JsonWriter& array(std::string_view name, Layout layout = Layout::kLines);
  /// An object as the next element of an array.
  JsonWriter& element(Layout layout = Layout::kLines);
  /// Ends the innermost object or array.
  JsonWriter& end();

  JsonWriter& text(std::string_view name, std::string_view value);
  JsonWriter& number(std::string_view name, std::uint64_t value);
  JsonWriter& null(std::string_view name);
  /// A text as the next element of an array.
  JsonWriter& item(std::string_view value);

  /// Ends the whole and gives it away.
  std::string take();

 private:
  struct Level {
    char closer;
    Layout layout;
    bool empty;
  };
  static constexpr std::size_t kDeepest = 8;

  void open(std::string_view bracket, Layout layout);
  void begin(std::string_view name);
  void put_text(std::string_view value);
  void new_line(std::size_t depth);

  std::string out_;
  Level levels_[kDeepest] = {};
  std::size_t depth_ = 0;
};

}  // namespace simgpu::cmd
