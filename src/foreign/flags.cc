#include "foreign/flags.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"

namespace moesh::foreign {
namespace {

bool is_variable(const std::string& value) { return value.find('$') != std::string::npos; }

[[noreturn]] void refuse_as(const Flag& flag, const std::string& what, const std::string& expected) {
  const bool holds_variable = std::any_of(flag.values.begin(), flag.values.end(), is_variable);
  refuse(fmt::format("{}, {} was expected", what, expected), flag.where,
         holds_variable ? "write the value of the shell's variable" : "correct it, or leave it out");
}

const std::string& only_value(const Flag& flag, const std::string& expected) {
  if (flag.values.empty()) refuse_as(flag, "no value", expected);
  if (flag.values.size() > 1) refuse_as(flag, fmt::format("several values, '{}'", shorten(join(flag.values, " "), 60)), expected);
  return flag.values.front();
}

[[noreturn]] void refuse_one(const Flag& flag, const std::string& expected) {
  refuse_as(flag, fmt::format("'{}'", shorten(join(flag.values, " "), 60)), expected);
}

}  // namespace

const Flag* Flags::find(std::string_view name) {
  asked_.insert(std::string(name));
  const auto found = std::find_if(all_.rbegin(), all_.rend(), [&](const Flag& flag) { return flag.name == name; });
  return found == all_.rend() ? nullptr : &*found;
}

bool Flags::is_given(std::string_view name) const {
  return std::any_of(all_.begin(), all_.end(), [&](const Flag& flag) { return flag.name == name; });
}

bool Flags::is_set(std::string_view name) {
  const Flag* flag = find(name);
  if (flag != nullptr && !flag->values.empty()) refuse_one(*flag, "no value");
  return flag != nullptr;
}

std::optional<std::string> Flags::text(std::string_view name) {
  const Flag* flag = find(name);
  if (flag == nullptr) return std::nullopt;
  const std::string& value = only_value(*flag, "a word");
  if (is_variable(value)) refuse_one(*flag, "a word");
  return value;
}

std::optional<std::int64_t> Flags::integer(std::string_view name, std::int64_t least, std::int64_t most) {
  const Flag* flag = find(name);
  if (flag == nullptr) return std::nullopt;
  const std::string expected = fmt::format("a whole number from {}", least);
  const std::optional<std::int64_t> value = parse_integer(only_value(*flag, expected));
  if (!value || *value < least) refuse_one(*flag, expected);
  if (*value > most) refuse_one(*flag, fmt::format("at most {}", with_commas(most)));
  return value;
}

std::optional<double> Flags::real(std::string_view name) {
  const Flag* flag = find(name);
  if (flag == nullptr) return std::nullopt;
  const std::optional<double> value = parse_real(only_value(*flag, "a number"));
  if (!value || !(*value > -1e15 && *value < 1e15)) refuse_one(*flag, "a number");
  return value;
}

std::optional<bool> Flags::boolean(std::string_view name) {
  const Flag* flag = find(name);
  if (flag == nullptr) return std::nullopt;
  if (flag->values.empty()) return true;
  const std::string value = lower(only_value(*flag, "true or false"));
  if (value != "true" && value != "false") refuse_one(*flag, "true or false");
  return value == "true";
}

std::string Flags::choice(std::string_view name, std::string_view otherwise, const std::vector<std::string>& known) {
  const std::optional<std::string> value = text(name);
  if (!value) return std::string(otherwise);
  if (std::find(known.begin(), known.end(), *value) == known.end()) refuse_value(name, "one of " + join(known, ", "));
  return *value;
}

void Flags::refuse_value(std::string_view name, const std::string& expected) { refuse_one(*find(name), expected); }

std::vector<Flag> Flags::left() const {
  std::vector<Flag> all;
  std::set<std::string_view> seen;
  for (const Flag& flag : all_) {
    if (!asked_.contains(flag.name) && seen.insert(flag.name).second) all.push_back(flag);
  }
  return all;
}

std::vector<Flag> flags_of(const std::vector<std::string>& words, const std::string& where) {
  std::vector<Flag> flags;
  for (const std::string& word : words) {
    if (!word.starts_with("--") || word.size() == 2) {
      if (!flags.empty()) flags.back().values.push_back(word);
      continue;
    }
    const std::size_t equals = word.find('=');
    std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::string place = fmt::format("{}: --{}", where, shorten(name, 60));
    flags.push_back({std::move(name), {}, std::move(place)});
    if (equals != std::string::npos) flags.back().values.push_back(word.substr(equals + 1));
  }
  return flags;
}

std::vector<Flag> with_dashes(std::vector<Flag> flags) {
  for (Flag& flag : flags) std::replace(flag.name.begin(), flag.name.end(), '_', '-');
  return flags;
}

}  // namespace moesh::foreign
