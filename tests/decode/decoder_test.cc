// Prompts and single tokens that go through the KV cache give the same logits as the whole sequence at once.
#include <gmock/gmock.h>

#include "tests/decode/decode_support.h"

namespace moesh::decode {
namespace {

using test::Decoding;
using test::kSmallWidths;
using ::testing::HasSubstr;

constexpr std::int64_t kRows = 3;
constexpr std::int64_t kLength = 20;

// The tolerance: matrix products of one token and of many tokens are summed in different blocks.
constexpr float kNoise = 2e-4f;

float largest_difference(const float* a, const float* b, std::int64_t count) {
  float largest = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

// Runs prompts of these lengths, one per row, and then one token after the other. Each token's logits must
// be those of the training graph.
void expect_trained_logits(const test::SmallModel& model, const std::string& changes, const std::vector<std::int64_t>& prompts) {
  Decoding decoding(kSmallWidths + model.request + "compile_topology=cpu-1 " + changes, kRows, kLength);
  const std::int64_t vocabulary = decoding.session.shape.vocab_size;
  const std::vector<std::int32_t> ids = test::some_tokens(kRows, kLength, vocabulary);
  const std::vector<float> expected = test::trained_logits(decoding, ids, kLength);
  const auto expect_same = [&](const std::vector<float>& logits, std::int64_t row, std::int64_t length, std::int64_t at, std::int64_t position) {
    const float off = largest_difference(logits.data() + (row * length + at) * vocabulary,
                                         expected.data() + (row * kLength + position) * vocabulary, vocabulary);
    EXPECT_LT(off, kNoise) << "row " << row << " position " << position;
  };
  const std::int64_t longest = *std::max_element(prompts.begin(), prompts.end());
  NewTokens prompt;
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t at = 0; at < longest; ++at) {
      const bool is_there = at < prompts[static_cast<std::size_t>(row)];
      prompt.ids.push_back(is_there ? ids[static_cast<std::size_t>(row * kLength + at)] : 0);
      prompt.positions.push_back(static_cast<std::int32_t>(at));
      prompt.segments.push_back(is_there ? 1 : 0);
    }
  }
  const std::vector<float> first = decoding.logits(decoding.program(longest), prompt);
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t at = 0; at < prompts[static_cast<std::size_t>(row)]; ++at) expect_same(first, row, longest, at, at);
  }
  for (std::int64_t step = 0; longest + step < kLength; ++step) {
    NewTokens next;
    for (std::int64_t row = 0; row < kRows; ++row) {
      const std::int64_t position = prompts[static_cast<std::size_t>(row)] + step;
      next.ids.push_back(ids[static_cast<std::size_t>(row * kLength + position)]);
      next.positions.push_back(static_cast<std::int32_t>(position));
      next.segments.push_back(1);
    }
    const std::vector<float> logits = decoding.logits(decoding.step(), next);
    for (std::int64_t row = 0; row < kRows; ++row) {
      expect_same(logits, row, 1, 0, prompts[static_cast<std::size_t>(row)] + step);
    }
  }
}

class Family : public ::testing::TestWithParam<test::SmallModel> {};

TEST_P(Family, DecodesToWhatItIsTrainedOn) { expect_trained_logits(GetParam(), "", {7, 7, 7}); }
TEST_P(Family, DecodesAlikeUnscanned) { expect_trained_logits(GetParam(), "scan_layers=false", {7, 7, 7}); }
TEST_P(Family, DecodesFromTheFirstToken) { expect_trained_logits(GetParam(), "", {1, 1, 1}); }
TEST_P(Family, DecodesPromptsOfDifferentLengths) { expect_trained_logits(GetParam(), "", {3, 9, 6}); }
TEST_P(Family, DecodesPromptsThatFillMostOfTheCache) { expect_trained_logits(GetParam(), "", {kLength - 1, kLength - 2, kLength - 1}); }
TEST_P(Family, DecodesWithRandomExperts) { expect_trained_logits(GetParam(), "use_random_routing=true router_skew=1", {3, 9, 6}); }
TEST_P(Family, DecodesWithAttentionOfPlainProducts) { expect_trained_logits(GetParam(), "attention=dot_product", {5, 5, 5}); }

INSTANTIATE_TEST_SUITE_P(All, Family, ::testing::ValuesIn(test::small_models()), [](const auto& test) { return test.param.family; });

// Keys with equal scores may be more than the indexer is to choose, in decoding too.
TEST(Decoder, SeesAllKeysWithEqualScores) {
  expect_trained_logits(test::small_model("deepseek32"), "indexer_mask_exact_topk=false indexer_n_heads=1", {3, 9, 6});
}

TEST(Decoder, SaysWhenAPositionHasNoSlot) {
  Decoding decoding(kSmallWidths + test::small_model("llama2").request + "compile_topology=cpu-1", 1, 4);
  EXPECT_EQ(test::message_of([&] { decoding.logits(decoding.step(), {{1}, {4}, {1}}); }),
            "the KV cache: position 4 has no slot in a cache of 4\n  fix: make room for more positions");
  EXPECT_THAT(test::message_of([&] { decoding.logits(decoding.step(), {{1}, {0}, {1}}); }),
              HasSubstr("the KV cache: what it held was lost in a run that failed\n  fix: start the rows anew"));
  decoding.decoder.forget();
  EXPECT_EQ(test::message_of([&] { decoding.logits(decoding.step(), {{1}, {3}, {1}}); }), "no error");
}

TEST(Decoder, RefusesWhatDoesNotFitTheProgram) {
  Decoding decoding(kSmallWidths + test::small_model("llama2").request + "compile_topology=cpu-1", 2, 4);
  EXPECT_EQ(test::message_of([&] { decoding.logits(decoding.step(), {{1}, {0, 0}, {1, 1}}); }),
            "inputs: 1 numbers, the program takes [2, 1]\n  fix: give one for each new token of each row");
  const run::Array wrong = decoding.decoder.pool().allocate({3}, DType::float32);
  EXPECT_EQ(test::message_of([&] { decoding.decoder.set_parameter("decoder/decoder_norm/scale", wrong); }),
            "decoder/decoder_norm/scale: given as float32[3], the model has float32[64]\n"
            "  fix: use weights of this model, in its weight_dtype");
  EXPECT_EQ(test::message_of([&] { decoding.decoder.set_parameter("decoder/other", wrong); }),
            "decoder/other: the model has no such parameter\n  fix: use weights of this model");
  Decoding longer(kSmallWidths + test::small_model("llama2").request + "compile_topology=cpu-1", 2, 8);
  EXPECT_THAT(test::message_of([&] { decoding.decoder.prepare(longer.graph_program(1)); }),
              HasSubstr("fix: make all programs for the same rows and cache slots, on one mesh"));
}

TEST(Decoder, RefusesTokensOutsideTheVocabulary) {
  Decoding decoding(kSmallWidths + test::small_model("llama2").request + "compile_topology=cpu-8 ici_fsdp_parallelism=1 ici_tensor_parallelism=8",
                    1, 4);
  for (const std::int32_t id : {-1, 128}) {
    EXPECT_EQ(test::message_of([&] { decoding.logits(decoding.step(), {{id}, {0}, {1}}); }),
              "inputs: token " + std::to_string(id) + " lies outside the vocabulary of 128\n  fix: use the tokenizer of this model");
  }
}

TEST(Decoder, RefusesPipelines) {
  const session::Session found =
      test::session(kSmallWidths + "compile_topology=cpu-8 ici_fsdp_parallelism=4 ici_pipeline_parallelism=2 base_num_decoder_layers=4");
  EXPECT_THAT(test::message_of([&] { models::build_decode_model({found.loaded.settings, found.shape, 1, 1, nullptr}, {1, 4}); }),
              HasSubstr("decoding does not run over pipeline stages\n  fix: ici_pipeline_parallelism=1"));
}

TEST(Decoder, RefusesMoreTokensThanTheCacheHolds) {
  const session::Session found = test::session(kSmallWidths + "compile_topology=cpu-1");
  const auto build = [&](std::int64_t tokens, std::int64_t slots) {
    return test::message_of([&] { models::build_decode_model({found.loaded.settings, found.shape, 1, 1, nullptr}, {tokens, slots}); });
  };
  EXPECT_THAT(build(5, 4), HasSubstr("decoding: 5 new tokens a row with a cache for 4 positions"));
  EXPECT_THAT(build(0, 4), HasSubstr("decoding: 0 new tokens a row with a cache for 4 positions"));
  EXPECT_EQ(build(4, 4), "no error");
}

}  // namespace
}  // namespace moesh::decode
