// Several data sources, blended in given shares.
#include "data/blend.h"

#include <cmath>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "config/load.h"
#include "tests/data/rows_support.h"
#include "tests/support.h"

namespace moesh::data {
namespace {

using test::message_of;
using ::testing::HasSubstr;

// A source of rows of one token: the input is the source's number, the target is the row's number.
class Numbered : public TokenSource {
 public:
  Numbered(std::int32_t source, std::int64_t rows) : source_(source), rows_(rows) {}
  std::string describe() const override { return fmt::format("source {}", source_); }
  std::int64_t rows(std::int64_t) override { return rows_; }
  Example example(std::int64_t row, std::int64_t) override { return one_segment({source_, static_cast<std::int32_t>(row)}); }
  std::string place(std::int64_t row, std::int64_t) override { return fmt::format("{}", row); }
  bool begin(std::int64_t row, const std::string& place) override { return place.empty() || place == fmt::format("{}", row); }
  std::int64_t left_out() const override { return source_ + 1; }

 private:
  std::int32_t source_;
  std::int64_t rows_;
};

std::unique_ptr<TokenSource> blend(const std::vector<double>& weights, std::int64_t seed = 1) {
  std::vector<Weighted> sources;
  for (const double weight : weights) sources.push_back({std::make_unique<Numbered>(static_cast<std::int32_t>(sources.size()), 10), weight});
  return blended(std::move(sources), seed);
}

TEST(Blend, HoldsTheWeightsWithinAThousandthAndTakesEachSourcesRowsInOrder) {
  for (const std::vector<double>& weights : std::vector<std::vector<double>>{{0.7, 0.3}, {1, 1, 1}, {5, 0.001, 2, 90}, {1e-3, 1e3}, {3}, std::vector<double>(50, 1), {1, 1e-9, 1e-9}}) {
    const auto source = blend(weights);
    double sum = 0;
    for (const double weight : weights) sum += weight;
    std::vector<std::int64_t> taken(weights.size(), 0);
    constexpr std::int64_t kRows = 100'000;
    for (std::int64_t row = 0; row < kRows; ++row) {
      const Example made = source->example(row, 1);
      const auto of = static_cast<std::size_t>(made.inputs[0]);
      ASSERT_EQ(made.targets[0], taken[of]++) << "row " << row;
    }
    for (std::size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(static_cast<double>(taken[i]) / kRows, weights[i] / sum, 1e-3);
  }
}

TEST(Blend, SourcesComeInARandomOrderOfTheSeed) {
  const auto order = [](std::int64_t seed) {
    const auto source = blend({1, 1}, seed);
    std::string text;
    for (std::int64_t row = 0; row < 64; ++row) text += source->example(row, 1).inputs[0] == 0 ? 'a' : 'b';
    return text;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
  EXPECT_THAT(order(1), HasSubstr("aa"));
}

TEST(Blend, GoesOnInEachSource) {
  for (const std::int64_t row : {0, 1, 500, 1023, 1024, 1025, 99'999}) {
    const auto source = blend({2, 3, 5});
    EXPECT_TRUE(source->begin(row, source->place(row, 1))) << row;
    EXPECT_TRUE(source->begin(row, "")) << row;
    EXPECT_FALSE(source->begin(row, "3;4")) << row;
    EXPECT_FALSE(source->begin(row, "3;4;-1")) << row;
  }
}

TEST(Blend, TellsItsSharesAndWhatTheSourcesLeftOut) {
  EXPECT_EQ(blend({3, 1})->describe(), "75% source 0; 25% source 1");
  EXPECT_EQ(blend({3, 1})->left_out(), 3);
}

TEST(Blend, OfAValidationSetIsOneAfterTheOther) {
  std::vector<std::unique_ptr<TokenSource>> sources;
  for (const std::int64_t rows : {3, 1, 4}) sources.push_back(std::make_unique<Numbered>(static_cast<std::int32_t>(sources.size()), rows));
  const auto chain = one_after_the_other(std::move(sources));
  ASSERT_EQ(chain->rows(1), 8);
  std::string text;
  for (std::int64_t row = 0; row < 9; ++row) text += fmt::format("{}.{} ", chain->example(row, 1).inputs[0], chain->example(row, 1).targets[0]);
  EXPECT_EQ(text, "0.0 0.1 0.2 1.0 2.0 2.1 2.2 2.3 0.0 ");
}

// A source whose rows can be counted only at the second attempt.
class Late : public Numbered {
 public:
  using Numbered::Numbered;
  std::int64_t rows(std::int64_t length) override {
    if (asked_++ == 0) fail("the data can no longer be read: gone", "late");
    return Numbered::rows(length);
  }

 private:
  int asked_ = 0;
};

TEST(Blend, OfAValidationSetCountsAgainWhatCouldNotBeCounted) {
  std::vector<std::unique_ptr<TokenSource>> sources;
  sources.push_back(std::make_unique<Numbered>(0, 3));
  sources.push_back(std::make_unique<Late>(1, 4));
  const auto chain = one_after_the_other(std::move(sources));
  EXPECT_EQ(message_of([&] { chain->rows(1); }), "late: the data can no longer be read: gone");
  EXPECT_EQ(chain->rows(1), 7);
  EXPECT_EQ(chain->example(5, 1).targets[0], 2);
}

std::vector<WeightedPath> paths(const std::string& text) {
  return weighted_paths(config::load({"dataset_path=" + text}).settings, "dataset_path");
}

TEST(Blend, PathsAreSplitAtSemicolonsAndWeightsStandBehindCommas) {
  EXPECT_EQ(paths("a,b").front().path, "a,b") << "one path is a path";
  const auto two = paths("a,b,0.7; c d , 2;");
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].path, "a,b");
  EXPECT_EQ(two[0].weight, 0.7);
  EXPECT_EQ(two[1].path, "c d");
  EXPECT_EQ(two[1].weight, 2);
  EXPECT_EQ(paths("a,1;b,0").size(), 1u);
  const test::TemporaryFolder folder;
  const std::string odd = folder.write("a,1;b", "x");
  EXPECT_EQ(paths(odd).front().path, odd) << "a file that is there";
}

TEST(Blend, WeightsThatAreNoneAreRefused) {
  for (const char* bad : {"a;b", "a,1;b", "a,1;b,-1", "a,1;b,x", "a,nan;b,1", "a,inf;b,1"}) {
    EXPECT_THAT(message_of([&] { paths(bad); }), HasSubstr("dataset_path names several sources, and ")) << bad;
  }
  EXPECT_EQ(message_of([] { paths("a;b,1"); }),
            "the command line: dataset_path names several sources, and a has no weight\n  fix: dataset_path=\"A,0.7;B,0.3\"");
  for (const char* bad : {"a,0;b,0", ";"}) {
    EXPECT_THAT(message_of([&] { paths(bad); }), HasSubstr("the weights in dataset_path add up to 0")) << bad;
  }
  EXPECT_THAT(message_of([&] { paths("a,1e308;b,1e308"); }), HasSubstr("the weights in dataset_path add up to inf"));
}

}  // namespace
}  // namespace moesh::data
