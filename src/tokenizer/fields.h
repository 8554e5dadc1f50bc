// Members of a tokenizer's JSON that may be missing, and kinds that are named by "type".
#pragma once

#include <string>

#include "base/json_reader.h"
#include "base/text.h"

namespace moesh::tokenizer {

// Returns `otherwise` if the member is missing or null.
template <typename T>
T member_or(const Json& json, const char* key, T otherwise, const std::string& where) {
  if (!json.is_object() || !json.contains(key) || json[key].is_null()) return otherwise;
  return member<T>(json, key, where);
}

inline std::string type_of(const Json& json, const std::string& where) {
  return member<std::string>(json, "type", where);
}

inline const Json& list(const Json& json, const char* key, const std::string& where) {
  const Json& made = child(json, key, where);
  if (!made.is_array()) refuse(fmt::format("'{}' is no list", key), where);
  return made;
}

// `what`: such as "a pre_tokenizer".
[[noreturn]] inline void refuse_type(const std::string& what, const std::string& type, const std::string& known,
                                     const std::string& where) {
  refuse(fmt::format("{} of type {} is not done", what, shorten(type, 60)), where, "one of " + known);
}

}  // namespace moesh::tokenizer
