// The special tokens around a text's tokens: "post_processor" of a tokenizer.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_reader.h"

namespace moesh::tokenizer {

class PostProcessor {
 public:
  PostProcessor() = default;
  PostProcessor(const Json& json, const std::string& where);

  // In order: the text, or tokens that are put around it. Without special tokens only the texts count.
  struct Part {
    bool is_text;
    std::vector<std::int32_t> ids;
  };
  const std::vector<Part>& parts() const { return parts_; }

 private:
  void add(const Json& json, const std::string& where);
  void add_template(const Json& json, const std::string& where);
  void add_between(const Json& json, const std::string& where);

  std::vector<Part> parts_{{true, {}}};
  bool has_parts_ = false;
};

}  // namespace moesh::tokenizer
