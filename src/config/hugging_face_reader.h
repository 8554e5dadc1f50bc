// Takes a config.json apart key by key. Every key that matters is asked for, so that keys that nobody asked for can be refused.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_reader.h"
#include "config/hugging_face.h"

namespace moesh::config {

class HuggingFaceReader {
 public:
  // `where`: the file. `path`: the place of this object in it, such as "rope_scaling."; `into`: where settings are collected.
  HuggingFaceReader(const Json& object, std::string where, std::string path, std::vector<HuggingFaceKey>& into);

  // Null if the key is absent or null. A key that was asked for counts as known.
  const Json* find(std::string_view name);
  std::int64_t integer(std::string_view name, std::optional<std::int64_t> otherwise = std::nullopt);
  double real(std::string_view name, std::optional<double> otherwise = std::nullopt);
  bool boolean(std::string_view name, std::optional<bool> otherwise = std::nullopt);
  std::string text(std::string_view name, const std::optional<std::string>& otherwise = std::nullopt);
  std::vector<std::string> texts(std::string_view name);  // empty if it is absent
  std::vector<std::int64_t> integers(std::string_view name);

  // Gives a setting that follows from the key that was asked for last.
  void give(std::string_view key, const std::string& value);
  void give(std::string_view key, const char* value) { give(key, std::string(value)); }
  void give(std::string_view key, std::int64_t value);
  void give(std::string_view key, double value);
  void give(std::string_view key, bool value);

  // These refuse a key that asks for something that is not done here: any value but these.
  void expect_off(std::string_view name);                           // absent, null, false, 0
  void expect_on(std::string_view name);                            // absent, null, true
  void expect_text(std::string_view name, std::string_view value);  // absent, or this text
  void ignore(std::initializer_list<std::string_view> names);
  [[noreturn]] void refuse_key(std::string_view name, const std::string& expected) const;

  void finish() const;  // refuses keys that nobody asked for

  const std::string& where() const { return where_; }
  std::string place(std::string_view name) const;
  std::vector<HuggingFaceKey>& settings() { return into_; }

 private:
  [[noreturn]] void refuse_type(std::string_view name, const char* expected) const;

  const Json& object_;
  std::string where_, path_;
  std::vector<HuggingFaceKey>& into_;
  std::set<std::string, std::less<>> known_;
  std::string last_;
};

}  // namespace moesh::config
