// The value of every key, and where it came from.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "config/schema.h"
#include "config/yaml.h"

namespace moesh::config {

enum class Source { schema, base, file, preset, rule_set, environment, command_line };

// One entry of logical_axis_rules: dims with the label `label` may be sharded over `axes`.
struct AxisRule {
  std::string label;
  std::vector<std::string> axes;
  std::string where;  // file:line, or the command line
  Source source = Source::schema;

  bool operator==(const AxisRule& other) const { return label == other.label && axes == other.axes; }
};

bool has_rule(const std::vector<AxisRule>& rules, std::string_view label);

// No value. Its copies are written out because GCC 12's library takes a variant of strings, vectors and otherwise trivial types for one
// that is never valueless, and then destroys what is not there if memory runs out in the middle of a copy.
struct Null {
  Null() = default;
  Null(const Null&) noexcept {}
  Null& operator=(const Null&) noexcept { return *this; }
  bool operator==(const Null&) const { return true; }
};

using Value = std::variant<Null, bool, std::int64_t, double, std::string, std::vector<std::string>,
                           std::vector<std::int64_t>, std::vector<AxisRule>>;

struct Origin {
  Source source = Source::schema;
  std::string where;  // "configs/models/mixtral-8x7b.yml:4", "the command line", ...
};

class Settings {
 public:
  Settings();  // the schema's defaults

  // Each asserts that the key is in the schema and has that kind.
  bool boolean(std::string_view key) const;
  std::int64_t integer(std::string_view key) const;
  double real(std::string_view key) const;  // integers too
  const std::string& text(std::string_view key) const;  // text and choice
  const std::vector<std::string>& texts(std::string_view key) const;
  const std::vector<std::int64_t>& integers(std::string_view key) const;
  const std::vector<AxisRule>& rules(std::string_view key) const;

  const Value& value(std::string_view key) const;
  bool is_null(std::string_view key) const { return std::holds_alternative<Null>(value(key)); }
  const Origin& origin(std::string_view key) const;
  bool is_given(std::string_view key) const;  // by anything but the schema or the built-in base file
  bool is_by_user(std::string_view key) const;  // by the user's file, the environment or the command line
  bool is_default(std::string_view key) const;

  void set(std::string_view key, Value value, Origin origin);

 private:
  struct Entry {
    Value value;
    Origin origin;
  };
  const Entry& entry(std::string_view key) const;

  std::map<std::string, Entry, std::less<>> entries_;
};

// Reads a value of the key's kind and checks its range. An error names the value, what was expected, and where.
Value read_value(const Key& key, const YamlNode& node);
Value read_value(const Key& key, std::string_view text, const std::string& where);

std::string to_string(const Value& value);

// The keys that moesh uses and that were given, with their values as text.
std::vector<std::pair<std::string, std::string>> given_settings(const Settings& settings);

}  // namespace moesh::config
