#include "tokenizer/post_processor.h"

#include "tokenizer/fields.h"
#include "tokenizer/vocabulary.h"

namespace moesh::tokenizer {
namespace {

constexpr const char* kKnown = "TemplateProcessing, ByteLevel, BertProcessing, RobertaProcessing, Sequence";

std::int32_t checked_id(const Json& id, const std::string& where) {
  const bool fits = id.is_number_unsigned() && id.get<std::uint64_t>() < static_cast<std::uint64_t>(kMostTokens);
  if (!fits) refuse(fmt::format("a special token with id {}", shortened(id, 40)), where);
  return id.get<std::int32_t>();
}

// ["[CLS]", 101]
std::int32_t named_token(const Json& json, const char* key, const std::string& where) {
  const Json& pair = list(json, key, where);
  if (pair.size() != 2) refuse(fmt::format("'{}' is no token with its id", key), where);
  return checked_id(pair[1], where);
}

}  // namespace

PostProcessor::PostProcessor(const Json& json, const std::string& where) { add(json, where); }

void PostProcessor::add(const Json& json, const std::string& where) {
  const std::string type = type_of(json, where);
  if (type == "Sequence") {
    for (const Json& one : list(json, "processors", where)) add(one, where);
  } else if (type == "ByteLevel") {
    // It only moves offsets, to leave blanks out of words; here offsets cover all that a token stands for.
  } else if (type == "TemplateProcessing") {
    add_template(json, where);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    add_between(json, where);
  } else {
    refuse_type("a post_processor", type, kKnown, where);
  }
}

void PostProcessor::add_template(const Json& json, const std::string& where) {
  if (std::exchange(has_parts_, true)) refuse("two post_processors that add tokens", where);
  const Json& special = child(json, "special_tokens", where);
  parts_.clear();
  for (const Json& one : list(json, "single", where)) {
    if (one.contains("Sequence")) {
      if (member<std::string>(one["Sequence"], "id", where) != "A")
        refuse("a template for one text names another one than A", where);
      parts_.push_back({true, {}});
      continue;
    }
    const auto name = member<std::string>(child(one, "SpecialToken", where), "id", where);
    Part part{false, {}};
    for (const Json& id : list(child(special, name.c_str(), where), "ids", where))
      part.ids.push_back(checked_id(id, where));
    parts_.push_back(std::move(part));
  }
}

void PostProcessor::add_between(const Json& json, const std::string& where) {
  if (std::exchange(has_parts_, true)) refuse("two post_processors that add tokens", where);
  parts_ = {{false, {named_token(json, "cls", where)}}, {true, {}}, {false, {named_token(json, "sep", where)}}};
}

}  // namespace moesh::tokenizer
