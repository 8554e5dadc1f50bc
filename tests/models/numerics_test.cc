// Tests how configuration keys about numerics change the ops of a model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support.h"

namespace moesh::models {
namespace {

using graph::AttentionOf;
using graph::RopeOf;

template <typename Of>
Of first_of(const graph::Graph& graph) {
  for (const graph::Node& node : graph.nodes) {
    if (const Of* of = std::get_if<Of>(&node.attributes)) return *of;
    if (const auto* repeat = std::get_if<graph::RepeatOf>(&node.attributes)) return first_of<Of>(*repeat->body);
  }
  ADD_FAILURE() << "no such op";
  return {};
}

template <typename Of>
Of made(const std::string& request) {
  return first_of<Of>(test::session("compile_topology=cpu-1 per_device_batch_size=1 " + request).graph);
}

TEST(Numerics, AttentionRoundsUnlessFloat32IsAsked) {
  EXPECT_FALSE(made<AttentionOf>("").float32_softmax);
  for (const char* model : {"", "model_name=deepseek3-tiny "}) {
    EXPECT_TRUE(made<AttentionOf>(std::string(model) + "float32_qk_product=true").float32_softmax);
    EXPECT_TRUE(made<AttentionOf>(std::string(model) + "float32_logits=true").float32_softmax);
  }
}

// As in MaxText: the rotary embedding of Llama 3.1 rotates neighbouring elements as pairs, and may also be chosen by the model's name.
TEST(Numerics, Llama31StretchesItsRotationUnlessToldNotTo) {
  for (const char* request : {"rope_type=llama3.1", "model_name=llama3.1-8b"}) {
    const RopeOf of = made<RopeOf>(request);
    EXPECT_EQ(of.kind, RopeOf::Kind::llama3) << request;
    EXPECT_TRUE(of.interleave);
    const RopeOf plain = made<RopeOf>(std::string(request) + " rope_use_scale=false rope_linear_scaling_factor=3");
    EXPECT_EQ(plain.kind, RopeOf::Kind::standard) << request;
    EXPECT_TRUE(plain.interleave);
    EXPECT_EQ(plain.linear_scaling, 1);
  }
  EXPECT_EQ(made<RopeOf>("model_name=llama3-8b").kind, RopeOf::Kind::standard);
  EXPECT_FALSE(made<RopeOf>("model_name=llama3-8b").interleave);
}

}  // namespace
}  // namespace moesh::models
