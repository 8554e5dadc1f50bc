#include "config/settings.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace moesh::config {
namespace {

// Every key's default is read from the schema's text once; an invalid row fails the first test that runs.
const std::vector<std::pair<std::string_view, Value>>& schema_defaults() {
  static const auto defaults = [] {
    std::vector<std::pair<std::string_view, Value>> values;
    for (const Topic& topic : topics()) {
      for (const Key& key : topic.keys) values.emplace_back(key.name, read_value(key, key.initial, "the schema"));
    }
    return values;
  }();
  return defaults;
}

}  // namespace

bool has_rule(const std::vector<AxisRule>& rules, std::string_view label) {
  return std::any_of(rules.begin(), rules.end(), [&](const AxisRule& rule) { return rule.label == label; });
}

Settings::Settings() {
  const Origin origin{Source::schema, "the defaults"};
  for (const auto& [name, value] : schema_defaults()) entries_.emplace(name, Entry{value, origin});
}

const Settings::Entry& Settings::entry(std::string_view key) const {
  const auto found = entries_.find(key);
  assert(found != entries_.end() && "a key that the schema lacks");
  return found->second;
}

const Value& Settings::value(std::string_view key) const { return entry(key).value; }
const Origin& Settings::origin(std::string_view key) const { return entry(key).origin; }

bool Settings::boolean(std::string_view key) const { return std::get<bool>(value(key)); }
std::int64_t Settings::integer(std::string_view key) const { return std::get<std::int64_t>(value(key)); }
double Settings::real(std::string_view key) const {
  if (const auto* integer = std::get_if<std::int64_t>(&value(key))) return static_cast<double>(*integer);
  return std::get<double>(value(key));
}
const std::string& Settings::text(std::string_view key) const { return std::get<std::string>(value(key)); }
const std::vector<std::string>& Settings::texts(std::string_view key) const {
  return std::get<std::vector<std::string>>(value(key));
}

const std::vector<std::int64_t>& Settings::integers(std::string_view key) const {
  return std::get<std::vector<std::int64_t>>(value(key));
}
const std::vector<AxisRule>& Settings::rules(std::string_view key) const {
  return std::get<std::vector<AxisRule>>(value(key));
}

bool Settings::is_given(std::string_view key) const {
  const Source source = origin(key).source;
  return source != Source::schema && source != Source::base;
}

bool Settings::is_by_user(std::string_view key) const {
  const Source source = origin(key).source;
  return source == Source::file || source == Source::environment || source == Source::command_line;
}

bool Settings::is_default(std::string_view key) const {
  for (const auto& [name, initial] : schema_defaults()) {
    if (name == key) return initial == value(key);
  }
  return false;
}

void Settings::set(std::string_view key, Value value, Origin origin) {
  const auto found = entries_.find(key);
  assert(found != entries_.end() && "a key that the schema lacks");
  found->second = {std::move(value), std::move(origin)};
}

std::vector<std::pair<std::string, std::string>> given_settings(const Settings& settings) {
  std::vector<std::pair<std::string, std::string>> given;
  for (const Topic& topic : topics()) {
    for (const Key& key : topic.keys) {
      if (key.status == Status::used && settings.is_given(key.name)) given.emplace_back(key.name, to_string(settings.value(key.name)));
    }
  }
  return given;
}

}  // namespace moesh::config
