// A step that is lowered gives the bits that the same graph gives when it is interpreted.
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "run/executor.h"
#include "run/program.h"
#include "tests/support.h"
#include "train/program.h"

namespace moesh::run {
namespace {

// Numbers that differ, within what the name of an input allows.
Array values_for(const graph::Node& node, const graph::Value& value, std::int64_t vocabulary, Pool& pool) {
  const Array made = pool.allocate(value.shape, value.dtype);
  const std::int64_t length = value.shape.empty() ? 1 : value.shape.back();
  for (std::int64_t i = 0; i < made.view.count(); ++i) {
    const double draw = static_cast<double>((i * 2654435761 >> 7) % 2048 - 1024) / 20000;
    switch (value.dtype) {
      case DType::float32: made.as<float>()[i] = static_cast<float>(node.path.starts_with("nu/") ? draw * draw : draw); break;
      case DType::bfloat16: made.as<bfloat16>()[i] = bfloat16(static_cast<float>(draw)); break;
      default: {
        const bool is_token = node.path == "inputs" || node.path == "targets", is_segment = node.path.ends_with("segmentation");
        made.as<std::int32_t>()[i] = static_cast<std::int32_t>(is_token ? (i * 7 + 3) % vocabulary : is_segment ? 1 : i % length);
      }
    }
  }
  if (node.path == "learning_rate" || node.path == "step") *made.as<float>() = node.path == "step" ? 1.0f : 0.01f;
  return made;
}

class Lowered : public ::testing::TestWithParam<const char*> {};

TEST_P(Lowered, GivesTheBitsOfTheGraph) {
  const auto session = test::session(
      std::string("override_model_config=true base_num_decoder_layers=2 base_emb_dim=32 base_num_query_heads=4 base_num_kv_heads=2 "
                  "head_dim=8 base_mlp_dim=32 base_moe_mlp_dim=32 vocab_size=64 max_target_length=16 compile_topology=cpu-8 ") +
      GetParam());
  const train::StepProgram step =
      train::step_program(session.graph, session.loaded.settings, {session.layout, session.target}, {true, true});
  Workers workers(2);
  const auto pool = Pool::create();
  std::vector<Placed> feeds;
  for (const graph::Node& node : step.graph.nodes) {
    if (!graph::is_root(node)) continue;
    const graph::Value& value = step.graph.value(node.results.front());
    feeds.push_back(place(values_for(node, value, 64, *pool), value.spec, step.mesh, *pool));
  }
  const std::vector<Placed> made = evaluate(step.graph, feeds, step.mesh, workers);
  const std::vector<Placed> expected = Executor(workers, pool, step.mesh).run(step.graph, std::move(feeds));
  ASSERT_EQ(made.size(), expected.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    const std::string& name = step.graph.result_names[i];
    ASSERT_EQ(made[i].shards.size(), expected[i].shards.size()) << name;
    for (std::size_t s = 0; s < made[i].shards.size(); ++s) {
      const Array& a = made[i].shards[s];
      const Array& b = expected[i].shards[s];
      ASSERT_EQ(a.view.shape, b.view.shape) << name;
      EXPECT_EQ(std::memcmp(a.raw(), b.raw(), static_cast<std::size_t>(a.bytes())), 0) << name << " shard " << s;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Of, Lowered,
    ::testing::Values("model_name=llama2-7b ici_fsdp_parallelism=4 ici_tensor_parallelism=2",
                      "model_name=llama2-7b ici_fsdp_parallelism=2 ici_context_parallelism=4 opt_type=muon",
                      "model_name=mixtral-8x7b ici_expert_parallelism=4 ici_fsdp_parallelism=2 gradient_accumulation_steps=2",
                      "model_name=mixtral-8x7b ici_expert_parallelism=4 ici_fsdp_parallelism=2 use_ring_of_experts=true remat_policy=minimal",
                      "model_name=mixtral-8x7b ici_expert_parallelism=2 ici_fsdp_parallelism=4 sparse_matmul=false capacity_factor=1.25",
                      "model_name=mixtral-8x7b ici_fsdp_parallelism=8 scan_layers=false opt_type=sgd num_moe_token_chunks=2",
                      "model_name=deepseek3-tiny first_num_dense_layers=1 ici_expert_parallelism=4 ici_fsdp_parallelism=2 "
                      "use_ring_of_experts=true routed_bias=true routed_bias_update_rate=0.01 non_finite_policy=skip_step",
                      "model_name=gpt-oss-20b ici_expert_parallelism=4 ici_fsdp_parallelism=2 ragged_buffer_factor=2 dtype=bfloat16",
                      "model_name=qwen3-30b-a3b ici_data_parallelism=2 ici_expert_parallelism=4 remat_policy=''"));

}  // namespace
}  // namespace moesh::run
