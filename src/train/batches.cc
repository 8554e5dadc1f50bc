#include "train/batches.h"

#include <algorithm>
#include <iterator>

#include <fmt/core.h>

#include "data/open.h"
#include "data/vocabulary.h"
#include "models/model.h"

namespace moesh::train {
namespace {

constexpr std::int64_t kAhead = 3;  // batches in the read-ahead window

void check_tokens(const data::Tokens& tokens, std::int64_t vocab_size, std::int64_t row) {
  const auto foreign = data::first_foreign(tokens, vocab_size);
  if (foreign) data::refuse_foreign(fmt::format("token {} in row {}", tokens[*foreign], row), vocab_size, "the data");
}

}  // namespace

run::Array places_in_rows(std::int64_t rows, std::int64_t length, run::Pool& pool) {
  run::Array places = pool.allocate({rows, length}, DType::int32);
  for (std::int64_t i = 0; i < rows * length; ++i) places.as<std::int32_t>()[i] = static_cast<std::int32_t>(i % length);
  return places;
}

Rows make_rows(data::TokenSource& source, std::int64_t first, std::int64_t count, std::int64_t length) {
  Rows made{first, {}};
  for (std::int64_t row = first; row < first + count; ++row) made.rows.push_back(source.example(row, length));
  return made;
}

Batch make_batch(const Rows& from, std::int64_t vocab_size, run::Pool& pool) {
  const auto rows = static_cast<std::int64_t>(from.rows.size());
  const auto length = static_cast<std::int64_t>(from.rows.front().inputs.size());
  Batch batch;
  for (const char* name : kOfRows) batch[name] = pool.allocate({rows, length}, DType::int32);
  for (std::int64_t r = 0; r < rows; ++r) {
    const data::Example& of = from.rows[static_cast<std::size_t>(r)];
    check_tokens(of.inputs, vocab_size, from.first + r);
    check_tokens(of.targets, vocab_size, from.first + r);
    const data::Tokens* given[] = {&of.inputs, &of.targets, &of.positions, &of.segments, &of.target_segments};
    static_assert(std::size(given) == std::size(kOfRows));
    for (std::size_t i = 0; i < std::size(given); ++i) {
      std::copy(given[i]->begin(), given[i]->end(), batch[kOfRows[i]].as<std::int32_t>() + r * length);
    }
  }
  batch[models::inputs::order] = places_in_rows(rows, length, pool);
  return batch;
}

Batches::Batches(const config::Settings& settings, const config::BatchSizes& sizes, std::int64_t vocab_size,
                 int threads)
    : source_(data::open_source(settings, sizes.rows_to_load, threads)),
      sizes_(sizes),
      length_(settings.integer("max_target_length")),
      vocab_size_(vocab_size) {}

Batches::Made Batches::make(std::int64_t step) {
  Rows rows = make_rows(*source_, first_row(step), sizes_.rows_to_train, length_);
  return {std::move(rows), source_->place(first_row(step + 1), length_)};
}

Batch Batches::at(std::int64_t step, run::Pool& pool) {
  if (!ahead_) ahead_.emplace([this](std::int64_t number) { return make(number); }, 1, kAhead);
  const std::shared_ptr<const Made> made = ahead_->at(step);
  Batch batch = make_batch(made->rows, vocab_size_, pool);
  if (last_step_ != step) place_before_ = std::move(place_);
  last_step_ = step;
  place_ = made->next;
  return batch;
}

bool Batches::begin(std::int64_t step, std::int64_t row, const std::string& place) {
  ahead_.reset();
  begin_step_ = step;
  begin_row_ = row;
  last_step_.reset();
  place_ = place;
  return source_->begin(row, place);
}

}  // namespace moesh::train
