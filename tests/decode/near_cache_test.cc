// Layers that see only the nearest tokens cache these alone, and decode to the same as with all tokens in the cache.
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "decode/planned.h"
#include "tests/decode/decode_support.h"

namespace moesh::decode {
namespace {

using test::Decoding;
using test::kSmallWidths;

constexpr std::int64_t kRowsNear = 3, kSlotsNear = 64;
constexpr std::int64_t kMostNew = 10;  // one more than a cache of 16 slots has room for, beside 7 that are seen
constexpr std::int32_t kPadding = std::numeric_limits<std::int32_t>::max();
constexpr float kNoiseNear = 2e-4f;  // keys are added up in another order

// Families of which some layers see 8 or 6 keys.
class NearCache : public ::testing::TestWithParam<test::SmallModel> {};

// The slots of the smallest cache of keys.
std::int64_t least_slots(const Decoding& decoding) {
  const graph::Graph graph = decoding.graph_program(1).graph;
  std::int64_t least = kSlotsNear;
  for (const graph::Node& node : graph.nodes) {
    if (graph::is_root(node) && node.path == "cache/near_positions") least = std::min(least, graph.value(node.results.front()).shape[1]);
  }
  return least;
}

// Rows take tokens at a pace of their own, padded to what the longest takes, and begin anew at random.
class Feed {
 public:
  explicit Feed(std::int64_t vocabulary) : vocabulary_(vocabulary), kept_(kRowsNear, 0), segments_(kRowsNear, 1) {}

  NewTokens next(std::int64_t length) {
    NewTokens tokens;
    counts.clear();
    for (std::size_t row = 0; row < kRowsNear; ++row) {
      if (random_() % 16 == 0 || kept_[row] + length >= kSlotsNear) {
        kept_[row] = 0;
        ++segments_[row];
      }
      counts.push_back(length == 1 ? 1 : static_cast<std::int64_t>(random_() % static_cast<unsigned>(length + 1)));
      for (std::int64_t i = 0; i < length; ++i) {
        const bool is_there = i < counts.back();
        tokens.ids.push_back(static_cast<std::int32_t>(random_() % static_cast<unsigned>(vocabulary_)));
        tokens.positions.push_back(static_cast<std::int32_t>(kept_[row] + std::min(i, counts.back())));
        tokens.segments.push_back(is_there ? segments_[row] : kPadding);
      }
      kept_[row] += counts.back();
    }
    return tokens;
  }

  std::vector<std::int64_t> counts;  // of each row's tokens, without the padding

 private:
  std::int64_t vocabulary_;
  std::mt19937 random_{5};
  std::vector<std::int64_t> kept_;
  std::vector<std::int32_t> segments_;
};

TEST_P(NearCache, GivesTheLogitsOfAllTokens) {
  const std::string request = kSmallWidths + GetParam().request + "compile_topology=cpu-1";
  Decoding all(request, kRowsNear, kSlotsNear), near(request, kRowsNear, kSlotsNear, kMostNew);
  ASSERT_EQ(least_slots(all), kSlotsNear);
  ASSERT_LE(least_slots(near), 32);
  Ready all_of_many = all.program(kMostNew), near_of_many = near.program(kMostNew);
  const std::int64_t vocabulary = all.session.shape.vocab_size;
  Feed feed(vocabulary);
  std::mt19937 random(9);
  for (int run = 0; run < 60; ++run) {
    const std::int64_t length = random() % 3 == 0 ? kMostNew : 1;
    const NewTokens tokens = feed.next(length);
    const std::vector<float> expected = all.logits(length == 1 ? all.step() : all_of_many, tokens);
    const std::vector<float> made = near.logits(length == 1 ? near.step() : near_of_many, tokens);
    for (std::int64_t row = 0; row < kRowsNear; ++row) {
      for (std::int64_t i = 0; i < feed.counts[static_cast<std::size_t>(row)] * vocabulary; ++i) {
        const auto at = static_cast<std::size_t>(row * length * vocabulary + i);
        ASSERT_NEAR(made[at], expected[at], kNoiseNear) << "run " << run << ", row " << row;
      }
    }
  }
}

// What the planner says of the cache. Pools are cached of all tokens, so there are none here.
TEST_P(NearCache, TakesAsMuchOnceTextsAreLong) {
  const bool has_pools = GetParam().family.starts_with("deepseek4");
  const std::string without_pools = has_pools ? "compress_ratios=[0,0,0,0] scan_layers=false " : "";
  const auto cache_bytes = [&](std::int64_t slots) {
    const std::string lengths = fmt::format("compile_topology=cpu-1 max_target_length={}", slots);
    const session::Session session =
        session::open_to_decode(test::words_of(kSmallWidths + GetParam().request + without_pools + lengths), session::DecodeStage::token);
    std::int64_t bytes = 0;
    for (const forecast::CacheTensor& tensor : plan_step(session).forecast.decoding->cache) {
      const bool holds_all = std::find(tensor.shape.begin(), tensor.shape.end(), slots) != tensor.shape.end();
      bytes += holds_all ? 0 : tensor.bytes;
    }
    return bytes;
  };
  EXPECT_GT(cache_bytes(1000), 0);
  EXPECT_EQ(cache_bytes(1000), cache_bytes(4001));
}

std::vector<test::SmallModel> models_with_near_layers() {
  std::vector<test::SmallModel> models;
  for (const char* family : {"gpt_oss", "llama4", "gemma2", "gemma3", "gemma4", "olmo3", "deepseek4", "deepseek4_pools"}) models.push_back(test::small_model(family));
  return models;
}

INSTANTIATE_TEST_SUITE_P(All, NearCache, ::testing::ValuesIn(models_with_near_layers()), [](const auto& test) { return test.param.family; });

}  // namespace
}  // namespace moesh::decode
