// Rows of data as the batches of a run. A batch depends on the step alone, so a run may stop and go on anywhere.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/model_shape.h"
#include "config/settings.h"
#include "data/ahead.h"
#include "data/source.h"
#include "train/feeding.h"

namespace moesh::train {

// What a batch has of each row of the data, by name.
inline constexpr const char* kOfRows[] = {"inputs", "targets", "inputs_position", "inputs_segmentation", "targets_segmentation"};

// Each token's place in its row: the order that attention goes by.
run::Array places_in_rows(std::int64_t rows, std::int64_t length, run::Pool& pool);

// Of the same length.
struct Rows {
  std::int64_t first = 0;  // the number of the first, for words
  std::vector<data::Example> rows;
};
Rows make_rows(data::TokenSource& source, std::int64_t first, std::int64_t count, std::int64_t length);
// Refuses tokens that are not below `vocab_size`.
Batch make_batch(const Rows& rows, std::int64_t vocab_size, run::Pool& pool);

// The batches of a run, made ahead by a thread. Each step loads rows that follow those of the step before, and trains the first of them.
class Batches {
 public:
  // `threads`: that may read ahead, besides the one that makes batches of what they read.
  Batches(const config::Settings& settings, const config::BatchSizes& sizes, std::int64_t vocab_size, int threads);

  std::string describe() const { return source_->describe(); }
  Batch at(std::int64_t step, run::Pool& pool);

  std::int64_t first_row(std::int64_t step) const { return begin_row_ + (step - begin_step_) * sizes_.rows_to_load; }
  // Of the rows of the step after the last one that was asked for, in the data. See data::TokenSource.
  const std::string& place() const { return place_; }
  // That step's rows begin at `row`, at that place, and the others' follow. False for a place in other data, which begin at their
  // beginning.
  bool begin(std::int64_t step, std::int64_t row, const std::string& place);

  double waited() const { return ahead_ ? ahead_->waited() : 0; }  // seconds that steps waited for data
  std::int64_t left_out() const { return source_->left_out(); }    // lines that could not be read

 private:
  struct Made {
    Rows rows;
    std::string next;  // the place of the next batch
  };
  Made make(std::int64_t step);

  std::unique_ptr<data::TokenSource> source_;
  config::BatchSizes sizes_;
  std::int64_t length_, vocab_size_;
  std::int64_t begin_step_ = 0, begin_row_ = 0;
  std::string place_;
  std::optional<data::Ahead<Made>> ahead_;  // from the first batch on
};

}  // namespace moesh::train
