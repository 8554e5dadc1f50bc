// Cuts a text into words, each of which a model then turns into tokens: the steps under "pre_tokenizer" of a tokenizer.json.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/json_reader.h"
#include "tokenizer/cut.h"
#include "tokenizer/pattern.h"

namespace moesh::tokenizer {

// What happens to the parts that a pattern matches.
enum class Delimiters { removed, isolated, merged_with_previous, merged_with_next, contiguous };

struct CutAt {
  Pattern pattern;
  Delimiters delimiters;
  bool inverts = false;  // the parts that do not match are the delimiters
};
struct PrefixSpace {};  // puts a space before a split that does not begin with one
enum class Scheme { never, first, always };
struct MarkSpaces {
  std::string mark;  // replaces each space
  Scheme scheme;     // in front of which splits a mark is added too
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
  // Whether some step needs to know where in the text a split began.
  bool needs_origins() const;

 private:
  void add(const Json& json, const std::string& where);
  void add_byte_level(const Json& json, const std::string& where);
  void add_metaspace(const Json& json, const std::string& where);

  std::vector<PreTokenizerStep> steps_;
};

// Reads "prepend_scheme", or the key that older files have in its place; for decoders too.
Scheme read_scheme(const Json& json, const std::string& where);

}  // namespace moesh::tokenizer
