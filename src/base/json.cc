#include "base/json.h"

#include <cmath>

#include <fmt/core.h>

#include "base/text.h"

namespace moesh {

void JsonWriter::separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (!first_) text_ += line_ ? "," : ", ";
  if (line_) text_ += "\n";
  first_ = false;
  line_ = false;
}

JsonWriter& JsonWriter::line() {
  line_ = true;
  return *this;
}

JsonWriter& JsonWriter::begin_object() {
  separate();
  text_ += "{";
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::end_object() {
  if (line_) text_ += "\n";
  line_ = false;
  text_ += "}";
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::begin_array() {
  separate();
  text_ += "[";
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::end_array() {
  if (line_) text_ += "\n";
  line_ = false;
  text_ += "]";
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  value(name);
  text_ += ": ";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::null() {
  separate();
  text_ += "null";
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  text_ += json;
  return *this;
}

JsonWriter& JsonWriter::value(bool b) {
  separate();
  text_ += b ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::value(std::int64_t i) {
  separate();
  text_ += std::to_string(i);
  return *this;
}

JsonWriter& JsonWriter::value(double d) {
  if (!std::isfinite(d)) return null();
  separate();
  text_ += fmt::format("{}", d);
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view s) {
  if (!is_valid_utf8(s)) return value(as_utf8(s));
  separate();
  text_ += '"';
  for (const char c : s) {
    switch (c) {
      case '"': text_ += "\\\""; break;
      case '\\': text_ += "\\\\"; break;
      case '\n': text_ += "\\n"; break;
      case '\t': text_ += "\\t"; break;
      case '\r': text_ += "\\r"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          text_ += fmt::format("\\u{:04x}", static_cast<int>(c));
        } else {
          text_ += c;
        }
    }
  }
  text_ += '"';
  return *this;
}

bool nests_deeper(std::string_view json, int most) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    switch (json[i]) {
      case '"': in_string = !in_string; break;
      case '\\': i += in_string ? 1 : 0; break;
      case '{':
      case '[':
        if (!in_string && ++depth > most) return true;
        break;
      case '}':
      case ']': depth -= in_string ? 0 : 1; break;
      default: break;
    }
  }
  return false;
}

}  // namespace moesh
