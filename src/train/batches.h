// Turns rows of data into the batches of a run. A batch depends on the step number alone, so a run can stop and resume at any step.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/batch_sizes.h"
#include "config/settings.h"
#include "data/ahead.h"
#include "data/source.h"
#include "models/model.h"
#include "train/feeding.h"

namespace moesh::train {

// Names of the arrays that a batch has for the rows of the data.
inline constexpr const char* kOfRows[] = {models::inputs::tokens, models::inputs::targets, models::inputs::positions,
                                          models::inputs::segments, models::inputs::target_segments};

// The position of each token in its row, [rows, length], which attention uses as the order of the tokens.
run::Array places_in_rows(std::int64_t rows, std::int64_t length, run::Pool& pool);

// Consecutive rows of the data, all of the same length.
struct Rows {
  std::int64_t first = 0;  // number of the first row, for messages
  std::vector<data::Example> rows;
};
Rows make_rows(data::TokenSource& source, std::int64_t first, std::int64_t count, std::int64_t length);
// Copies the rows into arrays. Refuses tokens that are not below `vocab_size`.
Batch make_batch(const Rows& rows, std::int64_t vocab_size, run::Pool& pool);

// The batches of a run, prepared ahead by a thread. Each step loads the rows after those of the step before, and trains on the
// first `rows_to_train` of them.
class Batches {
 public:
  // `threads`: how many threads may read ahead, besides the one that makes batches of what they read.
  Batches(const config::Settings& settings, const config::BatchSizes& sizes, std::int64_t vocab_size, int threads);

  std::string describe() const { return source_->describe(); }
  Batch at(std::int64_t step, run::Pool& pool);

  std::int64_t first_row(std::int64_t step) const { return begin_row_ + (step - begin_step_) * sizes_.rows_to_load; }
  // The position in the data at which the rows of a step begin, see data::TokenSource. Only for the last requested step and the one after
  // it.
  const std::string& place(std::int64_t step) const { return step == last_step_ ? place_before_ : place_; }
  // Makes `step` begin with row `row`, which is at that place in the data; later steps follow on. Returns false if the place
  // belongs to other data, which are then read from their beginning.
  bool begin(std::int64_t step, std::int64_t row, const std::string& place);

  double waited() const { return ahead_ ? ahead_->waited() : 0; }  // seconds that steps waited for data
  std::int64_t left_out() const { return source_->left_out(); }    // lines that could not be read

 private:
  struct Made {
    Rows rows;
    std::string next;  // place of the next batch
  };
  Made make(std::int64_t step);

  std::unique_ptr<data::TokenSource> source_;
  config::BatchSizes sizes_;
  std::int64_t length_, vocab_size_;
  std::int64_t begin_step_ = 0, begin_row_ = 0;
  std::optional<std::int64_t> last_step_;   // the last requested step
  std::string place_before_, place_;        // where its rows begin, and where the next step's do
  std::optional<data::Ahead<Made>> ahead_;  // exists from the first batch on
};

}  // namespace moesh::train
