#include "train/data.h"

#include <algorithm>
#include <numeric>

#include <fmt/core.h>

#include "base/error.h"
#include "base/random.h"
#include "models/model.h"
#include "train/files.h"

namespace moesh::train {
namespace {

// The same random tokens at every step, as the reference's synthetic data has them.
class Synthetic : public TokenSource {
 public:
  Synthetic(const config::Settings& settings, std::int64_t rows)
      : rows_(rows),
        vocab_size_(static_cast<std::int32_t>(settings.integer("vocab_size"))),
        most_segments_(settings.boolean("packing") ? settings.integer("max_segments_per_seq") : 1) {}

  std::string describe() const override { return "synthetic tokens, one fixed batch"; }
  std::int64_t rows(std::int64_t) const override { return rows_; }

  std::vector<std::int32_t> row(std::int64_t row, std::int64_t length) const override {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(length));
    const RandomKey key = random_key(0);
    const auto first = static_cast<std::uint64_t>(row % rows_ * length);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = random_integer(key, first + i, 0, vocab_size_);
    return tokens;
  }

  Example example(std::int64_t row, std::int64_t length) const override {
    Example made = TokenSource::example(row, length);
    if (most_segments_ < 2 || length < 2) return made;
    made.segments = made.target_segments = segments(row % rows_, length);
    return made;
  }

 private:
  // The reference draws a number of segments, and the positions where they begin; positions count on through them.
  std::vector<std::int32_t> segments(std::int64_t row, std::int64_t length) const {
    const RandomKey key = random_key(42);
    const auto most = static_cast<std::int32_t>(std::min(most_segments_, length));
    const std::int32_t count = random_integer(split(key, 0), static_cast<std::uint64_t>(row), 2, most + 1);
    std::vector<float> scores(static_cast<std::size_t>(length - 1));
    for (std::size_t i = 0; i < scores.size(); ++i) {
      scores[i] = random_uniform(split(key, 1), static_cast<std::uint64_t>(row * (length - 1)) + i);
    }
    std::vector<std::size_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
    std::vector<std::int32_t> ids(static_cast<std::size_t>(length), 0);
    ids[0] = 1;
    for (std::int32_t i = 0; i < count - 1; ++i) ids[order[static_cast<std::size_t>(i)] + 1] = 1;
    std::partial_sum(ids.begin(), ids.end(), ids.begin());
    return ids;
  }

  std::int64_t rows_;
  std::int32_t vocab_size_;
  std::int64_t most_segments_;
};

// The first batch again and again.
class Reused : public TokenSource {
 public:
  Reused(std::unique_ptr<TokenSource> source, std::int64_t rows) : source_(std::move(source)), rows_(rows) {}

  std::string describe() const override { return source_->describe() + ", the first batch again and again"; }
  std::int64_t rows(std::int64_t) const override { return rows_; }
  std::vector<std::int32_t> row(std::int64_t row, std::int64_t length) const override {
    return source_->row(row % rows_, length);
  }
  Example example(std::int64_t row, std::int64_t length) const override {
    return source_->example(row % rows_, length);
  }

 private:
  std::unique_ptr<TokenSource> source_;
  std::int64_t rows_;
};

// One round, and padding behind it.
class Once : public TokenSource {
 public:
  explicit Once(std::unique_ptr<TokenSource> source) : source_(std::move(source)) {}

  std::string describe() const override { return source_->describe(); }
  std::int64_t rows(std::int64_t length) const override { return source_->rows(length); }
  std::vector<std::int32_t> row(std::int64_t row, std::int64_t length) const override {
    return row < rows(length - 1) ? source_->row(row, length) : std::vector<std::int32_t>(static_cast<std::size_t>(length), 0);
  }
  Example example(std::int64_t row, std::int64_t length) const override {
    if (row < rows(length)) return source_->example(row, length);
    Example padding = TokenSource::example(row, length);
    padding.segments.assign(padding.segments.size(), 0);
    padding.target_segments = padding.segments;
    return padding;
  }

 private:
  std::unique_ptr<TokenSource> source_;
};

bool is_synthetic(const config::Settings& settings) { return settings.text("dataset_type") == "synthetic"; }

std::unique_ptr<TokenSource> open_by_type(const config::Settings& settings, std::int64_t rows_to_load, Use use) {
  const std::string& type = settings.text("dataset_type");
  if (is_synthetic(settings)) return std::make_unique<Synthetic>(settings, rows_to_load);
  if (type == "text" || type == "jsonl" || type == "tokens") return open_file(settings, use);
  refuse(fmt::format("dataset_type={} is not read by moesh", type), settings.origin("dataset_type").where,
         "dataset_type=synthetic, or text, jsonl or tokens with dataset_path=FILE");
}

void check_token(std::int32_t token, std::int64_t vocab_size, std::int64_t row) {
  if (token >= 0 && token < vocab_size) return;
  refuse(fmt::format("token {} in row {}, the vocabulary has {}", token, row, vocab_size), "the data",
         "raise vocab_size, or use the data that belongs to this model");
}

}  // namespace

Example TokenSource::example(std::int64_t row, std::int64_t length) const {
  const std::vector<std::int32_t> tokens = this->row(row, length + 1);
  const auto size = static_cast<std::size_t>(length);
  Example made;
  made.inputs.assign(tokens.begin(), tokens.end() - 1);
  made.targets.assign(tokens.begin() + 1, tokens.end());
  made.positions.resize(size);
  std::iota(made.positions.begin(), made.positions.end(), 0);
  made.segments.assign(size, 1);
  made.target_segments.assign(size, 1);
  return made;
}

std::unique_ptr<TokenSource> open_source(const config::Settings& settings, std::int64_t rows_to_load) {
  std::unique_ptr<TokenSource> source = open_by_type(settings, rows_to_load, Use::training);
  if (settings.integer("reuse_example_batch") == 0) return source;
  return std::make_unique<Reused>(std::move(source), rows_to_load);
}

std::unique_ptr<TokenSource> open_validation(const config::Settings& settings, std::int64_t rows_to_load) {
  std::unique_ptr<TokenSource> source = open_by_type(settings, rows_to_load, Use::evaluation);
  // A fixed batch has as many rounds as are asked for.
  if (is_synthetic(settings)) return source;
  return std::make_unique<Once>(std::move(source));
}

run::Array places_in_rows(std::int64_t rows, std::int64_t length, run::Pool& pool) {
  run::Array places = pool.allocate({rows, length}, DType::int32);
  for (std::int64_t i = 0; i < rows * length; ++i) places.as<std::int32_t>()[i] = static_cast<std::int32_t>(i % length);
  return places;
}

Batch make_batch(const TokenSource& source, std::int64_t first_row, std::int64_t rows, std::int64_t length, std::int64_t vocab_size,
                 run::Pool& pool) {
  Batch batch;
  for (const char* name : {"inputs", "targets", "inputs_position", "inputs_segmentation", "targets_segmentation"}) {
    batch[name] = pool.allocate({rows, length}, DType::int32);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t number = first_row + r;
    const Example made = source.example(number, length);
    for (std::size_t s = 0; s < made.inputs.size(); ++s) {
      check_token(made.inputs[s], vocab_size, number);
      check_token(made.targets[s], vocab_size, number);
    }
    const auto put = [&](const char* name, const std::vector<std::int32_t>& from) {
      std::copy(from.begin(), from.end(), batch[name].as<std::int32_t>() + r * length);
    };
    put("inputs", made.inputs);
    put("targets", made.targets);
    put("inputs_position", made.positions);
    put("inputs_segmentation", made.segments);
    put("targets_segmentation", made.target_segments);
  }
  batch[models::inputs::order] = places_in_rows(rows, length, pool);
  return batch;
}

Batches::Batches(const config::Settings& settings, const config::BatchSizes& sizes, std::int64_t vocab_size)
    : source_(open_source(settings, sizes.rows_to_load)),
      sizes_(sizes),
      length_(settings.integer("max_target_length")),
      vocab_size_(vocab_size) {}

Batch Batches::at(std::int64_t step, run::Pool& pool) const {
  return make_batch(*source_, first_row(step), sizes_.rows_to_train, length_, vocab_size_, pool);
}

void Batches::begin(std::int64_t step, std::int64_t row) {
  begin_step_ = step;
  begin_row_ = row;
}

}  // namespace moesh::train
