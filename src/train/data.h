// Where batches come from. A batch depends on the step alone, so a run may stop and go on anywhere.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/model_shape.h"
#include "config/settings.h"
#include "train/trainer.h"

namespace moesh::train {

// What a row of a batch holds, S of each. Segment 0 is padding, which the loss leaves out.
struct Example {
  std::vector<std::int32_t> inputs, targets, positions, segments, target_segments;
};

// Token rows of length S + 1: inputs are all but the last, targets all but the first.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual std::string describe() const = 0;
  // Of one round through the data, each with `length` inputs; the stream goes on with the next round.
  virtual std::int64_t rows(std::int64_t length) const = 0;
  // Row `row` of the stream of all rows.
  virtual std::vector<std::int32_t> row(std::int64_t row, std::int64_t length) const = 0;
  // The same as a row of a batch with that many inputs; one segment where a source does not say otherwise.
  virtual Example example(std::int64_t row, std::int64_t length) const;
};

// dataset_type: synthetic (one fixed batch), text or jsonl (bytes as tokens, or those of tokenizer_path), tokens (ids of two or four
// bytes); all but the first are files, or folders of them.
std::unique_ptr<TokenSource> open_source(const config::Settings& settings, std::int64_t rows_to_load);

// The validation set: synthetic data are their own, of others it is what eval_dataset_path holds, or eval_fraction keeps from
// training. Its rows are in the order of the data, and behind the last of them there is only padding.
std::unique_ptr<TokenSource> open_validation(const config::Settings& settings, std::int64_t rows_to_load);

// Each token's place in its row: the order that attention goes by.
run::Array places_in_rows(std::int64_t rows, std::int64_t length, run::Pool& pool);

// Rows of the stream from one on, of tokens below `vocab_size`.
Batch make_batch(const TokenSource& source, std::int64_t first_row, std::int64_t rows, std::int64_t length, std::int64_t vocab_size,
                 run::Pool& pool);

// The batches of a run. Each step loads rows that follow those of the step before, and trains the first of them.
class Batches {
 public:
  Batches(const config::Settings& settings, const config::BatchSizes& sizes, std::int64_t vocab_size);

  std::string describe() const { return source_->describe(); }
  Batch at(std::int64_t step, run::Pool& pool) const;
  std::int64_t first_row(std::int64_t step) const { return begin_row_ + (step - begin_step_) * sizes_.rows_to_load; }
  // That step's rows begin at `row`, and the others' follow.
  void begin(std::int64_t step, std::int64_t row);

 private:
  std::unique_ptr<TokenSource> source_;
  config::BatchSizes sizes_;
  std::int64_t length_, vocab_size_;
  std::int64_t begin_step_ = 0, begin_row_ = 0;
};

}  // namespace moesh::train
