#include "data/synthetic.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "base/random.h"

namespace moesh::data {
namespace {

// A batch that is repeated. It begins anew where a run goes on, which may take other numbers of rows than the run did before.
class Repeated : public TokenSource {
 public:
  explicit Repeated(std::int64_t rows) : rows_(rows) {}

  std::int64_t rows(std::int64_t) override { return rows_; }
  bool begin(std::int64_t row, const std::string& place) override {
    first_ = row;
    return TokenSource::begin(row, place);
  }

 protected:
  std::int64_t in_batch(std::int64_t row) const { return (row - first_) % rows_; }

 private:
  std::int64_t rows_, first_ = 0;
};

class Synthetic : public Repeated {
 public:
  Synthetic(const config::Settings& settings, std::int64_t rows)
      : Repeated(rows),
        vocab_size_(static_cast<std::int32_t>(settings.integer("vocab_size"))),
        most_segments_(settings.boolean("packing") ? settings.integer("max_segments_per_seq") : 1) {}

  std::string describe() const override { return "synthetic tokens, one fixed batch"; }

  Example example(std::int64_t row, std::int64_t length) override {
    row = in_batch(row);
    Tokens tokens(static_cast<std::size_t>(length + 1));
    const RandomKey key = random_key(0);
    const std::uint64_t first = static_cast<std::uint64_t>(row) * tokens.size();
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = random_integer(key, first + i, 0, vocab_size_);
    Example made = one_segment(tokens);
    if (most_segments_ < 2 || length < 2) return made;
    made.segments = made.target_segments = segments(row, length);
    return made;
  }

 private:
  // As in the reference, a number of segments is drawn, and the positions where they begin; positions count on through them.
  Tokens segments(std::int64_t row, std::int64_t length) const {
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
    Tokens ids(static_cast<std::size_t>(length), 0);
    ids[0] = 1;
    for (std::int32_t i = 0; i < count - 1; ++i) ids[order[static_cast<std::size_t>(i)] + 1] = 1;
    std::partial_sum(ids.begin(), ids.end(), ids.begin());
    return ids;
  }

  std::int32_t vocab_size_;
  std::int64_t most_segments_;
};

class Reused : public Repeated {
 public:
  Reused(std::unique_ptr<TokenSource> source, std::int64_t rows) : Repeated(rows), source_(std::move(source)) {}

  std::string describe() const override { return source_->describe() + ", the first batch again and again"; }
  Example example(std::int64_t row, std::int64_t length) override { return source_->example(in_batch(row), length); }
  std::int64_t left_out() const override { return source_->left_out(); }

 private:
  std::unique_ptr<TokenSource> source_;
};

class Once : public TokenSource {
 public:
  explicit Once(std::unique_ptr<TokenSource> source) : source_(std::move(source)) {}

  std::string describe() const override { return source_->describe(); }
  std::int64_t rows(std::int64_t length) override {
    if (length != length_) rows_ = source_->rows(length);
    length_ = length;
    return rows_;
  }
  Example example(std::int64_t row, std::int64_t length) override {
    if (row < rows(length)) return source_->example(row, length);
    Example padding = one_segment(Tokens(static_cast<std::size_t>(length + 1), 0));
    padding.segments.assign(padding.segments.size(), 0);
    padding.target_segments = padding.segments;
    return padding;
  }
  std::int64_t left_out() const override { return source_->left_out(); }

 private:
  std::unique_ptr<TokenSource> source_;
  std::int64_t length_ = -1, rows_ = 0;
};

}  // namespace

std::unique_ptr<TokenSource> synthetic(const config::Settings& settings, std::int64_t rows) {
  return std::make_unique<Synthetic>(settings, rows);
}

std::unique_ptr<TokenSource> reused(std::unique_ptr<TokenSource> source, std::int64_t rows) {
  return std::make_unique<Reused>(std::move(source), rows);
}

std::unique_ptr<TokenSource> once(std::unique_ptr<TokenSource> source) { return std::make_unique<Once>(std::move(source)); }

}  // namespace moesh::data
