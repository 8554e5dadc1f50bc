// Experts that compute every token.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/support.h"

namespace moesh::nn {
namespace {

// The largest number of elements that a broadcast makes, in the graph and in all bodies.
std::int64_t largest_broadcast(const graph::Graph& graph) {
  std::int64_t most = 0;
  for (const graph::Node& node : graph.nodes) {
    if (const graph::Graph* body = graph::body_of(node)) most = std::max(most, largest_broadcast(*body));
    if (node.op == graph::Op::broadcast) most = std::max(most, elements(graph.value(node.results[0]).shape));
  }
  return most;
}

// A token with one expert is multiplied with its weight once, before the experts: no value of all experts' widths is made for that.
TEST(DenseExperts, OfOneChoiceHaveTheirInputsWeightedOnce) {
  const session::Session session = test::session(
      "model_name=llama4-17b-16e override_model_config=true base_num_decoder_layers=4 sparse_matmul=false dataset_type=synthetic "
      "per_device_batch_size=1 max_target_length=128");
  EXPECT_EQ(largest_broadcast(session.graph), session.batch.micro_rows * 128 * session.shape.emb_dim);
}

// The biases are in the compute type, the weights of a router in float32 are not.
TEST(DenseExperts, HaveBiasesBesideARouterInFloat32) {
  EXPECT_NO_THROW(test::session("model_name=gpt-oss-20b override_model_config=true base_num_decoder_layers=2 sparse_matmul=false "
                                "float32_gate_logits=true dtype=bfloat16 dataset_type=synthetic per_device_batch_size=1"));
}

}  // namespace
}  // namespace moesh::nn
