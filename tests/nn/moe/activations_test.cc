// The functions between the projections of experts.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/print.h"
#include "tests/support.h"

namespace moesh::nn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The graph of a model without other MLPs than its experts.
std::string graph_of(const std::string& model) {
  return graph::to_text(test::session("override_model_config=true base_num_decoder_layers=2 dataset_type=synthetic "
                                      "compile_topology=cpu-1 per_device_batch_size=1 max_target_length=128 model_name=" +
                                      model)
                            .graph);
}

// As in MaxText, whose experts ask for the first function and for nothing else.
TEST(ExpertActivations, AreTheFirstOfTheList) {
  const std::string usual = graph_of("mixtral-8x7b");
  EXPECT_THAT(usual, HasSubstr("function=silu"));
  for (const char* list : {"[silu]", "[silu,gelu]", "[silu,linear,relu]"})
    EXPECT_EQ(graph_of(std::string("mixtral-8x7b mlp_activations=") + list), usual) << list;
  const std::string other = graph_of("mixtral-8x7b mlp_activations=[relu,gelu]");
  EXPECT_THAT(other, HasSubstr("function=relu"));
  EXPECT_THAT(other, Not(HasSubstr("function=silu")));
  EXPECT_THAT(other, Not(HasSubstr("function=gelu")));
}

TEST(ExpertActivations, OfGptOssAreWhatTheListSaysToo) {
  EXPECT_THAT(graph_of("gpt-oss-20b"), HasSubstr("function=sigmoid"));
  const std::string other = graph_of("gpt-oss-20b mlp_activations=[relu,gelu]");
  EXPECT_THAT(other, HasSubstr("function=relu"));
  EXPECT_THAT(other, HasSubstr("function=scale a=1.702"));
  EXPECT_THAT(other, Not(HasSubstr("function=sigmoid")));
  EXPECT_THAT(other, Not(HasSubstr("function=gelu")));
}

// An MLP that all tokens go through, beside experts or in their place, has all functions.
TEST(ExpertActivations, LeaveThoseOfOtherMlpsAlone) {
  for (const char* model : {"deepseek3-tiny first_num_dense_layers=1 shared_experts=0", "deepseek3-tiny first_num_dense_layers=0"})
    EXPECT_THAT(graph_of(std::string(model) + " mlp_activations=[relu,gelu]"), HasSubstr("function=gelu")) << model;
}

}  // namespace
}  // namespace moesh::nn
