#include "tokenizer/tokenizer.h"

#include <filesystem>

#include <fmt/core.h>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/system.h"
#include "base/text.h"
#include "base/whole_file.h"
#include "tokenizer/fields.h"
#include "tokenizer/sentence_piece.h"
#include "tokenizer/tokenizer_json.h"

namespace moesh::tokenizer {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;
constexpr const char* kFix = "a folder with a tokenizer.json or tokenizer.model, or such a file";

const char* name_of(Format format) { return format == Format::json ? "tokenizer.json" : "tokenizer.model"; }

// The file in a folder; empty if there is none.
fs::path file_in(const fs::path& folder, std::optional<Format> format) {
  for (const Format one : {Format::json, Format::sentencepiece}) {
    if ((!format || *format == one) && is_there(folder / name_of(one))) return folder / name_of(one);
  }
  return {};
}

fs::path in_folder(const fs::path& folder, std::optional<Format> format) {
  if (fs::path file = file_in(folder, format); !file.empty()) return file;
  refuse(fmt::format("the folder has no {}", format ? name_of(*format) : "tokenizer.json and no tokenizer.model"),
         folder.string(), kFix);
}

// A file beside the tokenizer that describes its special tokens; an empty object if there is none.
Json beside(const fs::path& file, const char* name) {
  const fs::path path = file.parent_path() / name;
  if (!is_there(path)) return Json::object();
  const Json json =
      parse_json(read_file(path.string(), "the settings of the tokenizer", kMostBytes, kFix), path.string());
  if (!json.is_object()) refuse("the settings of a tokenizer are no object", path.string());
  return json;
}

// "<s>", or {"content": "<s>", ...}.
std::string named_token(const Json& json, const char* key) {
  if (!json.contains(key)) return "";
  const Json& token = json[key];
  if (token.is_string()) return token.get<std::string>();
  return token.is_object() && token.contains("content") && token["content"].is_string()
             ? token["content"].get<std::string>()
             : "";
}

std::optional<std::int32_t> special_id(const Tokenizer& tokenizer, const fs::path& file, const Json& settings,
                                       const char* key) {
  std::string name = named_token(settings, key);
  if (name.empty()) name = named_token(beside(file, "special_tokens_map.json"), key);
  return name.empty() ? std::nullopt : tokenizer.id(name);
}

std::unique_ptr<Tokenizer> open_json(const fs::path& file, const std::string& bytes) {
  auto tokenizer = read_tokenizer_json(parse_json(bytes, file.string()), file.string());
  const Json settings = beside(file, "tokenizer_config.json");
  if (const auto named = special_id(*tokenizer, file, settings, "bos_token")) tokenizer->begin_id = named;  // else what begins its texts
  tokenizer->end_id = special_id(*tokenizer, file, settings, "eos_token");
  return tokenizer;
}

std::unique_ptr<Tokenizer> open_sentence_piece(const fs::path& file, const std::string& bytes) {
  const Json settings = beside(file, "tokenizer_config.json");
  const std::string where = file.parent_path() / "tokenizer_config.json";
  return read_sentence_piece(bytes, file.string(),
                             {member_or<bool>(settings, "add_bos_token", true, where),
                              member_or<bool>(settings, "add_eos_token", false, where)});
}

}  // namespace

bool is_in(const std::string& folder) { return !file_in(folder, {}).empty(); }

std::unique_ptr<Tokenizer> open(const std::string& path, std::optional<Format> format) {
  const fs::path file = is_folder(path) ? in_folder(path, format) : fs::path(path);
  if (file.extension() == ".tiktoken")
    refuse("files of tiktoken are not read", path,
           "convert it to a tokenizer.json, as most models that use it have one");
  const std::string bytes = read_file(file.string(), "the tokenizer", kMostBytes, kFix);
  const Format found = trim(bytes).starts_with('{') ? Format::json : Format::sentencepiece;
  if (format && *format != found)
    refuse(fmt::format("a {} was asked for, the file is none", name_of(*format)), file.string(), kFix);
  return found == Format::json ? open_json(file, bytes) : open_sentence_piece(file, bytes);
}

}  // namespace moesh::tokenizer
