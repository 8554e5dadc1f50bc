// What `why` says: each outcome of a rule in words, what a constraint changes, and an activation's producers and consumers.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sharding/why.h"
#include "tests/support.h"

namespace moesh::sharding {
namespace {

using test::rule;
using ::testing::HasSubstr;
using ::testing::Not;

Layout layout_with(const Labels& labels, const Shape& shape, const std::vector<config::AxisRule>& rules) {
  Layout layout{test::mesh_of({{"data", 2}, {"fsdp", 4}, {"one", 1}, {"expert", 2}}), "", rules, false, {}, {}, {}, {}, {}};
  LaidTensor tensor;
  tensor.path = "decoder/w";
  tensor.shape = shape;
  tensor.constraint.labels = labels;
  tensor.spec = resolve_spec(labels, rules, layout.mesh);
  layout.parameters.push_back(tensor);
  return layout;
}

std::string why_of(const Labels& labels, const Shape& shape, const std::vector<config::AxisRule>& rules) {
  const Layout layout = layout_with(labels, shape, rules);
  return why(layout, layout.parameters.front());
}

TEST(Why, BeginsWithTheTensorAndWhereItLies) {
  EXPECT_THAT(why_of({"a", "b"}, {8, 1234}, {rule("a", {"fsdp", "one"})}),
              HasSubstr("decoder/w  [8, 1234] float32\nlies as [fsdp, -]\n"));
}

TEST(Why, ListsTheDimsWithTheirBlocks) {
  EXPECT_THAT(why_of({"a", ""}, {9, 1234}, {rule("a", {"fsdp", "expert"})}),
              HasSubstr("dim  label   size  axes               block\n"
                        "  0  a          9  fsdp=4 x expert=2      2\n"
                        "  1  -      1,234  -                  1,234\n"));
}

TEST(Why, SaysWhichRuleTookADim) {
  EXPECT_THAT(why_of({"a"}, {8}, {rule("a", {"fsdp", "data"}, "mine.yml:3")}),
              HasSubstr("mine.yml:3  a -> fsdp, data  takes dim 0 (a): 8 shards\n"));
}

TEST(Why, SaysWhichAxesAreOfSizeOneAndWhichAreNotInTheMesh) {
  EXPECT_THAT(why_of({"a"}, {8}, {rule("a", {"fsdp", "one", "gone"})}),
              HasSubstr("takes dim 0 (a): 4 shards; not in the mesh: gone; of size 1: one\n"));
  EXPECT_THAT(why_of({"a"}, {8}, {rule("a", {"one"})}),
              HasSubstr("takes dim 0 (a): whole, no axis larger than 1; of size 1: one\n"));
}

TEST(Why, SaysThatARuleSettledADimWithoutAxes) {
  EXPECT_THAT(why_of({"a"}, {8}, {rule("a", {})}), HasSubstr("a -> nothing  settles dim 0 (a): replicated\n"));
  EXPECT_THAT(why_of({"a"}, {8}, {rule("a", {"gone"})}),
              HasSubstr("settles dim 0 (a): replicated; not in the mesh: gone\n"));
}

TEST(Why, SaysByWhomAnAxisWasTaken) {
  EXPECT_THAT(why_of({"a", "b"}, {8, 8}, {rule("b", {"fsdp"}), rule("a", {"data", "fsdp"})}),
              HasSubstr("a -> data, fsdp  passed over whole: axis fsdp is taken by dim 1 (b)\n"));
  EXPECT_THAT(why_of({"a", "b"}, {8, 8}, {rule("b", {"one"}), rule("a", {"fsdp", "one"})}),
              HasSubstr("passed over whole: axis one (of size 1) is taken by dim 1 (b)\n"));
}

TEST(Why, NamesTheFallbackThatWonAndTheRuleThatCameTooLate) {
  const std::string text = why_of({"a", "b"}, {8, 8},
                                  {rule("b", {"one"}, "mine.yml:1"), rule("a", {"fsdp", "one"}, "mine.yml:2"),
                                   rule("a", {"fsdp"}, "mine.yml:3"), rule("a", {"data"}, "mine.yml:4")});
  EXPECT_THAT(text, HasSubstr("mine.yml:2  a -> fsdp, one  passed over whole"));
  EXPECT_THAT(text, HasSubstr("mine.yml:3  a -> fsdp       takes dim 0 (a): 4 shards\n"));
  EXPECT_THAT(text, HasSubstr("mine.yml:4  a -> data       passed over: dim 0 (a) was settled by mine.yml:3\n"));
}

TEST(Why, NamesLabelsWithoutARule) {
  EXPECT_THAT(why_of({"a", "", "b"}, {8, 8, 8}, {rule("a", {"fsdp"})}), HasSubstr("No rule for: b (replicated).\n"));
  EXPECT_THAT(why_of({"a", ""}, {8, 8}, {rule("a", {"fsdp"})}), Not(HasSubstr("No rule for")));
}

TEST(Why, SaysWhatItCosts) {
  EXPECT_THAT(why_of({"a"}, {1024}, {rule("a", {"fsdp"})}),
              HasSubstr("It costs 1.00 KiB on each of 16 devices (4.00 KiB whole); each shard stands on 4 devices.\n"));
  EXPECT_THAT(why_of({"a"}, {1024}, {rule("a", {"fsdp", "data", "expert"})}),
              HasSubstr("each shard stands on 1 device.\n"));
}

const std::string kWithCapacity =
    "model_name=mixtral-8x7b compile_topology=v6e-8 ici_expert_parallelism=4 ici_fsdp_parallelism=2 "
    "sparse_matmul=false "
    "capacity_factor=1.25 ";

std::string why_activation(const std::string& request, const std::string& path) {
  const session::Session session = test::session(request);
  return why(session.layout, test::tensor_at(session.layout.activations, path));
}

TEST(Why, SaysThatTheBatchTookTheExpertAxisBecauseItsRuleStandsFirst) {
  const std::string text = why_activation(kWithCapacity, "decoder/layers/MoeBlock_0/dispatched");
  EXPECT_THAT(text, HasSubstr("lies as [-, (fsdp, expert), -, -]\n"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "activation_batch_moe -> data, fsdp, fsdp_transpose, expert  takes dim 1 (activation_batch_moe): 8 shards"));
  EXPECT_THAT(text, HasSubstr("passed over whole: axis expert is taken by dim 1 (activation_batch_moe)\n"));
}

TEST(Why, SaysWhatMakesAnActivationAndWhoUsesItInAnotherLayout) {
  const std::string text = why_activation(kWithCapacity, "decoder/layers/MoeBlock_0/dispatched");
  EXPECT_THAT(text, HasSubstr("Made by einsum bsm,bsec->ebcm (decoder/layers/MoeBlock_0/dispatch)\n"));
  EXPECT_THAT(text, HasSubstr("  from decoder/layers/hidden_states  [(fsdp, expert), -, -]\n")) << "its batch lies alike, if elsewhere";
  EXPECT_THAT(text, HasSubstr("  for  decoder/layers/MoeBlock_0/hidden_0  [-, (fsdp, expert), -, -]\n"));
}

TEST(Why, SaysWhatWasPeeledOff) {
  const std::string text =
      why_activation(kWithCapacity + "moe_dispatch_no_expert_sharding=true", "decoder/layers/MoeBlock_0/dispatched");
  EXPECT_THAT(text, HasSubstr("lies as [expert, fsdp, -, -]\n"));
  EXPECT_THAT(text, HasSubstr("takes dim 1 (activation_batch_moe): 8 shards, of which the peeling below leaves 2"));
  EXPECT_THAT(text,
              HasSubstr("Each dim was resolved alone, so two may claim one axis.\nThen expert is peeled off dim 1.\n"
                        "So it lies as [expert, fsdp, -, -].\n"));
  const std::string sparse =
      why_activation("model_name=mixtral-8x7b compile_topology=v6e-8", "decoder/layers/MoeBlock_0/w0_kernel");
  EXPECT_THAT(sparse, HasSubstr("Then fsdp is peeled off all dims.\nSo it lies as ["));
  const std::string plain = why_activation(kWithCapacity, "decoder/layers/MoeBlock_0/dispatched");
  EXPECT_THAT(plain, Not(HasSubstr("So it lies as"))) << "the rules say it";
}

TEST(Why, SaysThatStagesCarryTheBatchBesideAPipeline) {
  const std::string text = why_activation(
      "model_name=deepseek3-test compile_topology=v6e-8 custom_mesh_and_rule=pipeline-large-moe "
      "ici_pipeline_parallelism=2 "
      "ici_fsdp_parallelism=-1 per_device_batch_size=4 num_layers_per_pipeline_stage=29",
      "decoder/dense_layers/inputs");
  EXPECT_THAT(text, HasSubstr("Beside the pipeline: stage carries the batch, before data.\n"));
}

// A layer's inputs come from the embedding and from the previous layer.
TEST(Why, NamesProducersAndConsumersAcrossLayersAndParameters) {
  const std::string inputs = why_activation("model_name=llama2-7b compile_topology=v6e-8", "decoder/layers/inputs");
  EXPECT_THAT(inputs, HasSubstr("  from embedded  "));
  EXPECT_THAT(inputs, HasSubstr("  from decoder/layers/layer_output  ")) << inputs;
  const session::Session session = test::session("model_name=llama2-7b compile_topology=v6e-8");
  const std::string kernel = why(session.layout, test::tensor_at(session.layout.parameters, "decoder/layers/mlp/wi_0/kernel"));
  EXPECT_THAT(kernel, HasSubstr("\nUsed\n  for  decoder/layers/mlp/"));
  EXPECT_THAT(kernel, HasSubstr("Every axis shards it: there is one copy.\n"));
  const std::string hidden = why_activation("model_name=llama2-7b compile_topology=v6e-8", "decoder/layers/mlp/hidden");
  EXPECT_THAT(hidden, HasSubstr("  with decoder/layers/mlp/wi_0/kernel  [fsdp, -, -]\n")) << hidden;
}

// Dims are compared by their labels, wherever they stand in the two tensors.
TEST(Why, NamesTheDimsThatLieOtherwise) {
  const std::string text = why_activation("model_name=llama2-7b compile_topology=v6e-8 ici_fsdp_parallelism=4 ici_context_parallelism=2",
                                          "decoder/layers/self_attention/attention_op/key");
  EXPECT_THAT(text, HasSubstr("self_attention/key  [fsdp, context, -, -]  <- another layout: length on context, here on no axis\n")) << text;
}

TEST(Why, EndsWithTheAxesThatAreUnusedAndTheCopiesThatMakes) {
  const session::Session session =
      test::session("model_name=llama2-7b compile_topology=v6e-8 ici_data_parallelism=2 ici_fsdp_parallelism=4");
  const LaidTensor& kernel = test::tensor_at(session.layout.parameters, "decoder/layers/mlp/wi_0/kernel");
  EXPECT_THAT(why(session.layout, kernel), ::testing::EndsWith("\nUnused for it: data=2, so there are 2 copies of each shard.\n"));
  const auto json = nlohmann::json::parse(why_json(session.layout, kernel));
  EXPECT_EQ(json["unused_axes"], std::vector<std::string>{"data"});
  EXPECT_EQ(json["mesh"]["fsdp"], 4);
  EXPECT_FALSE(json["users"].empty());
}

TEST(Why, SaysNothingOfNeighboursOfAParameter) { EXPECT_THAT(why_of({"a"}, {8}, {}), Not(HasSubstr("Made by"))); }

// Moments may lie over more than the rules give, from which nothing is peeled.
TEST(Why, SaysWhatMomentsLieOverBesides) {
  const session::Session session = test::session(
      "model_name=llama2-7b compile_topology=v6e-8 ici_data_parallelism=2 ici_fsdp_parallelism=4 shard_optimizer_over_data=true");
  const LaidTensor& moment = test::tensor_at(session.layout.moments, "mu/decoder/layers/mlp/wi_0/kernel");
  ASSERT_EQ(to_string(without_size_one(moment.spec, session.mesh), session.mesh), "[(data, fsdp), -, -]");
  const std::string text = why(session.layout, moment);
  EXPECT_THAT(text, HasSubstr("takes dim 0 (embed): 4 shards"));
  EXPECT_THAT(text, HasSubstr("\nThen data is put first in dim 0, as shard_optimizer_over_data wants.\nSo it lies as [(data, fsdp), -, -].\n"));
  EXPECT_THAT(text, Not(HasSubstr("peeling")));
  EXPECT_THAT(why(session.layout, test::tensor_at(session.layout.parameters, "decoder/layers/mlp/wi_0/kernel")),
              Not(HasSubstr("put first")));
}

TEST(Why, FindsTheTensorOfThatPathOrAllThatHoldIt) {
  const session::Session session = test::session("model_name=llama2-7b");
  EXPECT_EQ(find_tensors(session.layout, "token_embedder/embedding").size(), 1u);
  EXPECT_EQ(find_tensors(session.layout, "decoder/logits").size(), 1u) << "the whole path wins over its holders";
  EXPECT_GT(find_tensors(session.layout, "self_attention").size(), 5u);
  EXPECT_TRUE(find_tensors(session.layout, "nothing like it").empty());
  EXPECT_EQ(find_tensors(session.layout, "mu/token_embedder/embedding").size(), 1u);
}

// Of paths that hold the name, those win that end with it.
TEST(Why, FindsAPathByItsLastSegments) {
  const session::Session session = test::session("model_name=mixtral-8x7b");
  for (const char* name : {"MoeBlock_0/wo", "MoeBlock_0/wi_0", "out/kernel"}) {
    const std::vector<const LaidTensor*> found = find_tensors(session.layout, name);
    ASSERT_EQ(found.size(), 1u) << name;
    EXPECT_TRUE(found[0]->path.ends_with(name)) << found[0]->path;
  }
}

TEST(Why, IsAlsoJson) {
  const session::Session session = test::session(kWithCapacity);
  const LaidTensor& tensor = test::tensor_at(session.layout.activations, "decoder/layers/MoeBlock_0/dispatched");
  const auto json = nlohmann::json::parse(why_json(session.layout, tensor));
  EXPECT_EQ(json["path"], "decoder/layers/MoeBlock_0/dispatched");
  EXPECT_EQ(json["shape"], (std::vector<int>{8, 96, 640, 4096}));
  EXPECT_EQ(json["spec"], "[-, (fsdp, expert), -, -]");
  EXPECT_EQ(json["replicas"], 1);
  EXPECT_EQ(json["bytes_per_device"], 8LL * 12 * 640 * 4096 * 2);
  ASSERT_EQ(json["rules"].size(), 3u);
  EXPECT_EQ(json["rules"][0]["outcome"], "taken");
  EXPECT_EQ(json["rules"][2]["outcome"], "axis_taken");
  EXPECT_EQ(json["rules"][2]["dim"], 0);
  EXPECT_EQ(json["users"][0]["path"], "decoder/layers/MoeBlock_0/hidden_0");
  EXPECT_EQ(json["users"][0]["spec"], "[-, (fsdp, expert), -, -]");
  EXPECT_EQ(json["dtype"], "bfloat16");
  EXPECT_EQ(json["bytes"], 8LL * 96 * 640 * 4096 * 2);
  EXPECT_THAT(why(session.layout, tensor), HasSubstr("Made by " + json["made_by"].get<std::string>() + "\n"));
  EXPECT_TRUE(json["labels_without_rule"].empty());
  EXPECT_EQ(nlohmann::json::parse(why_json(session.layout, tensor, {{"fit", "It fits."}}))["fit"], "It fits.");
}

}  // namespace
}  // namespace moesh::sharding
