#include "data/rows.h"

#include <algorithm>
#include <span>

#include <fmt/core.h>

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "store/hash.h"

namespace moesh::data {
namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 40;  // a larger number is not one that a run has written

// Rows that follow from their numbers. A place is the number of a row, of these data.
class Numbered : public TokenSource {
 public:
  std::string place(std::int64_t row, std::int64_t) final { return fmt::format("{} {}", identity_, number_of(row)); }

  bool begin(std::int64_t row, const std::string& place) final {
    const std::vector<std::string> parts = split(place, ' ');
    const auto number = parts.size() == 2 && parts[0] == identity_ ? parse_integer(parts[1]) : std::nullopt;
    const bool is_same = number && *number >= 0 && *number <= kMostRows;
    before_ = place.empty() ? 0 : row - (is_same ? *number : 0);
    return place.empty() || is_same;
  }

 protected:
  // `data`: what tells data apart, besides their order.
  Numbered(const std::string& data, Order order)
      : identity_(store::hash_text(store::hash_of(fmt::format("{} {} {}", data, order.is_random, order.seed)))) {}
  std::int64_t number_of(std::int64_t row) const { return row - before_; }

 private:
  std::string identity_;
  std::int64_t before_ = 0;  // rows that were of other data; negative if other shares would have taken fewer of these
};

class Stream : public Numbered {
 public:
  Stream(std::string about, std::unique_ptr<TokenSequence> tokens, std::int64_t length, Order order)
      : Numbered(fmt::format("stream {} {}", tokens->identity(), length), order),
        about_(std::move(about)),
        tokens_(std::move(tokens)),
        order_(order) {}

  std::string describe() const override { return fmt::format("{}, {}", about_, counted(tokens_->size(), "token")); }
  std::int64_t rows(std::int64_t length) override { return std::max<std::int64_t>(1, tokens_->size() / length); }

  Example example(std::int64_t row, std::int64_t length) override {
    Tokens tokens(static_cast<std::size_t>(length + 1));
    const std::int64_t first = order_.at(number_of(row), rows(length)) * length % tokens_->size();
    const auto size = static_cast<std::size_t>(tokens_->size());
    const std::span<std::int32_t> once = std::span(tokens).first(std::min(tokens.size(), size));
    const std::span<std::int32_t> to_end = once.first(std::min(once.size(), size - static_cast<std::size_t>(first)));
    tokens_->read(first, to_end);
    tokens_->read(0, once.subspan(to_end.size()));
    for (std::size_t i = size; i < tokens.size(); ++i) tokens[i] = tokens[i - size];
    return one_segment(tokens);
  }

 private:
  std::string about_;
  std::unique_ptr<TokenSequence> tokens_;
  Order order_;
};

// Selected rows of another source.
class Chosen : public Numbered {
 public:
  Chosen(std::unique_ptr<TokenSource> source, std::vector<std::int64_t> rows, const std::string& data, Order order)
      : Numbered(data, order), source_(std::move(source)), rows_(std::move(rows)), order_(order) {}

  std::string describe() const override { return fmt::format("{} of {}", counted(count(), "row"), source_->describe()); }
  std::int64_t rows(std::int64_t) override { return count(); }
  Example example(std::int64_t row, std::int64_t length) override {
    return source_->example(rows_[static_cast<std::size_t>(order_.at(number_of(row), count()) % count())], length);
  }

 private:
  std::int64_t count() const { return static_cast<std::int64_t>(rows_.size()); }

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

std::unique_ptr<TokenSource> rows_of_stream(std::string about, std::unique_ptr<TokenSequence> tokens, std::int64_t length, Order order) {
  return std::make_unique<Stream>(std::move(about), std::move(tokens), length, order);
}

std::string repetition_words(const std::string& about, std::int64_t tokens, std::int64_t taken) {
  return fmt::format("{}: {}, a row takes {}: each row holds all of it {:.1f} times", about, counted(tokens, "token"), taken,
                     static_cast<double>(taken) / static_cast<double>(tokens));
}

std::unique_ptr<TokenSource> rows_on_side(std::unique_ptr<TokenSource> source, const Split& split, std::int64_t length, Order order) {
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < source->rows(length); ++row) {
    if (split.takes(store::hash_of(std::to_string(row)))) rows.push_back(row);
  }
  split.check(static_cast<std::int64_t>(rows.size()), source->rows(length), "row");
  const std::string data = fmt::format("{} {} {}", source->place(0, length), static_cast<int>(split.side), split.fraction);
  return std::make_unique<Chosen>(std::move(source), std::move(rows), data, order);
}

}  // namespace moesh::data
