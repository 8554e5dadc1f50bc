#include "data/open.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "config/data_kind.h"
#include "data/blend.h"
#include "data/document_rows.h"
#include "data/document_tokens.h"
#include "data/json_lines.h"
#include "data/megatron.h"
#include "data/rows.h"
#include "data/synthetic.h"
#include "data/text_form.h"
#include "data/text_pieces.h"

namespace moesh::data {
namespace {

enum class Use { training, evaluation };

constexpr std::int64_t kReadWhole = 4 << 20;  // most bytes of text that are tokenized all at once
constexpr int kMostThreads = 4;               // threads that read and tokenize ahead of the step, if the run has as many

// What is read for a use: the keys that say which files, in which form, and the split of them.
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
  if (use == Use::training && fraction > 0 && settings.integer("eval_interval") <= 0) {
    log_warning(fmt::format("eval_fraction={} keeps a part of the data from training, and nothing is evaluated: eval_interval=N does that",
                            fraction));
  }
  if (use == Use::training || fraction > 0) return reading;
  if (has_own) return {"eval_dataset_path", "eval_data_columns", "tokenize_eval_data", {}};
  refuse(fmt::format("eval_interval={} asks for evaluations, and there is no validation set", settings.integer("eval_interval")),
         settings.origin("eval_interval").where, "eval_dataset_path=FILE, or eval_fraction=0.01 to hold out a part of dataset_path");
}

// Refuses settings that do not fit the kind of file.
void check_requests(const config::Settings& settings, const Reading& reading) {
  const auto where = [&](const char* key) { return settings.origin(key).where; };
  const std::string& type = settings.text("dataset_type");
  const bool has_documents = config::has_documents(settings);
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
      : settings_(settings),
        reading_(std::move(reading)),
        length_(settings.integer("max_target_length")),
        is_text_(settings.text("dataset_type") == "text"),
        is_tokenized_(is_text_ && config::has_tokenizer(settings)) {
    order_ = {use == Use::training && settings.boolean("enable_data_shuffling"), settings.integer("data_shuffle_seed")};
  }

  std::unique_ptr<TokenSource> open(const std::string& path, int threads) {
    const std::string& type = settings_.text("dataset_type");
    if (type == "megatron") return documents(read_megatron(path, reading_.split, settings_), threads);
    DataFiles files(path);
    if (is_text_ || type == "jsonl") check_form(files);
    if (type == "jsonl") {
      const LineFormat format{settings_.texts(reading_.columns).front(), settings_.boolean(reading_.tokenize) ? tokens() : nullptr,
                              reading_.split, reading_.columns, reading_.tokenize};
      return documents(read_json_lines(std::move(files), format, settings_), threads);
    }
    if (is_tokenized_ && files.size() > kReadWhole) return documents(read_text_pieces(std::move(files), reading_.split, tokens()), threads);
    if (reading_.split.side == Split::Side::both) return stream(files, path, order_);
    return rows_on_side(stream(files, path, {}), reading_.split, length_, order_);
  }

 private:
  // One tokenizer for all sources.
  std::shared_ptr<const DocumentTokens> tokens() {
    if (tokens_ == nullptr) tokens_ = std::make_shared<const DocumentTokens>(settings_);
    return tokens_;
  }

  std::unique_ptr<TokenSource> documents(std::unique_ptr<DocumentReader> reader, int threads) const {
    return rows_of_documents(std::move(reader), {order_, reading_.split, packing_of(settings_), length_, threads});
  }

  std::unique_ptr<TokenSource> stream(const DataFiles& files, const std::string& path, Order order) {
    std::string about;
    std::unique_ptr<TokenSequence> sequence;
    if (is_tokenized_) {
      about = fmt::format("{}, the text of {}", tokens()->words(), path);
      sequence = std::make_unique<HeldTokens>(tokens_of_files(files, *tokens()));
      if (sequence->size() == 0) refuse("no token is made of the text", path, "a text that is not empty, or another tokenizer");
    } else {
      const int width = is_text_ ? 1 : width_of(files, settings_);
      about = is_text_ ? "the bytes of " + path : fmt::format("the {}-byte tokens of {}", width, path);
      sequence = std::make_unique<FileTokens>(files, width, settings_.integer("vocab_size"));
    }
    if (sequence->size() <= length_) log_notice(repetition_words(about, sequence->size(), length_ + 1));
    return rows_of_stream(std::move(about), std::move(sequence), length_, order);
  }

  const config::Settings& settings_;
  Reading reading_;
  std::int64_t length_;
  bool is_text_, is_tokenized_;
  Order order_;
  std::shared_ptr<const DocumentTokens> tokens_;  // set by the first source that needs them
};

// Sources that are mixed are read side by side, so they divide the threads among them.
std::unique_ptr<TokenSource> open_shares(const std::vector<WeightedPath>& paths, Opener& opener, int threads, std::int64_t seed) {
  const auto count = static_cast<int>(paths.size());
  std::vector<Weighted> sources;
  for (int i = 0; i < count; ++i) {
    const WeightedPath& of = paths[static_cast<std::size_t>(i)];
    sources.push_back({opener.open(of.path, threads / count + (i < threads % count ? 1 : 0)), of.weight});
  }
  return blended(std::move(sources), seed);
}

// Shares are for training; every row of a validation set is seen, one source after the other.
std::unique_ptr<TokenSource> open_files(const config::Settings& settings, Use use, int threads) {
  const Reading reading = reading_of(settings, use);
  check_requests(settings, reading);
  const int used = std::clamp(threads, 1, kMostThreads);
  const std::vector<WeightedPath> paths = weighted_paths(settings, reading.path);
  Opener opener(settings, reading, use);
  if (use == Use::training) return open_shares(paths, opener, used, settings.integer("data_shuffle_seed"));
  std::vector<std::unique_ptr<TokenSource>> sources;
  for (const WeightedPath& of : paths) sources.push_back(opener.open(of.path, used));
  return one_after_the_other(std::move(sources));
}

std::unique_ptr<TokenSource> open_by_type(const config::Settings& settings, std::int64_t rows_to_load, Use use, int threads) {
  const std::string& type = settings.text("dataset_type");
  const std::string& where = settings.origin("dataset_type").where;
  if (config::is_synthetic(settings)) return synthetic(settings, rows_to_load);
  if (config::reads_files(settings)) return open_files(settings, use, threads);
  if (type == "parquet") {
    refuse("dataset_type=parquet is not read by moesh: Debian 12 has no library for it", where,
           "dataset_type=jsonl, of files that pyarrow or pandas makes: read_parquet(FILE).to_json(FILE, orient=\"records\", lines=True)");
  }
  refuse(fmt::format("dataset_type={} is not read by moesh", type), where,
         "dataset_type=synthetic, or text, jsonl, tokens or megatron with dataset_path=FILE");
}

}  // namespace

std::unique_ptr<TokenSource> open_source(const config::Settings& settings, std::int64_t rows_to_load, int threads) {
  std::unique_ptr<TokenSource> source = open_by_type(settings, rows_to_load, Use::training, threads);
  return settings.integer("reuse_example_batch") == 0 ? std::move(source) : reused(std::move(source), rows_to_load);
}

std::unique_ptr<TokenSource> open_validation(const config::Settings& settings, std::int64_t rows_to_load, int threads) {
  std::unique_ptr<TokenSource> source = open_by_type(settings, rows_to_load, Use::evaluation, threads);
  // A fixed batch is repeated for as many rounds as are asked for.
  return config::is_synthetic(settings) ? std::move(source) : once(std::move(source));
}

}  // namespace moesh::data
