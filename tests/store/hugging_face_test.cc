// How tensors of Hugging Face files map to a model's tensors, which numbers they hold, and what is refused.
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/hugging_face_source.h"
#include "store/hugging_face_writer.h"
#include "store/small_floats.h"
#include "tests/store/safetensors_support.h"
#include "tests/support.h"

namespace moesh::store {
namespace {

using test::bytes_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

HuggingFaceModel llama(std::int64_t rotary_dim = 4) { return {"llama2", 2, 0, false, rotary_dim, false, false, 1}; }

struct Entry {
  std::string name, dtype;
  Shape shape;
  std::string data;
};

std::string file_of(const std::vector<Entry>& entries) {
  std::string header = "{", data;
  for (const Entry& entry : entries) {
    header += (header.size() > 1 ? "," : "") +
              ("\"" + entry.name + "\":{\"dtype\":\"" + entry.dtype + "\",\"shape\":") + to_string(entry.shape) +
              ",\"data_offsets\":[" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + entry.data.size()) + "]}";
    data += entry.data;
  }
  return test::safetensors(header + "}", data);
}

// A tensor with the values 0, 1, 2, ... in float32.
Entry counted_up(const std::string& name, const Shape& shape) {
  std::vector<float> numbers(static_cast<std::size_t>(elements(shape)));
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  return {name, "F32", shape, bytes_of(numbers)};
}

std::vector<float> read(const std::string& folder, const std::string& name, std::optional<ScaledBlock> scaled = ScaledBlock{}) {
  const HuggingFaceWeights weights(folder, HuggingFaceKind::text, scaled);
  const Numbers numbers = weights.read(name);
  const Shape& shape = weights.shapes().at(name);
  std::vector<float> all(static_cast<std::size_t>(elements(shape)));
  copy_shared({whole_block(shape), numbers.dtype, numbers.data, numbers.strides},
              dense_part(whole_block(shape), DType::float32, reinterpret_cast<std::byte*>(all.data())));
  return all;
}

// The values of the model's tensor `ours`, filled from the tensors `theirs`.
std::vector<float> filled(const HuggingFaceModel& model, const std::vector<Entry>& theirs, const ModelTensor& ours) {
  const test::TemporaryFolder folder;
  folder.write("model.safetensors", file_of(theirs));
  backend::Workers workers(2);
  HuggingFaceSource source(model, HuggingFaceWeights(folder.path()), {ours});
  std::vector<float> all(static_cast<std::size_t>(elements(ours.shape)));
  source.fill(ours.name,
              {dense_part(whole_block(ours.shape), DType::float32, reinterpret_cast<std::byte*>(all.data()))}, workers);
  return all;
}

TEST(SmallFloats, AreTheNumbersTheyStandFor) {
  EXPECT_EQ(from_float16(0x3C00), 1.0f);
  EXPECT_EQ(from_float16(0xC500), -5.0f);
  EXPECT_EQ(from_float16(0x0001), std::ldexp(1.0f, -24));
  EXPECT_TRUE(std::isinf(from_float16(0x7C00)));
  EXPECT_EQ(from_float8_e4m3(0x38), 1.0f);
  EXPECT_EQ(from_float8_e4m3(0x7E), 448.0f);
  EXPECT_EQ(from_float8_e4m3(0x81), -std::ldexp(1.0f, -9));
  EXPECT_TRUE(std::isnan(from_float8_e4m3(0xFF)));
  EXPECT_EQ(from_float4_e2m1(0xF), -6.0f);
  EXPECT_EQ(power_of_two(126), 0.5f);
}

TEST(SmallFloats, ANumberOf16BitsIsTheNearestOne) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = from_float16(static_cast<std::uint16_t>(bits));
    if (std::isnan(value)) continue;
    EXPECT_EQ(to_float16(value), bits);
    if (std::isinf(value) || (bits & 0x7FFF) == 0x7BFF) continue;
    const float next = from_float16(static_cast<std::uint16_t>(bits + 1)), between = value / 2 + next / 2;
    EXPECT_EQ(to_float16(between), bits + (bits & 1)) << "the even one";
    EXPECT_EQ(to_float16(std::nextafter(between, value)), bits);
    EXPECT_EQ(to_float16(std::nextafter(between, next)), bits + 1);
  }
  EXPECT_EQ(to_float16(65519.0f), 0x7BFF);
  EXPECT_EQ(to_float16(-65520.0f), 0xFC00) << "none is as large";
  EXPECT_TRUE(std::isnan(from_float16(to_float16(NAN))));
}

TEST(HuggingFaceNames, AMatrixIsTurnedOver) {
  const std::vector<float> made =
      filled({"llama2", 1, 0, false, 4, false, false, 1}, {counted_up("model.layers.0.mlp.gate_proj.weight", {3, 2})},
             {"decoder/layers_0/mlp/wi_0/kernel", {2, 3}, -1});
  EXPECT_THAT(made, ElementsAre(0, 2, 4, 1, 3, 5));
}

TEST(HuggingFaceNames, LayersOfAStackComeFromTensorsOfTheirOwn) {
  std::vector<Entry> theirs;
  for (int layer = 0; layer < 2; ++layer) {
    theirs.push_back(counted_up("model.layers." + std::to_string(layer) + ".input_layernorm.weight", {3}));
    if (layer == 1) theirs.back().data = bytes_of<float>({7, 8, 9});
  }
  EXPECT_THAT(filled(llama(), theirs, {"decoder/layers/pre_self_attention_layer_norm/scale", {3, 2}, 1}),
              ElementsAre(0, 7, 1, 8, 2, 9));
}

TEST(HuggingFaceNames, HeadsThatTurnInHalvesAreTurnedAsNeighboursWhereTheModelDoesSo) {
  HuggingFaceModel model = llama();
  const Entry theirs = counted_up("model.layers.0.self_attn.q_proj.bias", {8});
  const ModelTensor ours{"decoder/layers_0/self_attention/query/bias", {2, 4}, -1};
  EXPECT_THAT(filled(model, {theirs}, ours), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  model.rope_is_interleaved = true;
  EXPECT_THAT(filled(model, {theirs}, ours), ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
  model.rotary_dim = 2;  // only the first dims of a head
  EXPECT_THAT(filled(model, {theirs}, ours), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  model.query_factor = 0.5;
  EXPECT_THAT(filled(model, {theirs}, ours), ElementsAre(0, 0.5f, 1, 1.5f, 2, 2.5f, 3, 3.5f));
}

TEST(HuggingFaceNames, ExpertsHaveTensorsOfTheirOwnOrHalvesOfOne) {
  const HuggingFaceModel mixtral{"mixtral", 1, 0, false, 4, false, false, 1};
  std::vector<Entry> theirs;
  for (int expert = 0; expert < 2; ++expert)
    theirs.push_back(
        counted_up("model.layers.0.block_sparse_moe.experts." + std::to_string(expert) + ".w2.weight", {2, 1}));
  theirs[1].data = bytes_of<float>({5, 6});
  EXPECT_THAT(filled(mixtral, theirs, {"decoder/layers_0/MoeBlock_0/wo", {2, 1, 2}, -1}), ElementsAre(0, 1, 5, 6));
  const HuggingFaceModel gpt_oss{"gpt_oss", 1, 0, false, 4, false, false, 1};
  const Entry both = counted_up("model.layers.0.mlp.experts.gate_up_proj_bias", {2, 4});
  EXPECT_THAT(filled(gpt_oss, {both}, {"decoder/layers_0/GptOssMlp/wi_0_bias", {2, 2}, -1}), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(filled(gpt_oss, {both}, {"decoder/layers_0/GptOssMlp/wi_1_bias", {2, 2}, -1}), ElementsAre(1, 3, 5, 7));
}

HuggingFaceModel qwen35() {
  return {kQwen35, 1, 0, false, 4, false, false, 1, 0, 2, {{'q', 1}, {'k', 1}, {'v', 2}, {'z', 2}, {'b', 2}, {'a', 2}}};
}

TEST(HuggingFaceSource, ProjectionsOfAHeadLieTogether) {
  const auto with = [](const char* name, Shape shape) { return counted_up(fmt::format("model.layers.0.linear_attn.{}.weight", name), shape); };
  const std::string above = "decoder/layers_0/attention/";
  const std::vector<float> wide =
      filled(qwen35(), {with("in_proj_qkv", {8, 1}), with("in_proj_z", {4, 1})}, {above + "in_proj_qkvz/kernel", {1, 12}, -1});
  EXPECT_THAT(wide, ElementsAre(0, 2, 4, 5, 0, 1, /* the second head */ 1, 3, 6, 7, 2, 3));
  const std::vector<float> narrow =
      filled(qwen35(), {with("in_proj_b", {4, 1}), with("in_proj_a", {4, 1})}, {above + "in_proj_ba/kernel", {1, 8}, -1});
  EXPECT_THAT(narrow, ElementsAre(0, 1, 0, 1, 2, 3, 2, 3));
  EXPECT_THAT(test::message_of([&] {
                filled(qwen35(), {with("in_proj_qkv", {7, 1}), with("in_proj_z", {4, 1})}, {above + "in_proj_qkvz/kernel", {1, 12}, -1});
              }),
              HasSubstr("model.layers.0.linear_attn.in_proj_qkv.weight is [7, 1], config.json makes it [8, 1]"));
}

TEST(HuggingFaceSource, ExpertsHaveATensorEachOrLieInOne) {
  const std::string experts = "model.layers.0.mlp.experts.", ours = "decoder/layers_0/mlp/routed_experts/wi_1";
  const Entry all = counted_up(experts + "gate_up_proj", {2, 4, 1});
  EXPECT_THAT(filled(qwen35(), {all}, {ours, {2, 1, 2}, -1}), ElementsAre(2, 3, 6, 7));
  const std::vector<Entry> each{counted_up(experts + "0.up_proj.weight", {2, 1}), counted_up(experts + "1.up_proj.weight", {2, 1})};
  EXPECT_THAT(filled(qwen35(), each, {ours, {2, 1, 2}, -1}), ElementsAre(0, 1, 0, 1));
}

TEST(HuggingFaceNames, QwensModulesThatPredictAheadAreLeftOut) {
  EXPECT_TRUE(may_be_left_out(qwen35(), "mtp.layers.0.mlp.gate.weight"));
  EXPECT_TRUE(may_be_left_out({"qwen3_next", 1, 0, false, 4, false, false, 1}, "mtp.fc.weight"));
  EXPECT_FALSE(may_be_left_out(llama(), "mtp.fc.weight"));
}

TEST(HuggingFaceNames, DenseLayersStandBeforeThoseWithExperts) {
  const HuggingFaceModel model{"deepseek", 3, 1, false, 4, true, true, 1};
  const auto all = hugging_face_tensors(model, {{"decoder/dense_layers_0/mlp/wo/kernel", {4, 2}},
                                                {"decoder/moe_layers_1/self_attention/kv_norm/scale", {2}}});
  EXPECT_TRUE(all.contains("model.layers.0.mlp.down_proj.weight"));
  EXPECT_TRUE(all.contains("model.layers.2.self_attn.kv_a_layernorm.weight"));
  EXPECT_THAT(test::message_of([&] {
                hugging_face_tensors(model, {{"decoder/layers_0/nothing", {2}}});
              }),
              HasSubstr("decoder/layers_0/nothing: Hugging Face's files have no name for it"));
  EXPECT_TRUE(may_be_left_out(model, "model.layers.3.eh_proj.weight")) << "a layer that guesses ahead";
  EXPECT_FALSE(may_be_left_out(model, "model.layers.2.eh_proj.weight"));
  EXPECT_FALSE(may_be_left_out(model, "lm_head.weight"));
}

TEST(HuggingFaceNames, ModulesThatPredictAheadAreLayersBehindTheModels) {
  const HuggingFaceModel model{"deepseek", 3, 1, false, 4, true, true, 1};
  const auto all = hugging_face_tensors(model, {{"mtp_block/mtp_layer_2/mtp_2_projection/kernel", {4, 2}},
                                                {"mtp_block/mtp_layer_2/mtp_2_embedding_norm/scale", {2}},
                                                {"mtp_block/mtp_layer_1/mtp_1_hidden_state_norm/scale", {2}},
                                                {"mtp_block/mtp_layer_1/mtp_1_transformer_layer/self_attention/kv_norm/scale", {2}}});
  std::vector<std::string> names;
  for (const auto& [name, tensor] : all) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("model.layers.3.hnorm.weight", "model.layers.3.self_attn.kv_a_layernorm.weight",
                                 "model.layers.4.eh_proj.weight", "model.layers.4.enorm.weight"));
  EXPECT_THAT(all.at("model.layers.4.eh_proj.weight").shape, ElementsAre(2, 4));
  for (const char* name :
       {"mtp_block/mtp_layer_1/mtp_2_projection/kernel", "mtp_block/mtp_layer_x/mtp_0_projection/kernel", "mtp_block/mtp_layer_1"}) {
    EXPECT_THAT(test::message_of([&] { hugging_face_tensors(model, {{name, {4, 2}}}); }), HasSubstr("have no name for it"));
  }
}

TEST(HuggingFaceWeights, SmallNumbersAreReadWithTheirScales) {
  const test::TemporaryFolder folder;
  std::string eighths(130 * 2, static_cast<char>(0x38));                                      // ones
  eighths[2 * 129] = static_cast<char>(0x40);                                                 // 2
  const std::string fours = std::string(1, static_cast<char>(0x21)) + std::string(15, '\0');  // 0.5, 1, 0, ...
  folder.write("model.safetensors",
               file_of({{"half", "F16", {2}, bytes_of<std::uint16_t>({0x3C00, 0xC000})},
                        {"w", "F8_E4M3", {130, 2}, eighths},
                        {"w_scale_inv", "F32", {2, 1}, bytes_of<float>({3, 0.25f})},
                        {"x_blocks", "U8", {1, 2, 1, 16}, fours + fours},
                        {"x_scales", "U8", {1, 2, 1}, std::string{static_cast<char>(127), static_cast<char>(128)}}}));
  EXPECT_THAT(read(folder.path(), "half"), ElementsAre(1, -2));
  const std::vector<float> w = read(folder.path(), "w");
  EXPECT_EQ(w[0], 3.0f);
  EXPECT_EQ(w[2 * 128 + 1], 0.25f) << "the second block of rows has another scale";
  EXPECT_EQ(w[2 * 129], 0.5f);
  const HuggingFaceWeights weights(folder.path());
  EXPECT_EQ(weights.shapes().at("x"), (Shape{1, 32, 2}));
  EXPECT_FALSE(weights.shapes().contains("x_scales"));
  const std::vector<float> x = read(folder.path(), "x");
  EXPECT_THAT(std::vector<float>(x.begin(), x.begin() + 4), ElementsAre(0.5f, 1, 1, 2))
      << "rows are what is computed with as columns";
}

TEST(HuggingFaceWeights, EachBlockOfRowsAndColumnsHasItsScale) {
  const test::TemporaryFolder folder;
  folder.write("model.safetensors", file_of({{"w", "F8_E4M3", {130, 300}, std::string(130 * 300, static_cast<char>(0x38))},
                                             {"w_scale_inv", "F32", {2, 3}, bytes_of<float>({1, 2, 3, 4, 5, 6})}}));
  const std::vector<float> w = read(folder.path(), "w");
  for (const std::size_t row : {0u, 127u, 128u, 129u}) {
    for (const std::size_t column : {0u, 127u, 128u, 255u, 256u, 299u})
      EXPECT_EQ(w[row * 300 + column], static_cast<float>(1 + row / 128 * 3 + column / 128)) << row << " " << column;
  }
}

// With the usual block, scales of these shapes would fit and be others.
TEST(HuggingFaceWeights, BlocksHaveTheSizeThatTheConfigSays) {
  const test::TemporaryFolder folder;
  const std::string ones(192 * 40, static_cast<char>(0x38));
  const std::string to_6 = bytes_of<std::uint16_t>({0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0, 0x40C0});  // 1, 2, ...
  folder.write("model.safetensors", file_of({{"w", "F8_E4M3", {192, 40}, ones},
                                             {"w_scale_inv", "F32", {2, 1}, bytes_of<float>({2, 3})},
                                             {"v", "F8_E4M3", {192, 40}, ones},
                                             {"v_scale_inv", "BF16", {2, 3}, to_6}}));
  const std::vector<float> usual = read(folder.path(), "w"), said = read(folder.path(), "w", ScaledBlock{96, 40});
  for (const std::size_t row : {0u, 95u, 96u, 127u, 128u, 191u}) {
    EXPECT_EQ(usual[row * 40 + 39], row < 128 ? 2 : 3) << row;
    EXPECT_EQ(said[row * 40 + 39], row < 96 ? 2 : 3) << row;
  }
  const std::vector<float> oblong = read(folder.path(), "v", ScaledBlock{100, 16});
  for (const std::size_t row : {0u, 99u, 100u, 191u}) {
    for (const std::size_t column : {0u, 15u, 16u, 31u, 32u, 39u})
      EXPECT_EQ(oblong[row * 40 + column], static_cast<float>(1 + row / 100 * 3 + column / 16)) << row << " " << column;
  }
  EXPECT_THAT(test::message_of([&] { read(folder.path(), "v"); }), HasSubstr("a scale for each 128 x 128 of them, but [2, 3]"));
  EXPECT_THAT(test::message_of([&] { read(folder.path(), "w", ScaledBlock{64, 64}); }),
              HasSubstr("w: 8-bit numbers [192, 40] without a scale for each 64 x 64 of them, but [2, 1]\n  fix: weight_block_size"));
}

TEST(HuggingFaceWeights, ATensorMayHaveOneScale) {
  const test::TemporaryFolder folder;
  const std::string ones(130 * 2, static_cast<char>(0x38)), half = bytes_of<float>({0.5f});
  folder.write("model.safetensors", file_of({{"a.weight", "F8_E4M3", {130, 2}, ones},
                                             {"a.weight_scale_inv", "F32", {}, half},
                                             {"a.activation_scale", "F32", {}, half},
                                             {"b.weight", "F8_E4M3", {130, 2}, ones},
                                             {"b.weight_scale_inv", "F32", {1}, half},
                                             {"c.weight", "F8_E4M3", {130, 2}, ones},
                                             {"c.weight_scale_inv", "F32", {2, 1}, half + half}}));
  for (const char* name : {"a.weight", "b.weight"}) {
    const std::vector<float> numbers = read(folder.path(), name, std::nullopt);
    EXPECT_EQ(numbers, std::vector<float>(130 * 2, 0.5f)) << name;
  }
  EXPECT_THAT(test::message_of([&] { read(folder.path(), "c.weight", std::nullopt); }),
              HasSubstr("c.weight: 8-bit numbers [130, 2] without one scale for all of them, but [2, 1]"));
  EXPECT_FALSE(HuggingFaceWeights(folder.path()).shapes().contains("a.activation_scale")) << "activations are not quantised here";
}

TEST(HuggingFaceWeights, AScaleOfOneByteIsAnExponent) {
  const test::TemporaryFolder folder;
  const auto exponents = [](int first, int second) { return std::string{static_cast<char>(first), static_cast<char>(second)}; };
  folder.write("model.safetensors", file_of({{"w", "F8_E4M3", {130, 1}, std::string(130, static_cast<char>(0x38))},
                                             {"w_scale_inv", "U8", {2, 1}, exponents(126, 129)},
                                             {"v", "F8_E4M3", {130, 1}, std::string(130, static_cast<char>(0x38))},
                                             {"v_scale_inv", "U8", {2, 1}, exponents(126, 255)}}));
  const std::vector<float> w = read(folder.path(), "w");
  EXPECT_EQ(w[127], 0.5f);
  EXPECT_EQ(w[128], 4.0f);
  EXPECT_THAT(test::message_of([&] { read(folder.path(), "v"); }), HasSubstr("v: its scales hold what is no number"));
}

TEST(HuggingFaceWeights, RefusesScalesThatDoNotFitAndNumbersThatAreNone) {
  const auto refused = [](const std::vector<Entry>& entries, const std::string& name) {
    const test::TemporaryFolder folder;
    folder.write("model.safetensors", file_of(entries));
    return test::message_of([&] { read(folder.path(), name); });
  };
  EXPECT_THAT(refused({{"w", "F8_E4M3", {2, 2}, "1234"}}, "w"),
              HasSubstr("8-bit numbers [2, 2] without a scale for each 128 x 128 of them"));
  EXPECT_THAT(refused({{"w", "F8_E4M3", {2, 2}, "1234"}, {"w_scale_inv", "F32", {1, 1}, bytes_of<float>({NAN})}}, "w"),
              HasSubstr("w: its scales hold what is no number"));
  EXPECT_THAT(
      refused({{"x_blocks", "U8", {1, 1, 1, 15}, std::string(15, '1')}, {"x_scales", "U8", {1, 1, 1}, "1"}}, "x"),
      HasSubstr("x_blocks: blocks [1, 1, 1, 15] without their scales, a byte for each 16"));
  EXPECT_THAT(refused({{"w", "F32", {2}, bytes_of<float>({1, INFINITY})}}, "w"),
              HasSubstr("w: it holds what is no number"));
  EXPECT_THAT(refused({{"w", "BF16", {1}, bytes_of<std::uint16_t>({0x7FC0})}}, "w"),
              HasSubstr("w: it holds what is no number"));
  EXPECT_THAT(refused({{"w", "I64", {1}, std::string(8, '1')}}, "w"),
              HasSubstr("w: it is int32, weights were expected"));
}

TEST(HuggingFaceWeights, FilesBehindAnIndexAreWhatItSays) {
  const auto refused = [](const std::string& index) {
    const test::TemporaryFolder folder;
    folder.write("a.safetensors", file_of({counted_up("v", {1}), counted_up("w", {2})}));
    folder.write("b.safetensors", file_of({counted_up("w", {2})}));
    folder.write("model.safetensors.index.json", "{\"weight_map\": {" + index + "}}");
    return test::message_of([&] { HuggingFaceWeights(folder.path()).read("w"); });
  };
  EXPECT_EQ(refused(R"("v": "a.safetensors", "w": "a.safetensors")"), "no error");
  EXPECT_THAT(refused(R"("v": "a.safetensors", "w": "b.safetensors")"),
              HasSubstr("'w' is there too, the index says b.safetensors"));
  EXPECT_THAT(refused(R"("w": "a.safetensors")"), HasSubstr("'v' is there, the index does not name it"));
  EXPECT_THAT(refused(R"("v": "a.safetensors", "w": "a.safetensors", "x": "a.safetensors")"),
              HasSubstr("no tensor 'x'"));
  EXPECT_THAT(refused(R"("w": "../b.safetensors")"), HasSubstr("'../b.safetensors' is no file beside it"));
  const test::TemporaryFolder empty;
  EXPECT_THAT(test::message_of([&] { HuggingFaceWeights{empty.path()}; }), HasSubstr("no weights are there"));
}

TEST(HuggingFaceWeights, OfTextAndImagesTheTextIsCalledAsWhereItIsAlone) {
  const auto shapes_of = [](const std::vector<Entry>& entries) {
    const test::TemporaryFolder folder;
    folder.write("model.safetensors", file_of(entries));
    const HuggingFaceWeights weights(folder.path(), HuggingFaceKind::text_and_images);
    std::vector<std::string> all;
    for (const auto& [name, shape] : weights.shapes()) all.push_back(name);
    if (weights.left_out().tensors > 0) all.push_back(words_of(weights.left_out()));
    return all;
  };
  const std::vector<Entry> older{counted_up("language_model.model.norm.weight", {3}), counted_up("language_model.lm_head.weight", {2}),
                                 counted_up("vision_tower.a", {4}), counted_up("vision_model.a", {4}),
                                 counted_up("multi_modal_projector.b", {2})};
  const std::vector<Entry> newer{counted_up("model.language_model.norm.weight", {3}), counted_up("lm_head.weight", {2}),
                                 counted_up("model.vision_tower.a", {4})};
  EXPECT_THAT(shapes_of(older), ElementsAre("lm_head.weight", "model.norm.weight",
                                            "3 tensors of multi_modal_projector and vision_model and vision_tower, 40 B"));
  EXPECT_THAT(shapes_of(newer), ElementsAre("lm_head.weight", "model.norm.weight", "1 tensor of vision_tower, 16 B"));
  const auto refused = [&](const std::vector<Entry>& entries) { return test::message_of([&] { shapes_of(entries); }); };
  EXPECT_THAT(refused({counted_up("audio_tower.a", {3}), counted_up("vision_towers.a", {3})}),
              HasSubstr("the weights have tensors that are neither of text nor of images: audio_tower.a, vision_towers.a"));
  EXPECT_THAT(refused({counted_up("model.norm.weight", {3})}), HasSubstr("neither of text nor of images: model.norm.weight"));
  EXPECT_THAT(refused({older.front(), newer.front()}),
              HasSubstr("'model.language_model.norm.weight' and another tensor are both model.norm.weight"));
}

TEST(HuggingFaceSource, RefusesWeightsOfAnotherModelNamingThem) {
  const auto refused = [](const std::vector<Entry>& theirs) {
    return test::message_of([&] { filled(llama(), theirs, {"decoder/decoder_norm/scale", {3}, -1}); });
  };
  EXPECT_THAT(refused({counted_up("model.norms.weight", {3})}), HasSubstr("the weights lack model.norm.weight"));
  EXPECT_THAT(refused({counted_up("model.norm.weight", {3}), counted_up("more", {1})}),
              HasSubstr("the weights have tensors that the model has not: more"));
  EXPECT_THAT(refused({counted_up("model.norm.weight", {4})}),
              HasSubstr("the weights are of other shapes: model.norm.weight is [4], config.json makes it [3]"));
  EXPECT_EQ(
      refused({counted_up("model.norm.weight", {3}), counted_up("model.layers.0.self_attn.rotary_emb.inv_freq", {1})}),
      "no error");
}

// transformers takes the head of the file then, though config.json says that it is the embedding.
TEST(HuggingFaceSource, AHeadBesideATiedEmbeddingIsTheSameMatrix) {
  HuggingFaceModel model = llama();
  const Entry embedding = counted_up("model.embed_tokens.weight", {3, 2});
  const auto refused = [&](const Entry& head) {
    return test::message_of([&] { filled(model, {embedding, head}, {"token_embedder/embedding", {3, 2}, -1}); });
  };
  const auto head = [](const std::string& dtype, const Shape& shape, const std::string& data) { return Entry{"lm_head.weight", dtype, shape, data}; };
  const std::string same = bytes_of<float>({0, 1, 2, 3, 4, 5});
  EXPECT_THAT(refused(head("F32", {3, 2}, same)), HasSubstr("tensors that the model has not: lm_head.weight"));
  model.tied_embedding = true;
  EXPECT_EQ(refused(head("F32", {3, 2}, same)), "no error");
  EXPECT_EQ(refused(head("F64", {3, 2}, bytes_of<double>({0, 1, 2, 3, 4, 5}))), "no error");
  for (const Entry& other : {head("F32", {2, 3}, same), head("F32", {3, 2}, bytes_of<float>({0, 1, 2, 3, 4, 6})),
                             head("F32", {1}, bytes_of<float>({NAN})), head("F64", {3, 2}, bytes_of<double>({0, 1, 2, 3, 4, 6}))}) {
    EXPECT_THAT(refused(other), HasSubstr("lm_head.weight is another matrix than model.embed_tokens.weight, but config.json says "
                                          "tie_word_embeddings: true\n  fix: tie_word_embeddings: false"));
  }
}

TEST(HuggingFaceWeights, ScalesOfWhatIsNotQuantisedAreTensorsOfTheirOwn) {
  for (const char* dtype : {"F32", "BF16", "F16"}) {
    const test::TemporaryFolder folder;
    const std::size_t bytes = dtype == std::string("F32") ? 4 : 2;
    folder.write("model.safetensors", file_of({{"w", dtype, {1, 1}, std::string(bytes, '1')}, counted_up("w_scale_inv", {1, 1})}));
    EXPECT_TRUE(HuggingFaceWeights(folder.path()).shapes().contains("w_scale_inv")) << dtype;
  }
}

TEST(HuggingFaceWeights, OneFileGoesBeforeAnIndex) {
  const test::TemporaryFolder folder;
  folder.write("a.safetensors", file_of({counted_up("v", {1})}));
  folder.write("model.safetensors.index.json", R"({"weight_map": {"v": "a.safetensors"}})");
  EXPECT_TRUE(HuggingFaceWeights(folder.path()).shapes().contains("v"));
  folder.write("model.safetensors", file_of({counted_up("w", {1})}));
  EXPECT_FALSE(HuggingFaceWeights(folder.path()).shapes().contains("v"));
  EXPECT_TRUE(HuggingFaceWeights(folder.path()).shapes().contains("w"));
}

TEST(HuggingFaceWriter, LargeModelsAreWrittenInSeveralFilesThatAreReadAsOne) {
  const test::TemporaryFolder folder;
  const std::vector<WrittenTensor> written{
      {"a", {DType::float32}, {3}}, {"b", {DType::bfloat16}, {2, 2}}, {"c", {DType::float32}, {4}}};
  const std::vector<float> numbers{1, 2, 3, 4};
  write_weights(
      folder.path(), written, [&](std::size_t) { return reinterpret_cast<const std::byte*>(numbers.data()); }, 20);
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/model-00002-of-00002.safetensors"));
  EXPECT_THAT(read(folder.path(), "a"), ElementsAre(1, 2, 3));
  EXPECT_THAT(read(folder.path(), "c"), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(HuggingFaceWeights(folder.path()).type("b"), StoredType{DType::bfloat16});
}

TEST(Safetensors, RefusesTwoEntriesOfOneName) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("a.safetensors", file_of({counted_up("w", {1}), counted_up("w", {1})}));
  EXPECT_THAT(test::message_of([&] { read_safetensors(path); }), HasSubstr("two entries of the name 'w'"));
}

}  // namespace
}  // namespace moesh::store
