#include "train/json_lines.h"

#include <algorithm>
#include <optional>
#include <limits>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "store/hash.h"
#include "train/documents.h"

namespace moesh::train {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostBytes = std::int64_t{4} << 30;

// Reads the lines of a file, each known by its number.
class Reader {
 public:
  Reader(const LineFormat& format, const config::Settings& settings)
      : format_(format),
        adds_end_(settings.boolean("add_eos")),
        vocab_size_(settings.integer("vocab_size")) {
    if (format.is_text) documents_.emplace(settings);
  }

  void read(const std::string& path, std::string_view text) {
    for (std::int64_t number = 1; !text.empty(); ++number) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      const std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (!trim(line).empty()) add(line, fmt::format("{}:{}", path, number));
    }
  }

  Documents documents;
  std::int64_t seen = 0;  // with those that are not taken

 private:
  void add(std::string_view line, const std::string& where) {
    const Json json = Json::parse(line, nullptr, false);
    const Json content = json.is_object() && json.contains(format_.field) ? json[format_.field] : Json();
    Tokens tokens = format_.is_text ? documents_->of(text_of(content, where)) : ids_of(content, where);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] >= 0 && tokens[i] < vocab_size_) continue;
      refuse(fmt::format("token {} at position {} of the document, but vocab_size={}", tokens[i], i, vocab_size_),
             where, "a larger vocab_size, or the data that belongs to this model");
    }
    const bool is_taken = format_.split.takes(store::hash_of(tokens.data(), tokens.size() * sizeof(Tokens::value_type)));
    if (adds_end_ && !format_.is_text) tokens.push_back(0);
    if (tokens.empty()) return;
    ++seen;
    if (!is_taken) return;
    documents.begins.push_back(documents.size());
    documents.tokens.insert(documents.tokens.end(), tokens.begin(), tokens.end());
  }

  const std::string& text_of(const Json& content, const std::string& where) const {
    if (!content.is_string()) refuse(fmt::format("a line that is no JSON object with a \"{}\"", format_.field), where);
    return content.get_ref<const std::string&>();
  }

  // An id beyond 32 bits must not come out as another one.
  Tokens ids_of(const Json& content, const std::string& where) const {
    const bool is_ids =
        content.is_array() && std::all_of(content.begin(), content.end(), [](const Json& id) {
          return id.is_number_unsigned() && id.get<std::uint64_t>() <= std::numeric_limits<std::int32_t>::max();
        });
    if (!is_ids) refuse(fmt::format("a line without a list of token ids as \"{}\"", format_.field), where);
    return content.get<Tokens>();
  }

  const LineFormat& format_;
  bool adds_end_;
  std::optional<DocumentTokens> documents_;  // where lines hold text
  std::int64_t vocab_size_;
};

}  // namespace

Documents read_json_lines(const DataFiles& files, const LineFormat& format, const config::Settings& settings) {
  if (files.size() > kMostBytes) {
    refuse(fmt::format("{} of JSON Lines, at most {} are read whole", human_bytes(static_cast<double>(files.size())),
                       human_bytes(static_cast<double>(kMostBytes))),
           files.files().front().path, "make a file of token ids of them, dataset_type=tokens");
  }
  Reader reader(format, settings);
  for (const DataFile& file : files.files()) reader.read(file.path, whole_text(files, file));
  if (reader.seen == 0) refuse("no line holds text", files.files().front().path);
  format.split.check(static_cast<std::int64_t>(reader.documents.begins.size()), reader.seen, "document");
  return std::move(reader.documents);
}

}  // namespace moesh::train
