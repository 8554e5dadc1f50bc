// The names of layers, stacked and unstacked.
#include "store/layers.h"

#include <gmock/gmock.h>

namespace moesh::store {
namespace {

using ::testing::ElementsAre;

TEST(LayerNames, TellWhatTheLayersOfAStackAreCalledAlone) {
  const LayerNames names({{"decoder/layers/mlp/wi/kernel", {1, 3}}, {"mu/decoder/moe_layers/x", {0, 2}}, {"token_embedder/embedding", {}}});
  EXPECT_THAT(names.alone("decoder/layers/mlp/wi/kernel"),
              ElementsAre("decoder/layers_0/mlp/wi/kernel", "decoder/layers_1/mlp/wi/kernel", "decoder/layers_2/mlp/wi/kernel"));
  EXPECT_THAT(names.alone("mu/decoder/moe_layers/x"), ElementsAre("mu/decoder/moe_layers_0/x", "mu/decoder/moe_layers_1/x"));
  EXPECT_THAT(names.alone("token_embedder/embedding"), ElementsAre("token_embedder/embedding"));
  ASSERT_NE(names.find("decoder/layers_2/mlp/wi/kernel"), nullptr);
  EXPECT_EQ(names.find("decoder/layers_2/mlp/wi/kernel")->index, 2);
  EXPECT_EQ(names.find("decoder/layers_2/mlp/wi/kernel")->dim, 1);
  EXPECT_EQ(names.find("decoder/layers_3/mlp/wi/kernel"), nullptr);
}

// Two kinds of layers alternate; those of the first kind have even numbers.
TEST(LayerNames, KnowThatKindsOfLayersTakeTurns) {
  const LayerNames names({{"decoder/layers/layers_0/x", {0, 2}}, {"decoder/layers/layers_1/x", {0, 2}}});
  const LayerNames alike({{"decoder/layers/layer_0/x", {0, 2}}, {"decoder/layers/layer_1/x", {0, 2}}});
  EXPECT_THAT(alike.alone("decoder/layers/layer_1/x"), ElementsAre("decoder/layers_1/x", "decoder/layers_3/x"));
  EXPECT_THAT(names.alone("decoder/layers/layers_0/x"), ElementsAre("decoder/layers_0/x", "decoder/layers_2/x"));
  EXPECT_THAT(names.alone("decoder/layers/layers_1/x"), ElementsAre("decoder/layers_1/x", "decoder/layers_3/x"));
}

// Seven layers in cycles of three: one layer remains.
TEST(LayerNames, CountOnInTheLayersThatAreLeftOfACycle) {
  const LayerNames names({{"decoder/layers/layers_0/x", {1, 2}},
                          {"decoder/layers/layers_1/x", {1, 2}},
                          {"decoder/layers/layers_2/x", {1, 2}},
                          {"decoder/layers_remainder/layers_0/x", {}}});
  EXPECT_THAT(names.alone("decoder/layers_remainder/layers_0/x"), ElementsAre("decoder/layers_6/x"));
  EXPECT_EQ(names.find("decoder/layers_6/x")->tensor, "decoder/layers_remainder/layers_0/x");
  const LayerNames few(std::map<std::string, LayerNames::Stack>{{"mu/decoder/layers_remainder/layers_1/x", {}}});
  EXPECT_THAT(few.alone("mu/decoder/layers_remainder/layers_1/x"), ElementsAre("mu/decoder/layers_1/x"));
}

// Two cycles, each of two layers in a stack and one after it; two layers remain.
TEST(LayerNames, CountInStacksWithinStacks) {
  const LayerNames names({{"decoder/scanned_blocks/local_layers/x", {1, 2, 2}},
                          {"decoder/scanned_blocks/global_layer/x", {1, 2}},
                          {"decoder/layers_remainder/local_layers/x", {1, 2}}});
  EXPECT_THAT(names.alone("decoder/scanned_blocks/local_layers/x"),
              ElementsAre("decoder/layers_0/x", "decoder/layers_1/x", "decoder/layers_3/x", "decoder/layers_4/x"));
  EXPECT_THAT(names.alone("decoder/scanned_blocks/global_layer/x"), ElementsAre("decoder/layers_2/x", "decoder/layers_5/x"));
  EXPECT_THAT(names.alone("decoder/layers_remainder/local_layers/x"), ElementsAre("decoder/layers_6/x", "decoder/layers_7/x"));
  const Layer& layer = *names.find("decoder/layers_3/x");
  EXPECT_EQ(layer.index, 1);
  EXPECT_EQ(layer.within, 0);
  EXPECT_EQ(layer.number, 2);
}

// One layer that is not stacked, two cycles of two layers, and a layer that remains.
TEST(LayerNames, CountOnInCyclesAfterLayersThatStandAlone) {
  const std::map<std::string, LayerNames::Stack> tensors{{"decoder/layers_0/x", {}},
                                                         {"decoder/scanned_blocks/layers_0/x", {1, 2}},
                                                         {"decoder/scanned_blocks/layers_1/x", {1, 2}},
                                                         {"decoder/scanned_blocks_remainder/layers_0/x", {}},
                                                         {"mu/decoder/scanned_blocks/layers_1/x", {1, 2}}};
  const LayerNames names(tensors);
  EXPECT_THAT(names.alone("decoder/layers_0/x"), ElementsAre("decoder/layers_0/x"));
  EXPECT_THAT(names.alone("decoder/scanned_blocks/layers_0/x"), ElementsAre("decoder/layers_1/x", "decoder/layers_3/x"));
  EXPECT_THAT(names.alone("decoder/scanned_blocks/layers_1/x"), ElementsAre("decoder/layers_2/x", "decoder/layers_4/x"));
  EXPECT_THAT(names.alone("decoder/scanned_blocks_remainder/layers_0/x"), ElementsAre("decoder/layers_5/x"));
  EXPECT_THAT(names.alone("mu/decoder/scanned_blocks/layers_1/x"), ElementsAre("mu/decoder/layers_2/x", "mu/decoder/layers_4/x"));
  EXPECT_EQ(names.find("decoder/layers_4/x")->index, 1);
  EXPECT_EQ(names.find("decoder/layers_4/x")->tensor, "decoder/scanned_blocks/layers_1/x");
}

// Whatever is kept for each layer of a tensor is found again by the layer's number.
TEST(LayerNames, NumberTheLayersOfATensorInTheirOrder) {
  const LayerNames::Stack nested{1, 3, 2}, plain{0, 4}, none{};
  EXPECT_EQ(nested.all_layers(), 6);
  EXPECT_EQ(plain.all_layers(), 4);
  EXPECT_EQ(none.all_layers(), 1);
  const std::map<std::string, LayerNames::Stack> tensors{
      {"decoder/scanned_blocks/local_layers/x", nested}, {"decoder/layers/y", plain}, {"decoder/norm", none}};
  const LayerNames names(tensors);
  for (const auto& [tensor, stack] : tensors) {
    const std::vector<std::string> alone = names.alone(tensor);
    ASSERT_EQ(static_cast<std::int64_t>(alone.size()), stack.all_layers()) << tensor;
    for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(names.find(alone[i])->number, static_cast<std::int64_t>(i)) << alone[i];
  }
}

TEST(LayerParts, AreFoundInStacksWithinStacks) {
  std::vector<float> stack{0, 1, 2, 3, 4, 5, 6, 7};  // two numbers per layer, [2, 2, 2] with the cycles in dim 1
  const Part whole = dense_part({{0, 2}, {0, 2}, {0, 2}}, DType::float32, reinterpret_cast<std::byte*>(stack.data()));
  const Layer layer{"decoder/scanned_blocks/local_layers/x", 1, 1, 0};
  float made[2] = {};
  copy_shared(of_layer({whole}, layer).front(), dense_part({{0, 2}}, DType::float32, reinterpret_cast<std::byte*>(made)));
  EXPECT_EQ(made[0], 2);
  EXPECT_EQ(made[1], 6);
  made[0] = made[1] = 0;
  const auto seen = as_layer({dense_part({{0, 2}}, DType::float32, reinterpret_cast<std::byte*>(made))}, layer);
  copy_shared(whole, seen.front());
  EXPECT_EQ(made[0], 2);
  EXPECT_EQ(made[1], 6);
}

TEST(LayerNames, LeaveALayerThatStandsAloneItsName) {
  const LayerNames names(std::map<std::string, LayerNames::Stack>{{"decoder/layers_4/x", {}}});
  EXPECT_THAT(names.alone("decoder/layers_4/x"), ElementsAre("decoder/layers_4/x"));
  EXPECT_EQ(names.find("decoder/layers_4/x")->dim, -1);
}

TEST(LayerParts, AreFoundInStacksAndMadeSuch) {
  std::vector<float> stack{0, 1, 2, 3, 4, 5};
  const Part whole = dense_part({{0, 2}, {0, 3}}, DType::float32, reinterpret_cast<std::byte*>(stack.data()));
  const auto layer = at_index({whole}, 1, 2);
  ASSERT_EQ(layer.size(), 1u);
  float made[2] = {};
  copy_shared(layer.front(), dense_part({{0, 2}}, DType::float32, reinterpret_cast<std::byte*>(made)));
  EXPECT_EQ(made[0], 2);
  EXPECT_EQ(made[1], 5);
  const auto seen = as_index({dense_part({{0, 2}}, DType::float32, reinterpret_cast<std::byte*>(made))}, 1, 0);
  EXPECT_EQ(copy_shared(whole, seen.front()), 2);
  EXPECT_EQ(made[1], 3);
  EXPECT_TRUE(at_index({whole}, 1, 3).empty());
}

}  // namespace
}  // namespace moesh::store
