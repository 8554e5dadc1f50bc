#include "train/files.h"

#include <fmt/core.h>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "train/json_lines.h"
#include "train/rows.h"

namespace moesh::train {
namespace {

// What is asked of a file of any kind.
void check_requests(const config::Settings& settings) {
  const auto where = [&](const char* key) { return settings.origin(key).where; };
  const std::string& type = settings.text("dataset_type");
  if (type != "tokens" && settings.boolean("tokenize_train_data") && !settings.text("tokenizer_path").empty()) {
    refuse(fmt::format("tokenizer_path={}, but moesh has only bytes as tokens", settings.text("tokenizer_path")),
           where("tokenizer_path"), "leave it out, or tokenize the data and give dataset_type=tokens");
  }
  if (type == "text" && !settings.boolean("tokenize_train_data")) {
    refuse("tokenize_train_data=false, but dataset_type=text holds bytes", where("tokenize_train_data"),
           "dataset_type=tokens, or jsonl with lists of token ids");
  }
  if (type != "jsonl" && !settings.boolean("packing")) {
    refuse(fmt::format("packing=false gives each document a row, but dataset_type={} knows no documents", type),
           where("packing"), "dataset_type=jsonl, or leave packing at true");
  }
  if (type != "tokens" && settings.text("token_bytes") != "detect") {
    refuse(fmt::format("token_bytes={}, but dataset_type={} has no files of token ids", settings.text("token_bytes"),
                       type),
           where("token_bytes"), "leave it out, or dataset_type=tokens");
  }
  if (type != "jsonl") return;
  if (settings.texts("train_data_columns").size() != 1) {
    refuse(
        fmt::format("train_data_columns names {} fields, 1 was expected", settings.texts("train_data_columns").size()),
        where("train_data_columns"), "train_data_columns=[text]");
  }
  if (settings.boolean("packing") && settings.integer("max_segments_per_seq") > 0) {
    refuse(fmt::format("max_segments_per_seq={}, but rows of a file take as many documents as they hold",
                       settings.integer("max_segments_per_seq")),
           where("max_segments_per_seq"), "leave it at -1, or packing=false for one a row");
  }
}

// A stream that is shorter than a row fills it by beginning again.
void note_repetition(const std::string& path, std::int64_t tokens, const config::Settings& settings) {
  const std::int64_t length = settings.integer("max_target_length") + 1;
  if (tokens >= length) return;
  log_notice(fmt::format("{}: {} of data, a row takes {}: each row holds all of it {:.1f} times", path,
                         counted(tokens, "token"), length, static_cast<double>(length) / static_cast<double>(tokens)));
}

std::unique_ptr<TokenSource> open_documents(const DataFiles& files, const config::Settings& settings, Order order) {
  const std::string& path = settings.text("dataset_path");
  const std::string about = "the texts of " + path;
  Documents documents = read_json_lines(files, settings);
  if (!settings.boolean("packing")) {
    return rows_of_documents(about, std::move(documents), order, settings.integer("max_target_length"),
                             settings.boolean("use_truncation"));
  }
  note_repetition(path, documents.size(), settings);
  return rows_of_stream(about, std::make_unique<HeldTokens>(std::move(documents.tokens)), std::move(documents.begins),
                        order);
}

std::unique_ptr<TokenSource> open_stream(const DataFiles& files, const config::Settings& settings, Order order) {
  const std::string& path = settings.text("dataset_path");
  const bool is_text = settings.text("dataset_type") == "text";
  const int width = is_text ? 1 : width_of(files, settings);
  auto tokens = std::make_unique<FileTokens>(files, width, settings.integer("vocab_size"));
  note_repetition(path, tokens->size(), settings);
  const std::string about = is_text ? "the bytes of " + path : fmt::format("the {}-byte tokens of {}", width, path);
  return rows_of_stream(about, std::move(tokens), {}, order);
}

}  // namespace

std::unique_ptr<TokenSource> open_file(const config::Settings& settings) {
  check_requests(settings);
  const Order order{settings.boolean("enable_data_shuffling"), settings.integer("data_shuffle_seed")};
  const DataFiles files(settings.text("dataset_path"));
  const bool has_documents = settings.text("dataset_type") == "jsonl";
  return has_documents ? open_documents(files, settings, order) : open_stream(files, settings, order);
}

}  // namespace moesh::train
