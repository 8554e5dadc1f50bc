#include "data/blend.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/core.h>

#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "base/text.h"

namespace moesh::data {
namespace {

constexpr const char* kOfNone = "-";  // a place that no data gave
constexpr std::int64_t kRowsOfEach = 1024;  // average per source in a block, within which the sources come in a random order

struct Turn {
  std::size_t source;
  std::int64_t row;  // the number of the row in that source
};

// Several sources as one.
class Joined : public TokenSource {
 public:
  std::string describe() const final {
    std::vector<std::string> words;
    for (std::size_t i = 0; i < sources_.size(); ++i) words.push_back(share_words(i) + sources_[i]->describe());
    return join(words, "; ");
  }

  std::int64_t left_out() const final {
    std::int64_t all = 0;
    for (const auto& source : sources_) all += source->left_out();
    return all;
  }

 protected:
  explicit Joined(std::vector<std::unique_ptr<TokenSource>> sources) : sources_(std::move(sources)) {}
  virtual std::string share_words(std::size_t) const { return ""; }

  // Lets source i go on with its row rows[i] from its place among those that several sources gave: the one at the same position, or, if
  // the sources have been exchanged for others or put in another order, any that is its own.
  bool begin_each(const std::vector<std::int64_t>& rows, const std::string& place) {
    std::vector<std::string> places = place.empty() ? std::vector<std::string>(sources_.size()) : moesh::split(place, ';');
    std::vector<bool> goes_on(sources_.size(), false);
    const auto take = [&](std::size_t source, std::string& from) {
      if (goes_on[source] || from == kOfNone) return;
      goes_on[source] = sources_[source]->begin(rows[source], from);
      if (goes_on[source]) from = kOfNone;
    };
    for (std::size_t i = 0; i < std::min(sources_.size(), places.size()); ++i) take(i, places[i]);
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      for (std::string& from : places) take(i, from);
      if (!goes_on[i]) sources_[i]->begin(rows[i], kOfNone);
    }
    const bool any = std::find(goes_on.begin(), goes_on.end(), true) != goes_on.end();
    for (std::size_t i = 0; any && i < sources_.size(); ++i) {
      if (!goes_on[i]) {
        log_notice(fmt::format("{}: other than when the checkpoint was saved, or read otherwise: it begins at its beginning, unlike the "
                               "other sources",
                               sources_[i]->describe()));
      }
    }
    return any;
  }

  std::vector<std::unique_ptr<TokenSource>> sources_;
};

std::vector<std::unique_ptr<TokenSource>> sources_of(std::vector<Weighted>& all) {
  std::vector<std::unique_ptr<TokenSource>> sources;
  for (Weighted& of : all) sources.push_back(std::move(of.source));
  return sources;
}

class Blend : public Joined {
 public:
  Blend(std::vector<Weighted> sources, std::int64_t seed)
      : Joined(sources_of(sources)), seed_(seed), in_block_(kRowsOfEach * static_cast<std::int64_t>(sources_.size())) {
    double sum = 0;
    for (const Weighted& of : sources) sum += of.weight;
    for (const Weighted& of : sources) shares_.push_back(of.weight / sum);
    largest_ = static_cast<std::size_t>(std::max_element(shares_.begin(), shares_.end()) - shares_.begin());
  }

  std::int64_t rows(std::int64_t length) override {
    std::int64_t all = 0;
    for (const auto& source : sources_) all += source->rows(length);
    return all;
  }

  Example example(std::int64_t row, std::int64_t length) override {
    const Turn turn = turns_of(row / in_block_)[static_cast<std::size_t>(row % in_block_)];
    return sources_[turn.source]->example(turn.row, length);
  }

  // The places of the sources' next rows.
  std::string place(std::int64_t row, std::int64_t length) override {
    std::vector<std::string> places;
    for (std::size_t i = 0; i < sources_.size(); ++i) places.push_back(sources_[i]->place(next_of(i, row), length));
    return join(places, ";");
  }

  bool begin(std::int64_t row, const std::string& place) override {
    std::vector<std::int64_t> rows;
    for (std::size_t i = 0; i < sources_.size(); ++i) rows.push_back(next_of(i, row));
    return begin_each(rows, place);
  }

 private:
  std::string share_words(std::size_t source) const override { return fmt::format("{:.4g}% ", 100 * shares_[source]); }

  // The rows of a source before a block: its share, rounded down. The largest source has what the others leave, so that all sources advance
  // and none goes back.
  std::int64_t own_before(std::int64_t block, std::size_t source) const {
    const std::int64_t rows = block * in_block_;
    if (source != largest_) return static_cast<std::int64_t>(std::floor(shares_[source] * static_cast<double>(rows)));
    std::int64_t others = 0;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      if (i != largest_) others += own_before(block, i);
    }
    return rows - others;
  }

  const std::vector<Turn>& turns_of(std::int64_t block) {
    if (block == block_) return turns_;
    block_ = block;
    std::vector<std::size_t> in_order;
    std::vector<std::int64_t> next;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      next.push_back(own_before(block, i));
      in_order.resize(in_order.size() + static_cast<std::size_t>(own_before(block + 1, i) - next.back()), i);
    }
    const RandomKey key = fold_in(random_key(seed_), static_cast<std::uint32_t>(block));
    turns_.clear();
    for (std::size_t i = 0; i < in_order.size(); ++i) {
      const std::size_t source = in_order[permuted(key, i, in_order.size())];
      turns_.push_back({source, next[source]++});
    }
    return turns_;
  }

  // The first row of a source that is part of row `row` or a later one.
  std::int64_t next_of(std::size_t source, std::int64_t row) {
    const std::vector<Turn>& turns = turns_of(row / in_block_);
    const auto end = turns.begin() + row % in_block_;
    return own_before(row / in_block_, source) + std::count_if(turns.begin(), end, [&](const Turn& turn) { return turn.source == source; });
  }

  std::int64_t seed_;
  std::int64_t in_block_;  // rows
  std::vector<double> shares_;
  std::size_t largest_ = 0;
  std::int64_t block_ = -1;
  std::vector<Turn> turns_;  // of block block_
};

// One source, which may have been one of several when the checkpoint was saved.
class Alone : public Joined {
 public:
  explicit Alone(std::vector<Weighted> source) : Joined(sources_of(source)) {}

  std::int64_t rows(std::int64_t length) override { return sources_.front()->rows(length); }
  Example example(std::int64_t row, std::int64_t length) override { return sources_.front()->example(row, length); }
  std::string place(std::int64_t row, std::int64_t length) override { return sources_.front()->place(row, length); }
  bool begin(std::int64_t row, const std::string& place) override { return begin_each({row}, place); }
};

class Chain : public Joined {
 public:
  explicit Chain(std::vector<std::unique_ptr<TokenSource>> sources) : Joined(std::move(sources)) {}

  std::int64_t rows(std::int64_t length) override { return ends_of(length).back(); }
  Example example(std::int64_t row, std::int64_t length) override {
    const std::vector<std::int64_t>& ends = ends_of(length);
    row %= ends.back();
    const auto of = static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), row) - ends.begin());
    return sources_[of]->example(of == 0 ? row : row - ends[of - 1], length);
  }
 private:
  const std::vector<std::int64_t>& ends_of(std::int64_t length) {
    if (length == length_) return ends_;
    std::vector<std::int64_t> ends;
    for (const auto& source : sources_) ends.push_back((ends.empty() ? 0 : ends.back()) + source->rows(length));
    length_ = length;
    return ends_ = std::move(ends);
  }

  std::int64_t length_ = -1;
  std::vector<std::int64_t> ends_;
};

}  // namespace

std::vector<WeightedPath> weighted_paths(const config::Settings& settings, const char* key) {
  const std::string& text = settings.text(key);
  if (text.empty()) refuse(fmt::format("{} is empty", key), key, "name a file");
  std::error_code error;
  if (std::filesystem::exists(text, error) || text.find(';') == std::string::npos) return {{text}};
  const std::string& where = settings.origin(key).where;
  std::vector<WeightedPath> paths;
  double sum = 0;
  for (const std::string& part : moesh::split(text, ';')) {
    if (trim(part).empty()) continue;
    const std::size_t comma = part.rfind(',');
    const auto weight = comma == std::string::npos ? std::nullopt : parse_real(trim(std::string_view(part).substr(comma + 1)));
    if (!weight || !std::isfinite(*weight) || *weight < 0) {
      refuse(fmt::format("{} names several sources, and {} has no weight", key, part), where, fmt::format("{}=\"A,0.7;B,0.3\"", key));
    }
    sum += *weight;
    if (*weight > 0) paths.push_back({std::string(trim(std::string_view(part).substr(0, comma))), *weight});
  }
  if (!(sum > 0) || !std::isfinite(sum)) {
    refuse(fmt::format("the weights in {} add up to {}", key, sum), where, fmt::format("{}=\"A,0.7;B,0.3\"", key));
  }
  return paths;
}

std::unique_ptr<TokenSource> blended(std::vector<Weighted> sources, std::int64_t seed) {
  if (sources.size() == 1) return std::make_unique<Alone>(std::move(sources));
  return std::make_unique<Blend>(std::move(sources), seed);
}

std::unique_ptr<TokenSource> one_after_the_other(std::vector<std::unique_ptr<TokenSource>> sources) {
  if (sources.size() == 1) return std::move(sources.front());
  return std::make_unique<Chain>(std::move(sources));
}

}  // namespace moesh::data
