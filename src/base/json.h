// The only writer of JSON, and a limit on the depth of JSON that is read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moesh {

class JsonWriter {
 public:
  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  JsonWriter& key(std::string_view name);
  JsonWriter& null();
  JsonWriter& value(bool b);
  JsonWriter& value(std::int64_t i);
  JsonWriter& value(int i) { return value(static_cast<std::int64_t>(i)); }
  JsonWriter& value(double d);  // null if it is not finite
  JsonWriter& value(const std::optional<double>& d) { return d ? value(*d) : null(); }
  JsonWriter& value(std::string_view s);
  JsonWriter& value(const char* s) { return value(std::string_view(s)); }
  JsonWriter& value(const std::string& s) { return value(std::string_view(s)); }
  JsonWriter& raw(std::string_view json);  // text that already is JSON
  JsonWriter& line();  // a line break before the next item, for readers and diffs

  template <typename T>
  JsonWriter& values(const std::vector<T>& all) {
    begin_array();
    for (const T& one : all) value(one);
    return end_array();
  }

  const std::string& text() const { return text_; }

 private:
  void separate();

  std::string text_;
  bool first_ = true;
  bool after_key_ = false;
  bool line_ = false;
};

// Whether lists and mappings are nested deeper than `most`. For text that is not JSON, either answer may come.
bool nests_deeper(std::string_view json, int most);

}  // namespace moesh
