#include "train/rows.h"

#include <algorithm>
#include <span>

#include <fmt/core.h>

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "store/hash.h"

namespace moesh::train {
namespace {

class Stream : public TokenSource {
 public:
  Stream(std::string about, std::unique_ptr<TokenSequence> tokens, std::vector<std::int64_t> begins, Order order)
      : about_(std::move(about)), tokens_(std::move(tokens)), begins_(std::move(begins)), order_(order) {}

  std::string describe() const override { return fmt::format("{}, {}", about_, counted(tokens_->size(), "token")); }
  std::int64_t rows(std::int64_t length) const override { return std::max<std::int64_t>(1, tokens_->size() / length); }

  Tokens row(std::int64_t row, std::int64_t length) const override {
    Tokens tokens(static_cast<std::size_t>(length));
    const std::int64_t first = first_of(row, length);
    const auto size = static_cast<std::size_t>(tokens_->size());
    const std::span<std::int32_t> once = std::span(tokens).first(std::min(tokens.size(), size));
    const std::span<std::int32_t> to_end = once.first(std::min(once.size(), size - static_cast<std::size_t>(first)));
    tokens_->read(first, to_end);
    tokens_->read(0, once.subspan(to_end.size()));
    for (std::size_t i = size; i < tokens.size(); ++i) tokens[i] = tokens[i - size];
    return tokens;
  }

  Example example(std::int64_t row, std::int64_t length) const override {
    Example made = TokenSource::example(row, length);
    if (begins_.empty()) return made;
    const std::int64_t first = first_of(row, length + 1);
    std::int32_t segment = 1;
    std::int32_t position = 0;
    for (std::int64_t i = 0; i <= length; ++i, ++position) {
      const bool begins = std::binary_search(begins_.begin(), begins_.end(), (first + i) % tokens_->size());
      if (begins && i > 0) {
        ++segment;
        position = 0;
      }
      const auto at = static_cast<std::size_t>(i);
      if (i < length) made.segments[at] = segment;
      if (i < length) made.positions[at] = position;
      if (i > 0) made.target_segments[at - 1] = segment;
    }
    return made;
  }

 private:
  std::int64_t first_of(std::int64_t row, std::int64_t length) const {
    return order_.at(row, rows(length - 1)) * (length - 1) % tokens_->size();
  }

  std::string about_;
  std::unique_ptr<TokenSequence> tokens_;
  std::vector<std::int64_t> begins_;
  Order order_;
};

class Unpacked : public TokenSource {
 public:
  Unpacked(std::string about, Documents documents, Order order, std::int64_t length, bool truncates)
      : about_(std::move(about)), documents_(std::move(documents)), order_(order) {
    for (std::size_t i = 0; i < documents_.begins.size(); ++i) {
      const std::int64_t end = i + 1 < documents_.begins.size() ? documents_.begins[i + 1] : documents_.size();
      for (std::int64_t begin = documents_.begins[i]; begin < end; begin += length) {
        pieces_.push_back({begin, std::min(length, end - begin)});
        if (truncates) break;
      }
    }
  }

  std::string describe() const override { return fmt::format("{}, {}", about_, counted(rows(0), "row")); }
  std::int64_t rows(std::int64_t) const override { return static_cast<std::int64_t>(pieces_.size()); }

  Tokens row(std::int64_t row, std::int64_t length) const override {
    const Piece piece = piece_of(row);
    const auto from = documents_.tokens.begin() + piece.begin;
    Tokens tokens(from, from + std::min(piece.count, length));
    tokens.resize(static_cast<std::size_t>(length), 0);
    return tokens;
  }

  Example example(std::int64_t row, std::int64_t length) const override {
    Example made = TokenSource::example(row, length);
    const auto count = static_cast<std::size_t>(std::min(piece_of(row).count, length));
    for (std::size_t i = count; i < made.inputs.size(); ++i) made.segments[i] = 0;
    for (std::size_t i = count - 1; i < made.inputs.size(); ++i) made.target_segments[i] = 0;
    return made;
  }

 private:
  struct Piece {
    std::int64_t begin, count;
  };
  Piece piece_of(std::int64_t row) const {
    return pieces_[static_cast<std::size_t>(order_.at(row, rows(0)) % rows(0))];
  }

  std::string about_;
  Documents documents_;
  Order order_;
  std::vector<Piece> pieces_;
};

// Some rows of another source.
class Chosen : public TokenSource {
 public:
  Chosen(std::unique_ptr<TokenSource> source, std::vector<std::int64_t> rows, Order order)
      : source_(std::move(source)), rows_(std::move(rows)), order_(order) {}

  std::string describe() const override { return fmt::format("{} of {}", counted(rows(0), "row"), source_->describe()); }
  std::int64_t rows(std::int64_t) const override { return static_cast<std::int64_t>(rows_.size()); }
  Tokens row(std::int64_t row, std::int64_t length) const override { return source_->row(at(row), length); }
  Example example(std::int64_t row, std::int64_t length) const override { return source_->example(at(row), length); }

 private:
  std::int64_t at(std::int64_t row) const { return rows_[static_cast<std::size_t>(order_.at(row, rows(0)) % rows(0))]; }

  std::unique_ptr<TokenSource> source_;
  std::vector<std::int64_t> rows_;
  Order order_;
};

}  // namespace

bool Split::takes(std::uint64_t hash) const {
  if (side == Side::both) return true;
  const bool is_held_out = static_cast<double>(hash >> 11) * 0x1p-53 < fraction;
  return is_held_out == (side == Side::evaluation);
}

void Split::check(std::int64_t taken, std::int64_t all, std::string_view what) const {
  if (taken > 0) return;
  refuse(fmt::format("eval_fraction={} of {} leaves none for {}", fraction, counted(all, what),
                     side == Side::evaluation ? "evaluation" : "training"),
         where, "another share, more data, or eval_dataset_path=FILE");
}

std::int64_t Order::at(std::int64_t row, std::int64_t rows) const {
  if (!is_random) return row;
  const RandomKey key = fold_in(random_key(seed), static_cast<std::uint32_t>(row / rows));
  const auto place = permuted(key, static_cast<std::uint64_t>(row % rows), static_cast<std::uint64_t>(rows));
  return row / rows * rows + static_cast<std::int64_t>(place);
}

std::unique_ptr<TokenSource> rows_of_stream(std::string about, std::unique_ptr<TokenSequence> tokens,
                                            std::vector<std::int64_t> begins, Order order) {
  return std::make_unique<Stream>(std::move(about), std::move(tokens), std::move(begins), order);
}

std::unique_ptr<TokenSource> rows_on_side(std::unique_ptr<TokenSource> source, const Split& split, std::int64_t length, Order order) {
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < source->rows(length); ++row) {
    if (split.takes(store::hash_of(std::to_string(row)))) rows.push_back(row);
  }
  split.check(static_cast<std::int64_t>(rows.size()), source->rows(length), "row");
  return std::make_unique<Chosen>(std::move(source), std::move(rows), order);
}

std::unique_ptr<TokenSource> rows_of_documents(std::string about, Documents documents, Order order, std::int64_t length,
                                               bool truncates) {
  return std::make_unique<Unpacked>(std::move(about), std::move(documents), order, length, truncates);
}

}  // namespace moesh::train
