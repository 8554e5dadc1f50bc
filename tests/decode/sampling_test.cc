// Which token is drawn: the limits one after the other, and nothing else that it depends on.
#include "decode/sampling.h"

#include <cmath>
#include <map>
#include <vector>

#include <gmock/gmock.h>

#include "config/load.h"
#include "tests/support.h"

namespace moesh::decode {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<float> kLogits{1, 3, 2, -1, 2.5f, 0};

// How often each token is drawn, of many texts.
std::map<std::int32_t, double> shares(const Sampling& sampling, const std::vector<float>& logits = kLogits) {
  constexpr int kDraws = 20'000;
  std::map<std::int32_t, double> found;
  for (int text = 0; text < kDraws; ++text) found[sample(logits, {}, sampling, text)] += 1.0 / kDraws;
  return found;
}

std::vector<std::int32_t> drawn(const Sampling& sampling, const std::vector<float>& logits = kLogits) {
  std::vector<std::int32_t> tokens;
  for (const auto& [token, share] : shares(sampling, logits)) tokens.push_back(token);
  return tokens;
}

TEST(Sampling, TakesTheLikeliestTokenAndOfEqualsTheFirst) {
  EXPECT_EQ(sample(kLogits, {}, {}, 0), 1);
  EXPECT_EQ(sample(std::vector<float>{0, 5, 5}, {}, {}, 3), 1);
}

// Within four standard deviations of a share.
TEST(Sampling, DrawsByProbability) {
  for (const double temperature : {0.5, 1.0, 3.0}) {
    const auto found = shares({.temperature = temperature});
    double all = 0;
    for (const float logit : kLogits) all += std::exp(logit / temperature);
    for (std::size_t i = 0; i < kLogits.size(); ++i) {
      const double expected = std::exp(kLogits[i] / temperature) / all;
      const auto token = found.find(static_cast<std::int32_t>(i));
      EXPECT_NEAR(token == found.end() ? 0 : token->second, expected, 4 * std::sqrt(expected / 20'000)) << i << " at " << temperature;
    }
  }
}

TEST(Sampling, KeepsToTheLikeliest) {
  EXPECT_THAT(drawn({.temperature = 5, .top_k = 3}), ElementsAre(1, 2, 4));
  EXPECT_THAT(drawn({.temperature = 5, .top_k = 1}), ElementsAre(1));
  EXPECT_THAT(drawn({.temperature = 5, .top_k = 100}), ElementsAre(0, 1, 2, 3, 4, 5));
  // Probabilities are 0.46, 0.28, 0.17, 0.06, 0.02, 0.01: the last one that is needed for the share belongs to it.
  EXPECT_THAT(drawn({.temperature = 5, .top_p = 0.4}), ElementsAre(1));
  EXPECT_THAT(drawn({.temperature = 5, .top_p = 0.5}), ElementsAre(1, 4));
  EXPECT_THAT(drawn({.temperature = 5, .top_p = 0.8}), ElementsAre(1, 2, 4));
  EXPECT_THAT(drawn({.temperature = 5, .min_p = 0.3}), ElementsAre(1, 2, 4));
  EXPECT_THAT(drawn({.temperature = 5, .top_k = 2, .top_p = 0.99, .min_p = 0.01}), ElementsAre(1, 4));
}

TEST(Sampling, DependsOnSeedTextAndPlaceAlone) {
  const Sampling sampling{.temperature = 2}, other{.temperature = 2, .seed = 1};
  std::vector<std::int32_t> one, same, by_seed, by_text, by_place, before;
  for (std::int64_t i = 0; i < 40; ++i) {
    one.push_back(sample(kLogits, before, sampling, 5));
    same.push_back(sample(kLogits, std::vector<std::int32_t>(before.size(), 3), sampling, 5));
    by_seed.push_back(sample(kLogits, before, other, 5));
    by_text.push_back(sample(kLogits, before, sampling, 6));
    before.push_back(0);
    by_place.push_back(sample(kLogits, before, sampling, 5));
  }
  EXPECT_EQ(one, same);
  EXPECT_NE(one, by_seed);
  EXPECT_NE(one, by_text);
  EXPECT_NE(one, by_place);
}

TEST(Sampling, MakesWhatWasThereLessLikely) {
  EXPECT_EQ(sample(kLogits, std::vector<std::int32_t>{1}, {.repetition_penalty = 1.5}, 0), 4);
  // Scores below 0 are multiplied.
  EXPECT_EQ(sample(std::vector<float>{-2, -1}, std::vector<std::int32_t>{1}, {.repetition_penalty = 3}, 0), 0);
}

TEST(Sampling, IsAsTheKeysSay) {
  const auto of = [](const std::string& keys) { return sampling_of(config::load(test::words_of(keys)).settings); };
  EXPECT_EQ(of("decode_sampling_temperature=2").temperature, 0);
  EXPECT_EQ(of("decode_sampling_strategy=weighted decode_sampling_temperature=2").temperature, 2);
  EXPECT_EQ(of("decode_sampling_seed=9").seed, 9);
  EXPECT_EQ(of("decode_sampling_repetition_penalty=1.5").repetition_penalty, 1.5);
  const Sampling both = of("decode_sampling_strategy=composite decode_sampling_top_k=7 decode_sampling_nucleus_p=0.5 decode_sampling_min_p=0.1");
  EXPECT_EQ(both.top_k, 7);
  EXPECT_EQ(both.top_p, 0.5);
  EXPECT_EQ(both.min_p, 0.1);
  EXPECT_EQ(of("decode_sampling_strategy=nucleus decode_sampling_nucleus_p=0.5 decode_sampling_top_k=7").top_k, 0);
  EXPECT_THAT(test::message_of([&] { of("decode_sampling_strategy=topk"); }),
              HasSubstr("decode_sampling_strategy=topk chooses among decode_sampling_top_k tokens, which is 0"));
  EXPECT_THAT(test::message_of([&] { of("decode_sampling_strategy=nucleus"); }),
              HasSubstr("chooses among a share of decode_sampling_nucleus_p, which is not above 0"));
}

}  // namespace
}  // namespace moesh::decode
