#include "tokenizer/tokenizer_json.h"

#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include "base/log.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/decoder.h"
#include "tokenizer/fields.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/post_processor.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/unigram.h"
#include "tokenizer/word_piece.h"

namespace moesh::tokenizer {
namespace {

using Model = std::variant<Bpe, Unigram, WordPiece, WordLevel>;

struct Kind {
  const char* type;
  const char* words;
  Model (*read)(const Json& json, const std::string& where);
};
template <typename T>
Model read_as(const Json& json, const std::string& where) {
  return T(json, where);
}
constexpr Kind kKinds[] = {{"BPE", "byte pairs", read_as<Bpe>},
                           {"Unigram", "unigrams", read_as<Unigram>},
                           {"WordPiece", "pieces of words", read_as<WordPiece>},
                           {"WordLevel", "whole words", read_as<WordLevel>}};

// Older files do not say what kind of model they have.
std::string type_of_model(const Json& model, const std::string& where) {
  if (model.contains("type")) return type_of(model, where);
  return model.contains("merges")                     ? "BPE"
         : model.contains("max_input_chars_per_word") ? "WordPiece"
         : model.contains("unk_id")                   ? "Unigram"
                                                      : "WordLevel";
}

const Kind& kind_of(const Json& model, const std::string& where) {
  const std::string type = type_of_model(model, where);
  for (const Kind& kind : kKinds) {
    if (type == kind.type) return kind;
  }
  refuse_type("a model", type, "BPE, Unigram, WordPiece, WordLevel", where);
}

// The part of that name, or one that does nothing if it is missing or null.
template <typename T>
T read_part(const Json& json, const char* name, const std::string& path) {
  if (!json.contains(name) || json[name].is_null()) return T();
  return T(json[name], fmt::format("{}: {}", path, name));
}

// Word caches, each of which is lent to one call at a time.
class Caches {
 public:
  WordCache take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return {};
    WordCache cache = std::move(idle_.back());
    idle_.pop_back();
    return cache;
  }
  void give_back(WordCache cache) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(cache));
  }

 private:
  std::mutex mutex_;
  std::vector<WordCache> idle_;
};

class JsonTokenizer : public Tokenizer {
 public:
  JsonTokenizer(const Json& json, const std::string& path)
      : path_(path),
        kind_(kind_of(child(json, "model", path), path + ": model")),
        model_(kind_.read(json["model"], path + ": model")),
        normalizer_(read_part<Normalizer>(json, "normalizer", path)),
        pre_tokenizer_(read_part<PreTokenizer>(json, "pre_tokenizer", path)),
        post_processor_(read_part<PostProcessor>(json, "post_processor", path)),
        decoder_(read_part<Decoder>(json, "decoder", path)),
        added_(json.contains("added_tokens") ? json["added_tokens"] : Json::array(), vocabulary(), normalizer_,
               path + ": added_tokens") {
    for (const PostProcessor::Part& part : post_processor_.parts()) {
      for (const std::int32_t id : part.ids) check_id(id);
    }
    const PostProcessor::Part& first = post_processor_.parts().front();
    if (!first.is_text && first.ids.size() == 1) begin_id = first.ids.front();
  }

  Ids encode(std::string_view text, Special special) const override {
    Ids ids;
    put_around(
        special, [&](std::int32_t id) { ids.push_back(id); },
        [&] {
          const Cut cut = cut_into_words(text, pre_tokenizer_.needs_origins());
          each_token(cut, [&](const Token& token, Bytes) { ids.push_back(token.id); });
        });
    return ids;
  }

  std::vector<Piece> pieces(std::string_view text, Special special) const override {
    std::vector<Piece> made;
    const auto put = [&](std::int32_t id, Bytes part) { made.push_back({id, this->token(id), part.begin, part.end}); };
    put_around(
        special,
        [&](std::int32_t id) {
          put(id, made.empty() ? Bytes{0, 0} : end_of(text));
        },
        [&] {
          const Cut cut = cut_into_words(text, true);
          each_token(cut, [&](const Token& token, Bytes word) {
            put(token.id, cut.text.origin({word.begin + token.part.begin, word.begin + token.part.end}));
          });
        });
    return made;
  }

  std::string decode(std::span<const std::int32_t> ids, Special special) const override {
    std::vector<std::string> tokens;
    tokens.reserve(ids.size());
    for (const std::int32_t id : ids) {
      std::string token = written(id);
      if (special == Special::added || !added_.is_special(token)) tokens.push_back(std::move(token));
    }
    return decoder_.run(std::move(tokens));
  }

  std::int64_t size() const override { return std::max(vocabulary().end(), added_.end()); }
  bool has(std::int32_t id) const override { return vocabulary().has(id) || added_.find(id) != nullptr; }

  std::string token(std::int32_t id) const override {
    check_id(id);
    const AddedToken* added = added_.find(id);
    return added != nullptr ? added->content : vocabulary().token(id);
  }

  std::optional<std::int32_t> id(std::string_view token) const override {
    const std::int32_t added = added_.id(token), id = added != kNone ? added : vocabulary().id(token);
    return id != kNone ? std::optional(id) : std::nullopt;
  }

  std::string describe() const override { return fmt::format("{} of {}", kind_.words, path_); }

 private:
  static Bytes end_of(std::string_view text) {
    return {static_cast<std::uint32_t>(text.size()), static_cast<std::uint32_t>(text.size())};
  }

  const Vocabulary& vocabulary() const {
    return std::visit([](const auto& model) -> const Vocabulary& { return model.vocabulary(); }, model_);
  }

  void check_id(std::int32_t id) const {
    if (has(id)) return;
    refuse(fmt::format("{} is the id of no token, those that there are lie below {}", id, size()), path_,
           "ids that this tokenizer has made");
  }

  // The token as decoders are given it.
  std::string written(std::int32_t id) const {
    const AddedToken* added = added_.find(id);
    return added != nullptr ? added->written : token(id);
  }

  template <typename Put, typename PutText>
  void put_around(Special special, Put put, PutText put_text) const {
    for (const PostProcessor::Part& part : post_processor_.parts()) {
      if (part.is_text) put_text();
      for (const std::int32_t id : part.ids) {
        if (special == Special::added) put(id);
      }
    }
  }

  Cut cut_into_words(std::string_view text, bool traces) const {
    Cut cut{TracedText(text, traces), {}};
    cut.splits.push_back({{0, cut.text.size()}});
    added_.cut_plain(cut);
    normalizer_.run(cut);
    std::erase_if(cut.splits, [](const Split& split) { return split.part.begin == split.part.end; });
    added_.cut_normalized(cut);
    pre_tokenizer_.run(cut);
    return cut;
  }

  // Calls see(token, word) in the order of the text.
  template <typename See>
  void each_token(const Cut& cut, See see) const {
    WordCache cache = caches_.take();
    std::visit([&](const auto& model) { each_token(model, cut, cache, see); }, model_);
    caches_.give_back(std::move(cache));
  }

  template <typename AnyModel, typename See>
  static void each_token(const AnyModel& model, const Cut& cut, WordCache& cache, See see) {
    std::vector<Token> made;
    for (const Split& split : cut.splits) {
      if (split.part.begin == split.part.end) continue;
      if (split.token != kNone) {
        see(Token{split.token, {0, split.part.end - split.part.begin}}, split.part);
        continue;
      }
      for (Bytes part = split.part; part.begin < split.part.end; part = {part.end, split.part.end}) {
        const std::string_view word = cut.text.text(part);
        part.end = part.begin + static_cast<std::uint32_t>(first_part(model, word));
        each_token_of_word(model, cut.text.text(part), cache, made, [&](const Token& token) { see(token, part); });
      }
    }
  }

  // Long words of byte pairs are cut into parts, most of which have been seen before.
  template <typename AnyModel>
  static std::size_t first_part(const AnyModel&, std::string_view word) {
    return word.size();
  }
  static std::size_t first_part(const Bpe& model, std::string_view word) { return model.first_part(word); }

  // `made`: a buffer that is used again.
  template <typename AnyModel, typename See>
  static void each_token_of_word(const AnyModel& model, std::string_view word, WordCache& cache,
                                 std::vector<Token>& made, See see) {
    if (const auto known = cache.find(word)) {
      for (const Token& token : *known) see(token);
      return;
    }
    made.clear();
    model.tokenize(word, made);
    cache.add(word, made);
    for (const Token& token : made) see(token);
  }

  std::string path_;
  const Kind& kind_;
  Model model_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  PostProcessor post_processor_;
  Decoder decoder_;
  AddedTokens added_;
  mutable Caches caches_;
};

}  // namespace

bool is_tokenizer_json(const Json& json) {
  return json.is_object() && json.contains("model") && json["model"].is_object();
}

std::unique_ptr<Tokenizer> read_tokenizer_json(const Json& json, const std::string& path) {
  if (!is_tokenizer_json(json))
    refuse("no tokenizer.json: it has no \"model\"", path, "name the tokenizer.json of a model, or its folder");
  const auto version = member_or<std::string>(json, "version", "1.0", path);
  if (version != "1.0") refuse(fmt::format("version '{}' of the format, 1.0 was expected", shorten(version, 40)), path);
  for (const char* part : {"truncation", "padding"}) {
    if (json.contains(part) && !json[part].is_null())
      log_notice(fmt::format("{}: its {} is left out, texts stay as long as they are", path, part));
  }
  return std::make_unique<JsonTokenizer>(json, path);
}

}  // namespace moesh::tokenizer
