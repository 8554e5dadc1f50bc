// Which token is drawn: the limits apply one after the other, and the draw depends only on seed, text and place.
#include "decode/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>

#include "base/random.h"
#include "config/load.h"
#include "tests/support.h"

namespace moesh::decode {
namespace {

using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const std::vector<float> kLogits{1, 3, 2, -1, 2.5f, 0};

// The share of each token, drawn for many texts.
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

// Each share lies within four standard deviations of its probability.
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
  // Probabilities are 0.46, 0.28, 0.17, 0.06, 0.02, 0.01: the last token that is needed to reach top_p is included.
  EXPECT_THAT(drawn({.temperature = 5, .top_p = 0.4}), ElementsAre(1));
  EXPECT_THAT(drawn({.temperature = 5, .top_p = 0.5}), ElementsAre(1, 4));
  EXPECT_THAT(drawn({.temperature = 5, .top_p = 0.8}), ElementsAre(1, 2, 4));
  EXPECT_THAT(drawn({.temperature = 5, .min_p = 0.3}), ElementsAre(1, 2, 4));
  EXPECT_THAT(drawn({.temperature = 5, .top_k = 2, .top_p = 0.99, .min_p = 0.01}), ElementsAre(1, 4));
  // At a temperature of 5 they are far more alike, so that the same limits keep more of them.
  EXPECT_THAT(drawn({.temperature = 5, .min_p = 0.3, .limits_after_temperature = true}), SizeIs(Gt(3u)));
  EXPECT_THAT(drawn({.temperature = 5, .top_p = 0.8, .limits_after_temperature = true}), SizeIs(Gt(3u)));
}

// The reference: sorts all tokens by score and applies one limit after the other. Without a limit the tokens stay in order of their ids.
std::int32_t by_sorting_all(const std::vector<float>& logits, std::size_t place, const Sampling& sampling, std::int64_t text) {
  std::vector<std::pair<double, std::int32_t>> sorted;  // negated score and token
  for (std::size_t i = 0; i < logits.size(); ++i) sorted.emplace_back(-double{logits[i]}, static_cast<std::int32_t>(i));
  const bool is_limited = sampling.top_k > 0 || sampling.top_p < 1 || sampling.min_p > 0;
  const double most = -std::min_element(sorted.begin(), sorted.end())->first;
  if (is_limited) std::sort(sorted.begin(), sorted.end());
  const double of_limits = sampling.limits_after_temperature ? sampling.temperature : 1;
  const auto keep_as_likely = [&] {
    const double least = -sorted.front().first + of_limits * std::log(sampling.min_p);
    while (sampling.min_p > 0 && -sorted.back().first < least) sorted.pop_back();
  };
  if (sampling.limits_after_temperature) keep_as_likely();
  if (sampling.top_k > 0) sorted.resize(std::min(sorted.size(), static_cast<std::size_t>(sampling.top_k)));
  const auto weights = [&](double temperature) {
    std::vector<double> all;
    for (const auto& [turned, token] : sorted) all.push_back(std::exp((-turned - most) / temperature));
    return all;
  };
  if (sampling.top_p < 1) {
    const std::vector<double> all = weights(of_limits);
    const double needed = sampling.top_p * std::accumulate(all.begin(), all.end(), 0.0);
    std::size_t count = 0;
    for (double kept = 0; count < all.size() && kept < needed; ++count) kept += all[count];
    sorted.resize(std::max<std::size_t>(1, count));
  }
  if (!sampling.limits_after_temperature) keep_as_likely();
  const RandomKey key = fold_in(random_key(sampling.seed), static_cast<std::uint32_t>(text));
  const std::uint64_t bits = (std::uint64_t{random_bits(key, 2 * place)} << 21) ^ (random_bits(key, 2 * place + 1) >> 11);
  const std::vector<double> all = weights(sampling.temperature);
  double left = static_cast<double>(bits) * 0x1p-53 * std::accumulate(all.begin(), all.end(), 0.0);
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {
    if (left < all[i]) return sorted[i].second;
    left -= all[i];
  }
  return sorted.back().second;
}

TEST(Sampling, KeepsTheLikeliestWhateverTheShareIs) {
  EXPECT_THAT(drawn({.temperature = 5, .top_p = 0}), ElementsAre(1));
  EXPECT_THAT(drawn({.temperature = 5, .top_p = 1e-300}), ElementsAre(1));
}

// Vocabularies with random scores, with a few distinct scores, and with one score only, for which top_p ends exactly between two tokens.
TEST(Sampling, DrawsTheTokenThatSortingAllOfThemGives) {
  std::vector<Sampling> all;
  for (const double temperature : {0.3, 1.0, 20.0}) {
    for (const std::int64_t top_k : {0, 1, 50, 70, 300}) {
      for (const double top_p : {0.01, 0.25, 0.5, 0.75, 0.9, 1.0}) {
        for (const double min_p : {0.0, 0.05, 1.0}) {
          for (const bool after : {false, true}) {
            if (after && min_p == 1.0) continue;
            all.push_back({.temperature = temperature, .top_k = top_k, .top_p = top_p, .min_p = min_p, .limits_after_temperature = after});
          }
        }
      }
    }
  }
  std::int64_t text = 0;
  for (const std::size_t size : {1u, 2u, 63u, 64u, 65u, 128u, 257u, 1024u, 3000u}) {
    for (const std::int32_t kinds : {1, 2, 7, 1'000'000}) {
      std::vector<float> logits;
      for (std::size_t i = 0; i < size; ++i)
        logits.push_back(8 * static_cast<float>(random_integer(random_key(kinds), i, 0, kinds)) / static_cast<float>(kinds) - 4);
      for (const Sampling& sampling : all) {
        ++text;
        ASSERT_EQ(sample(logits, {}, sampling, text), by_sorting_all(logits, 0, sampling, text))
            << size << " tokens, " << kinds << " scores, temperature " << sampling.temperature << ", k " << sampling.top_k << ", p "
            << sampling.top_p << ", min_p " << sampling.min_p << (sampling.limits_after_temperature ? ", after the temperature" : "");
      }
    }
  }
}

TEST(Sampling, FailsOnLogitsThatHaveNoOrder) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNone = std::numeric_limits<float>::quiet_NaN();
  for (const Sampling& sampling : {Sampling{}, Sampling{.temperature = 1}, Sampling{.temperature = 1, .top_k = 3, .top_p = 0.9, .min_p = 0.1}}) {
    const auto message = [&](const std::vector<float>& logits) { return test::message_of([&] { sample(logits, {}, sampling, 0); }); };
    EXPECT_EQ(message({1, 2, kNone, 3}),
              "the model's logits: no token can be chosen: the logit of token 2 is nan\n"
              "  fix: weights that are all finite, or activations of a wider range: dtype=float32");
    EXPECT_THAT(message(std::vector<float>(1000, kNone)), HasSubstr("the logit of token 0 is nan"));
    EXPECT_THAT(message({1, kInfinity}), HasSubstr("the logit of token 1 is inf"));
    EXPECT_THAT(message({-kInfinity, -kInfinity}), HasSubstr("the logit of token 0 is -inf"));
    for (int text = 0; text < 50; ++text) EXPECT_EQ(sample(std::vector<float>{-kInfinity, -5, -kInfinity}, {}, sampling, text), 1);
  }
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
  // A score below 0 is multiplied by the penalty.
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
