// Reads JSON that may hold anything: a member that is missing or has another type is refused by its name.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace moesh {

using Json = nlohmann::json;

// `where`: the file, for messages.
Json parse_json(std::string_view text, const std::string& where, int most_depth = 64);

const Json& child(const Json& object, const char* key, const std::string& where);

// The value as JSON, cut to at most so many characters.
std::string shortened(const Json& value, int most);

// The value as the command line spells it: texts without quotes.
std::string word_of(const Json& value);

// Whether a value may be read as T. The JSON library converts any number or boolean to an integer; here an integer, and each element of a
// list of integers, must be a whole number that fits.
template <typename T>
bool holds(const Json& value, std::type_identity<T>) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    if (value.is_number_unsigned()) return std::in_range<T>(value.get<std::uint64_t>());
    return value.is_number_integer() && std::in_range<T>(value.get<std::int64_t>());
  }
  return true;
}
template <typename E>
bool holds(const Json& value, std::type_identity<std::vector<E>>) {
  return value.is_array() && std::all_of(value.begin(), value.end(), [](const Json& one) { return holds(one, std::type_identity<E>()); });
}
template <typename T>
bool holds(const Json& value) {
  return holds(value, std::type_identity<T>());
}

template <typename T>
T member(const Json& object, const char* key, const std::string& where) {
  const Json& value = child(object, key, where);
  try {
    if (holds<T>(value)) return value.get<T>();
  } catch (const Json::exception&) {  // the value has another type
  }
  refuse(fmt::format("'{}' is {}, which is not of the type expected", key, shortened(value, 60)), where);
}

}  // namespace moesh
