// The strategies for experts compute one model.
#include "tests/train/trainer_support.h"

namespace moesh::nn {
namespace {

namespace test = moesh::test;

// The losses of two steps: the second one depends on the gradients of the first.
std::vector<double> losses(const std::string& request) {
  test::Training training(request + "learning_rate=0.01 warmup_steps_fraction=0");
  std::vector<double> made;
  for (std::int64_t step = 0; step < 2; ++step) made.push_back(training.trainer.step(training.batch(step)).loss);
  return made;
}

// With as many slots as choices, none is dropped. Llama 4 weights the inputs of its experts, before what is not linear.
TEST(Strategies, GiveOneLoss) {
  const std::string llama4 =
      test::kTinyModel +
      "model_name=llama4-17b-16e override_model_config=true base_num_decoder_layers=4 base_moe_mlp_dim=20 num_experts=5 ";
  for (const std::string& model : {test::kTinyMixtral, llama4 + "num_experts_per_tok=1 ", llama4 + "num_experts_per_tok=2 "}) {
    const std::vector<double> expected = losses(model + "sparse_matmul=true ");
    for (const char* strategy : {"sparse_matmul=false ", "sparse_matmul=false capacity_factor=5 "}) {
      const std::vector<double> made = losses(model + strategy);
      for (std::size_t step = 0; step < made.size(); ++step) EXPECT_NEAR(made[step], expected[step], 1e-5) << model << strategy << step;
    }
  }
}

}  // namespace
}  // namespace moesh::nn
