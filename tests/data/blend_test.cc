// Several data sources, blended in given shares.
#include "data/blend.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "base/text.h"
#include "config/load.h"
#include "data/open.h"
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

// Three sources of equal size, one of small letters, one of capitals and one of digits, in one form of data.
class Characters {
 public:
  explicit Characters(std::string type) : type_(std::move(type)) {
    write("small", 'a', 26);
    write("capital", 'A', 26);
    write("digit", '0', 10);
  }
  std::string at(const std::string& name) const { return folder_.path() + "/" + name; }
  void write(const std::string& name, char first, int count, int shift = 0) const {
    std::string text;
    for (int i = 0; i < 1200; ++i) {
      if (type_ == "jsonl" && i % 15 == 0) text += i == 0 ? "{\"text\": \"" : "\"}\n{\"text\": \"";
      text += static_cast<char>(first + (i * i * 7 + i / 3 + shift) % count);
    }
    folder_.write(name, text + (type_ == "jsonl" ? "\"}\n" : ""));
  }
  // `shares`: "small,0.9;digit,0.1".
  std::unique_ptr<TokenSource> open(const std::string& shares, bool is_random) const {
    std::vector<std::string> paths;
    for (const std::string& share : moesh::split(shares, ';')) paths.push_back(at(share));
    return open_source(config::load({"dataset_type=" + type_, "dataset_path=" + join(paths, ";"), "max_target_length=4", "vocab_size=40000",
                                     fmt::format("enable_data_shuffling={}", is_random), type_ == "tokens" ? "token_bytes=2" : "steps=1"})
                           .settings,
                       4, 2);
  }

 private:
  std::string type_;
  test::TemporaryFolder folder_;
};

// The inputs of rows, by the source that they come from.
std::map<std::string, Tokens> inputs_of(TokenSource& from, std::int64_t first, std::int64_t rows, std::map<std::string, Tokens> after = {}) {
  for (std::int64_t row = first; row < first + rows; ++row) {
    const Tokens inputs = from.example(row, 4).inputs;
    const int letter = *std::find_if(inputs.begin(), inputs.end(), [](std::int32_t id) { return id != 0; }) % 256;
    Tokens& all = after[letter >= 'a' ? "small" : letter >= 'A' ? "capital" : "digit"];
    all.insert(all.end(), inputs.begin(), inputs.end());
  }
  return after;
}

void expect_straight(const Characters& of, bool is_random, const std::map<std::string, Tokens>& read) {
  for (const auto& [name, inputs] : read) {
    const auto alone = of.open(name + ",1;none,0", is_random);
    const Tokens straight = inputs_of(*alone, 0, 300).at(name);
    ASSERT_LE(inputs.size(), straight.size());
    EXPECT_TRUE(std::equal(inputs.begin(), inputs.end(), straight.begin())) << name;
  }
}

TEST(Blend, GoesOnInEachSourceUnderOtherSharesAndInAnotherOrder) {
  for (const char* type : {"text", "tokens", "jsonl"}) {
    for (const bool is_random : {false, true}) {
      const Characters of(type);
      const auto before = of.open("small,0.9;capital,0.1", is_random);
      const auto first = inputs_of(*before, 0, 100);
      const std::string place = before->place(100, 4);
      for (const char* shares : {"small,0.9;capital,0.1", "small,0.1;capital,0.9", "capital,0.5;small,0.5", "capital,1;digit,0",
                                 "small,1;digit,0", "digit,0.3;capital,0.4;small,0.3"}) {
        const auto after = of.open(shares, is_random);
        EXPECT_TRUE(after->begin(100, place)) << type << " " << shares;
        expect_straight(of, is_random, inputs_of(*after, 100, 100, first));
      }
      const auto alone = of.open("small,1;digit,0", is_random);
      const auto of_alone = inputs_of(*alone, 0, 50);
      const auto with_more = of.open("digit,0.5;small,0.5", is_random);
      EXPECT_TRUE(with_more->begin(50, alone->place(50, 4)));
      expect_straight(of, is_random, inputs_of(*with_more, 50, 50, of_alone));
      EXPECT_FALSE(of.open("digit,1;small,0", is_random)->begin(100, place));
    }
  }
}

TEST(Blend, NamesTheSourceThatIsOther) {
  for (const char* type : {"text", "tokens", "jsonl"}) {
    const Characters of(type);
    const auto before = of.open("small,0.5;capital,0.5", false);
    const auto first = inputs_of(*before, 0, 100);
    const std::string place = before->place(100, 4);
    of.write("capital", 'A', 26, 3);  // of the same size
    const auto after = of.open("small,0.5;capital,0.5", false);
    ::testing::internal::CaptureStderr();
    EXPECT_TRUE(after->begin(100, place));
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_THAT(said, ::testing::AllOf(HasSubstr(of.at("capital")),
                                       HasSubstr(": other than when the checkpoint was saved, or read otherwise: it begins at its "
                                                 "beginning, unlike the other sources")));
    EXPECT_THAT(said, ::testing::Not(HasSubstr(of.at("small"))));
    const auto read = inputs_of(*after, 100, 100, {{"small", first.at("small")}});
    expect_straight(of, false, read);
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
