// Reads JSON that may hold anything: what is missing or of another type is refused by its name.
#pragma once

#include <string>
#include <string_view>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace moesh {

using Json = nlohmann::json;

// `where`: the file, for messages.
inline Json parse_json(std::string_view text, const std::string& where, int most_depth = 64) {
  if (nests_deeper(text, most_depth)) refuse(fmt::format("values nested more than {} deep", most_depth), where);
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) refuse("not readable as JSON", where);
  return json;
}

inline const Json& child(const Json& object, const char* key, const std::string& where) {
  if (!object.is_object() || !object.contains(key)) refuse(fmt::format("'{}' is missing", key), where);
  return object[key];
}

template <typename T>
T member(const Json& object, const char* key, const std::string& where) {
  const Json& value = child(object, key, where);
  try {
    return value.get<T>();
  } catch (const Json::exception&) {
    refuse(fmt::format("'{}' is {}, which is not of the type expected", key, shorten(value.dump(), 60)), where);
  }
}

}  // namespace moesh
