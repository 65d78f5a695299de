#include "tools/simgpu/cmd/json_writer.h"

#include <cstdio>
#include <stdexcept>
#include <utility>

namespace simgpu::cmd {

void JsonWriter::new_line(std::size_t depth) {
  out_ += '\n';
  out_.append(2 * depth, ' ');
}

void JsonWriter::open(std::string_view bracket, Layout layout) {
  if (depth_ == kDeepest) throw std::logic_error("JSON is nested too deeply");
  out_ += bracket;
  levels_[depth_++] = {bracket == "{" ? '}' : ']', layout, true};
}

void JsonWriter::begin(std::string_view name) {
  Level& level = levels_[depth_ - 1];
  if (!level.empty) out_ += ',';
  if (level.layout == Layout::kLines) {
    new_line(depth_);
  } else {
    out_ += ' ';
  }
  level.empty = false;
  if (name.empty()) return;
  put_text(name);
  out_ += ": ";
}

void JsonWriter::put_text(std::string_view value) {
  out_ += '"';
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      out_ += '\\';
      out_ += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      out_ += escape;
    } else {
      out_ += c;
    }
  }
  out_ += '"';
}

JsonWriter& JsonWriter::object(std::string_view name, Layout layout) {
  begin(name);
  open("{", layout);
  return *this;
}

JsonWriter& JsonWriter::array(std::string_view name, Layout layout) {
  begin(name);
  open("[", layout);
  return *this;
}

JsonWriter& JsonWriter::element(Layout layout) {
  begin("");
  open("{", layout);
  return *this;
}

JsonWriter& JsonWriter::end() {
  const Level level = levels_[--depth_];
  if (!level.empty && level.layout == Layout::kLines) new_line(depth_);
  if (!level.empty && level.layout == Layout::kOneLine) out_ += ' ';
  out_ += level.closer;
  return *this;
}

JsonWriter& JsonWriter::text(std::string_view name, std::string_view value) {
  begin(name);
  put_text(value);
  return *this;
}

JsonWriter& JsonWriter::number(std::string_view name, std::uint64_t value) {
  begin(name);
  out_ += std::to_string(value);
  return *this;
}

JsonWriter& JsonWriter::null(std::string_view name) {
  begin(name);
  out_ += "null";
  return *this;
}

JsonWriter& JsonWriter::item(std::string_view value) {
  begin("");
  put_text(value);
  return *this;
}

std::string JsonWriter::take() {
  while (depth_ > 0) end();
  out_ += '\n';
  return std::move(out_);
}

}  // namespace simgpu::cmd
