#include "base/json_reader.h"

#include "base/json.h"
#include "base/text.h"

namespace moesh {

Json parse_json(std::string_view text, const std::string& where, int most_depth) {
  if (nests_deeper(text, most_depth)) refuse(fmt::format("values nested more than {} deep", most_depth), where);
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) refuse("not readable as JSON", where);
  return json;
}

const Json& child(const Json& object, const char* key, const std::string& where) {
  if (!object.is_object() || !object.contains(key)) refuse(fmt::format("'{}' is missing", key), where);
  return object[key];
}

std::string shortened(const Json& value, int most) { return shorten(value.dump(), most); }

std::string word_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

}  // namespace moesh
