#include "data/open.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/error.h"
#include "base/log.h"
#include "base/machine_cores.h"
#include "base/text.h"
#include "data/blend.h"
#include "data/document_rows.h"
#include "data/document_tokens.h"
#include "data/json_lines.h"
#include "data/megatron.h"
#include "data/rows.h"
#include "data/synthetic.h"
#include "data/text_pieces.h"

namespace moesh::data {
namespace {

enum class Use { training, evaluation };

constexpr std::int64_t kReadWhole = 4 << 20;  // bytes of text that are tokenized at once
constexpr int kMostThreads = 4;               // that read and tokenize ahead of the step

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
  const bool has_documents = type == "jsonl" || type == "megatron";
  if (type == "text" && !settings.boolean(reading.tokenize)) {
    refuse(fmt::format("{}=false, but dataset_type=text holds no token ids", reading.tokenize), where(reading.tokenize),
           "dataset_type=tokens, or jsonl with lists of token ids");
  }
  if (!has_documents && !settings.boolean("packing")) {
    refuse(fmt::format("packing=false gives each document a row, but dataset_type={} knows no documents", type),
           where("packing"), "dataset_type=jsonl, or leave packing at true");
  }
  if (type != "tokens" && settings.text("token_bytes") != "detect") {
    refuse(fmt::format("token_bytes={}, but dataset_type={} has no files of token ids", settings.text("token_bytes"),
                       type),
           where("token_bytes"), "leave it out, or dataset_type=tokens");
  }
  if (!has_documents) return;
  if (const std::size_t fields = settings.texts(reading.columns).size(); type == "jsonl" && fields != 1) {
    refuse(fmt::format("{} names {} fields, 1 was expected", reading.columns, fields), where(reading.columns),
           fmt::format("{}=[text]", reading.columns));
  }
  if (settings.boolean("packing") && settings.integer("max_segments_per_seq") > 0) {
    refuse(fmt::format("max_segments_per_seq={}, but rows of a file take as many documents as they hold",
                       settings.integer("max_segments_per_seq")),
           where("max_segments_per_seq"), "leave it at -1, or packing=false for one a row");
  }
}

Packing packing_of(const config::Settings& settings) {
  if (settings.boolean("packing")) return Packing::full;
  return settings.boolean("use_truncation") ? Packing::cut : Packing::split;
}

// Opens one of the paths that a use reads.
class Opener {
 public:
  Opener(const config::Settings& settings, Reading reading, Use use)
      : settings_(settings), reading_(std::move(reading)), length_(settings.integer("max_target_length")) {
    order_ = {use == Use::training && settings.boolean("enable_data_shuffling"), settings.integer("data_shuffle_seed")};
  }

  std::unique_ptr<TokenSource> open(const std::string& path) const {
    const std::string& type = settings_.text("dataset_type");
    if (type == "megatron") return documents(read_megatron(path, reading_.split, settings_));
    DataFiles files(path);
    if (type == "jsonl") {
      const LineFormat format{settings_.texts(reading_.columns).front(), settings_.boolean(reading_.tokenize), reading_.split};
      return documents(read_json_lines(std::move(files), format, settings_));
    }
    const bool is_tokenized = type == "text" && !settings_.text("tokenizer_path").empty();
    if (is_tokenized && files.size() > kReadWhole) return documents(read_text_pieces(std::move(files), reading_.split, settings_));
    if (reading_.split.side == Split::Side::both) return stream(files, path, order_);
    return rows_on_side(stream(files, path, {}), reading_.split, length_, order_);
  }

 private:
  std::unique_ptr<TokenSource> documents(std::unique_ptr<DocumentReader> reader) const {
    const int threads = std::clamp(usable_cores(), 1, kMostThreads);
    return rows_of_documents(std::move(reader), {order_, reading_.split, packing_of(settings_), length_, threads});
  }

  std::unique_ptr<TokenSource> stream(const DataFiles& files, const std::string& path, Order order) const {
    std::string about;
    std::unique_ptr<TokenSequence> tokens;
    const bool is_text = settings_.text("dataset_type") == "text";
    if (is_text && !settings_.text("tokenizer_path").empty()) {
      const DocumentTokens documents(settings_);
      about = fmt::format("{}, the text of {}", documents.words(), path);
      tokens = std::make_unique<HeldTokens>(tokens_of_files(files, documents));
      if (tokens->size() == 0) refuse("no token is made of the text", path, "a text that is not empty, or another tokenizer");
    } else {
      const int width = is_text ? 1 : width_of(files, settings_);
      about = is_text ? "the bytes of " + path : fmt::format("the {}-byte tokens of {}", width, path);
      tokens = std::make_unique<FileTokens>(files, width, settings_.integer("vocab_size"));
    }
    if (tokens->size() <= length_) log_notice(repetition_words(about, tokens->size(), length_ + 1));
    return rows_of_stream(std::move(about), std::move(tokens), order);
  }

  const config::Settings& settings_;
  Reading reading_;
  std::int64_t length_;
  Order order_;
};

// Shares are for training; of a validation set every row is seen.
std::unique_ptr<TokenSource> open_files(const config::Settings& settings, Use use) {
  const Reading reading = reading_of(settings, use);
  check_requests(settings, reading);
  const Opener opener(settings, reading, use);
  std::vector<Weighted> shares;
  std::vector<std::unique_ptr<TokenSource>> all;
  for (const WeightedPath& of : weighted_paths(settings, reading.path)) {
    if (use == Use::training) shares.push_back({opener.open(of.path), of.weight});
    else all.push_back(opener.open(of.path));
  }
  return use == Use::training ? blended(std::move(shares), settings.integer("data_shuffle_seed")) : one_after_the_other(std::move(all));
}

bool is_synthetic(const config::Settings& settings) { return settings.text("dataset_type") == "synthetic"; }

std::unique_ptr<TokenSource> open_by_type(const config::Settings& settings, std::int64_t rows_to_load, Use use) {
  const std::string& type = settings.text("dataset_type");
  const std::string& where = settings.origin("dataset_type").where;
  if (is_synthetic(settings)) return synthetic(settings, rows_to_load);
  if (type == "text" || type == "jsonl" || type == "tokens" || type == "megatron") return open_files(settings, use);
  if (type == "parquet") {
    refuse("dataset_type=parquet is not read by moesh: Debian 12 has no library for it", where,
           "dataset_type=jsonl, of files that pyarrow or pandas makes: read_parquet(FILE).to_json(FILE, orient=\"records\", lines=True)");
  }
  refuse(fmt::format("dataset_type={} is not read by moesh", type), where,
         "dataset_type=synthetic, or text, jsonl, tokens or megatron with dataset_path=FILE");
}

}  // namespace

std::unique_ptr<TokenSource> open_source(const config::Settings& settings, std::int64_t rows_to_load) {
  std::unique_ptr<TokenSource> source = open_by_type(settings, rows_to_load, Use::training);
  return settings.integer("reuse_example_batch") == 0 ? std::move(source) : reused(std::move(source), rows_to_load);
}

std::unique_ptr<TokenSource> open_validation(const config::Settings& settings, std::int64_t rows_to_load) {
  std::unique_ptr<TokenSource> source = open_by_type(settings, rows_to_load, Use::evaluation);
  // A fixed batch has as many rounds as are asked for.
  return is_synthetic(settings) ? std::move(source) : once(std::move(source));
}

}  // namespace moesh::data
