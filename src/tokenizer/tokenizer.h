// Texts to token ids and back, as a model's tokenizer file says.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moesh::tokenizer {

using Ids = std::vector<std::int32_t>;

// A token of a text, and the bytes of the text that it stands for: none for a special token that was added.
struct Piece {
  std::int32_t id;
  std::string token;
  std::int64_t begin, end;
};

// Tokens that a tokenizer puts around a text, such as one that begins it.
enum class Special { added, left_out };

// May be used by several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Any bytes may be a text. What is not valid UTF-8 counts as U+FFFD: with a tokenizer.model one for each bad byte, with a tokenizer.json
  // one for each sequence that was begun.
  virtual Ids encode(std::string_view text, Special special) const = 0;
  virtual std::vector<Piece> pieces(std::string_view text, Special special) const = 0;

  // Refuses ids that the vocabulary does not have. `left_out`: special tokens give no text.
  virtual std::string decode(std::span<const std::int32_t> ids, Special special) const = 0;

  virtual std::int64_t size() const = 0;                 // one more than the largest id
  virtual bool has(std::int32_t id) const = 0;           // a vocabulary may have gaps
  virtual std::string token(std::int32_t id) const = 0;  // as the file writes it
  virtual std::optional<std::int32_t> id(std::string_view token) const = 0;
  virtual std::string describe() const = 0;  // "byte pairs of FILE"

  // The tokens that begin and end texts, if the files name any.
  std::optional<std::int32_t> begin_id, end_id;
};

enum class Format { sentencepiece, json };

// Whether a folder has a tokenizer.json or tokenizer.model.
bool is_in(const std::string& folder);

// Opens the tokenizer.json or tokenizer.model of a folder, or such a file. If a folder has both, the one that is asked for, otherwise
// tokenizer.json.
std::unique_ptr<Tokenizer> open(const std::string& path, std::optional<Format> format = {});

}  // namespace moesh::tokenizer
