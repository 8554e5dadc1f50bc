// How a text is cut into words before a model makes tokens of each: the steps under "pre_tokenizer" of a
// tokenizer.json.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/json_reader.h"
#include "tokenizer/cut.h"
#include "tokenizer/pattern.h"

namespace moesh::tokenizer {

// What becomes of the parts that a pattern matches.
enum class Delimiters { removed, isolated, merged_with_previous, merged_with_next, contiguous };

struct CutAt {
  Pattern pattern;
  Delimiters delimiters;
  bool inverts = false;  // what does not match is the delimiter
};
struct PrefixSpace {};  // before what does not begin with one
enum class Scheme { never, first, always };
struct MarkSpaces {
  std::string mark;  // instead of each
  Scheme scheme;     // where one is also put in front
};
struct AsByteCharacters {};
struct FixedLength {
  std::size_t length;  // code points
};

using PreTokenizerStep = std::variant<CutAt, PrefixSpace, MarkSpaces, AsByteCharacters, FixedLength>;

class PreTokenizer {
 public:
  PreTokenizer() = default;
  PreTokenizer(const Json& json, const std::string& where);

  void run(Cut& cut) const;
  // Whether it must be known where in the text a split began.
  bool needs_origins() const;

 private:
  void add(const Json& json, const std::string& where);
  void add_byte_level(const Json& json, const std::string& where);
  void add_metaspace(const Json& json, const std::string& where);

  std::vector<PreTokenizerStep> steps_;
};

// "prepend_scheme" and what older files have in its place; also of decoders.
Scheme read_scheme(const Json& json, const std::string& where);

}  // namespace moesh::tokenizer
