#include "config/hugging_face_reader.h"

#include <cmath>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"

namespace moesh::config {
namespace {

// Whether a value leaves a feature off: null, false, 0 or empty.
bool is_off(const Json& value) { return value.empty() || value == false || value == 0 || value == ""; }

}  // namespace

HuggingFaceReader::HuggingFaceReader(const Json& object, std::string where, std::string path,
                                     std::vector<HuggingFaceKey>& into)
    : object_(object), where_(std::move(where)), path_(std::move(path)), into_(into) {
  if (!object_.is_object())
    refuse("an object of keys and values was expected", where_ + (path_.empty() ? "" : ": " + path_));
}

std::string HuggingFaceReader::place(std::string_view name) const {
  return fmt::format("{}: {}{}", where_, path_, name);
}

const Json* HuggingFaceReader::find(std::string_view name) {
  last_ = name;
  known_.insert(last_);
  const auto found = object_.find(last_);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void HuggingFaceReader::refuse_type(std::string_view name, const char* expected) const {
  const auto found = object_.find(std::string(name));
  if (found == object_.end() || found->is_null())
    refuse(fmt::format("it is missing, {} was expected", expected), place(name));
  refuse(fmt::format("{}, {} was expected", shortened(*found, 60), expected), place(name));
}

std::int64_t HuggingFaceReader::integer(std::string_view name, std::optional<std::int64_t> otherwise) {
  const Json* value = find(name);
  if (value == nullptr && otherwise) return *otherwise;
  if (value == nullptr || !holds<std::int64_t>(*value)) refuse_type(name, "a whole number");
  return value->get<std::int64_t>();
}

double HuggingFaceReader::real(std::string_view name, std::optional<double> otherwise) {
  const Json* value = find(name);
  if (value == nullptr && otherwise) return *otherwise;
  if (value == nullptr || !value->is_number()) refuse_type(name, "a number");
  return value->get<double>();
}

bool HuggingFaceReader::boolean(std::string_view name, std::optional<bool> otherwise) {
  const Json* value = find(name);
  if (value == nullptr && otherwise) return *otherwise;
  if (value == nullptr || !value->is_boolean()) refuse_type(name, "true or false");
  return value->get<bool>();
}

std::string HuggingFaceReader::text(std::string_view name, const std::optional<std::string>& otherwise) {
  const Json* value = find(name);
  if (value == nullptr && otherwise) return *otherwise;
  if (value == nullptr || !value->is_string()) refuse_type(name, "text");
  return value->get<std::string>();
}

std::vector<std::string> HuggingFaceReader::texts(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr) return {};
  if (!value->is_array() || !std::all_of(value->begin(), value->end(), [](const Json& one) { return one.is_string(); }))
    refuse_type(name, "a list of words");
  return value->get<std::vector<std::string>>();
}

std::vector<std::int64_t> HuggingFaceReader::integers(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr) return {};
  if (!holds<std::vector<std::int64_t>>(*value)) refuse_type(name, "a list of whole numbers");
  return value->get<std::vector<std::int64_t>>();
}

void HuggingFaceReader::give(std::string_view key, const std::string& value) {
  into_.push_back({std::string(key), value, place(last_)});
}
void HuggingFaceReader::give(std::string_view key, std::int64_t value) { give(key, std::to_string(value)); }
// Whole numbers are written without a fraction, as some keys take no other.
void HuggingFaceReader::give(std::string_view key, double value) {
  const bool is_whole = std::floor(value) == value && std::abs(value) < 1e15;
  give(key, is_whole ? std::to_string(static_cast<std::int64_t>(value)) : fmt::format("{}", value));
}
void HuggingFaceReader::give(std::string_view key, bool value) { give(key, value ? "true" : "false"); }

void HuggingFaceReader::refuse_key(std::string_view name, const std::string& expected) const {
  refuse(fmt::format("{} asks for what moesh does not do: {} was expected",
                     shortened(object_.at(std::string(name)), 60), expected),
         place(name));
}

void HuggingFaceReader::expect_off(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr || is_off(*value)) return;
  refuse_key(name, value->is_boolean() ? "false" : value->is_number() ? "0" : "null");
}

void HuggingFaceReader::expect_on(std::string_view name) {
  if (!boolean(name, true)) refuse_key(name, "true");
}

void HuggingFaceReader::expect_text(std::string_view name, std::string_view expected) {
  const Json* value = find(name);
  if (value != nullptr && *value != std::string(expected)) refuse_key(name, std::string(expected));
}

void HuggingFaceReader::ignore(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) known_.emplace(name);
}

void HuggingFaceReader::finish() const {
  for (const auto& [name, value] : object_.items()) {
    if (known_.contains(name) || is_off(value)) continue;
    refuse(fmt::format("a key that moesh does not know, set to {}", shortened(value, 60)),
           place(shorten(name, 60)), "take it out if the model is the same without it");
  }
}

}  // namespace moesh::config
