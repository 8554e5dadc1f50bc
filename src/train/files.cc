#include "train/files.h"

#include <fmt/core.h>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "train/documents.h"
#include "train/json_lines.h"
#include "train/rows.h"

namespace moesh::train {
namespace {

// What is read for a use: which files, in which form, and which part of them.
struct Reading {
  const char *path, *columns, *tokenize;  // keys
  Split split;
};

Reading reading_of(const config::Settings& settings, Use use) {
  const double fraction = settings.real("eval_fraction");
  const bool has_own = !settings.text("eval_dataset_path").empty();
  const std::string& where = settings.origin("eval_fraction").where;
  if (has_own && fraction > 0) {
    refuse(fmt::format("eval_fraction={} holds out a validation set, and eval_dataset_path={} is one", fraction,
                       settings.text("eval_dataset_path")),
           where, "give one of them");
  }
  Reading reading{"dataset_path", "train_data_columns", "tokenize_train_data", {}};
  if (fraction > 0) reading.split = {use == Use::training ? Split::Side::training : Split::Side::evaluation, fraction, where};
  if (use == Use::training || fraction > 0) return reading;
  if (has_own) return {"eval_dataset_path", "eval_data_columns", "tokenize_eval_data", {}};
  refuse(fmt::format("eval_interval={} asks for evaluations, and there is no validation set", settings.integer("eval_interval")),
         settings.origin("eval_interval").where, "eval_dataset_path=FILE, or eval_fraction=0.01 to hold out a part of dataset_path");
}

// What is asked of a file of any kind.
void check_requests(const config::Settings& settings, const Reading& reading) {
  const auto where = [&](const char* key) { return settings.origin(key).where; };
  const std::string& type = settings.text("dataset_type");
  if (type == "text" && !settings.boolean(reading.tokenize)) {
    refuse(fmt::format("{}=false, but dataset_type=text holds no token ids", reading.tokenize), where(reading.tokenize),
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
  if (const std::size_t fields = settings.texts(reading.columns).size(); fields != 1) {
    refuse(fmt::format("{} names {} fields, 1 was expected", reading.columns, fields), where(reading.columns),
           fmt::format("{}=[text]", reading.columns));
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

std::unique_ptr<TokenSource> open_documents(const DataFiles& files, const config::Settings& settings, const Reading& reading,
                                            Order order) {
  const std::string& path = settings.text(reading.path);
  const std::string about = "the texts of " + path;
  const LineFormat format{settings.texts(reading.columns).front(), settings.boolean(reading.tokenize), reading.split};
  Documents documents = read_json_lines(files, format, settings);
  if (!settings.boolean("packing")) {
    return rows_of_documents(about, std::move(documents), order, settings.integer("max_target_length"),
                             settings.boolean("use_truncation"));
  }
  note_repetition(path, documents.size(), settings);
  return rows_of_stream(about, std::make_unique<HeldTokens>(std::move(documents.tokens)), std::move(documents.begins),
                        order);
}

std::unique_ptr<TokenSource> open_tokenized(const DataFiles& files, const config::Settings& settings, const std::string& path,
                                            Order order) {
  const DocumentTokens documents(settings);
  auto tokens = std::make_unique<HeldTokens>(tokens_of_files(files, documents));
  if (tokens->size() == 0) refuse("no token is made of the text", path, "a text that is not empty, or another tokenizer");
  note_repetition(path, tokens->size(), settings);
  return rows_of_stream(fmt::format("{}, the text of {}", documents.words(), path), std::move(tokens), {}, order);
}

std::unique_ptr<TokenSource> open_tokens(const DataFiles& files, const config::Settings& settings, const std::string& path, Order order) {
  const bool is_text = settings.text("dataset_type") == "text";
  if (is_text && !settings.text("tokenizer_path").empty()) return open_tokenized(files, settings, path, order);
  const int width = is_text ? 1 : width_of(files, settings);
  auto tokens = std::make_unique<FileTokens>(files, width, settings.integer("vocab_size"));
  note_repetition(path, tokens->size(), settings);
  const std::string about = is_text ? "the bytes of " + path : fmt::format("the {}-byte tokens of {}", width, path);
  return rows_of_stream(about, std::move(tokens), {}, order);
}

std::unique_ptr<TokenSource> open_stream(const DataFiles& files, const config::Settings& settings, const Reading& reading, Order order) {
  const std::string& path = settings.text(reading.path);
  if (reading.split.side == Split::Side::both) return open_tokens(files, settings, path, order);
  return rows_on_side(open_tokens(files, settings, path, {}), reading.split, settings.integer("max_target_length"), order);
}

}  // namespace

std::unique_ptr<TokenSource> open_file(const config::Settings& settings, Use use) {
  const Reading reading = reading_of(settings, use);
  check_requests(settings, reading);
  const bool is_shuffled = use == Use::training && settings.boolean("enable_data_shuffling");
  const Order order{is_shuffled, settings.integer("data_shuffle_seed")};
  const DataFiles files(settings.text(reading.path));
  const bool has_documents = settings.text("dataset_type") == "jsonl";
  return has_documents ? open_documents(files, settings, reading, order) : open_stream(files, settings, reading, order);
}

}  // namespace moesh::train
