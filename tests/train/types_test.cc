// Every family trains with every mixture of types and every optimizer; each value is read in its own type.
#include <cmath>

#include "config/schema.h"
#include "tests/train/trainer_support.h"

namespace moesh::train {
namespace {

using test::kTinyModel;
using test::Training;

const std::string kTypedExperts =
    kTinyModel + "override_model_config=true base_moe_mlp_dim=20 num_experts=4 num_experts_per_tok=2 ";
const std::string kGroups =
    "base_num_decoder_layers=2 first_num_dense_layers=1 n_routing_groups=-1 topk_routing_group=-1 ";

const std::vector<std::string> kFamilies{
    kTinyModel,
    kTinyModel + "decoder_block=mistral logits_via_embedding=true ",
    kTinyModel + "model_name=qwen3-0.6b override_model_config=true ",
    kTypedExperts + "model_name=mixtral-8x7b load_balance_loss_weight=0.1 ",
    kTypedExperts + "model_name=mixtral-8x7b sparse_matmul=false capacity_factor=1 load_balance_loss_weight=0.1 ",
    kTypedExperts + "model_name=qwen3-30b-a3b sparse_matmul=false ",
    kTypedExperts + kGroups + "model_name=deepseek2-16b ",
    kTypedExperts + kGroups + "model_name=deepseek3-tiny routed_bias=true routed_bias_update_rate=0.01 ",
    kTypedExperts + "model_name=gpt-oss-20b ",
};

// All combinations of two types for these keys.
std::vector<std::string> mixtures() {
  std::vector<std::string> all{""};
  for (const char* key : {"weight_dtype", "dtype", "grad_dtype", "mu_dtype"}) {
    std::vector<std::string> more;
    for (const std::string& mixture : all) {
      for (const char* type : {"float32", "bfloat16"}) more.push_back(fmt::format("{} {}={}", mixture, key, type));
    }
    all = std::move(more);
  }
  return all;
}

// Trains two steps and returns the first loss.
double train_two_steps(const std::string& request) {
  Training training(request);
  double first = 0;
  for (std::int64_t step = 0; step < 2; ++step) {
    const StepMetrics metrics = training.trainer.step(training.batch(step));
    for (const double number : {metrics.loss, metrics.raw_grad_norm, metrics.grad_norm, metrics.param_norm}) {
      EXPECT_TRUE(std::isfinite(number) && number > 0) << request;
    }
    EXPECT_TRUE(metrics.balance_loss >= 0 && metrics.balance_loss < 1) << request;
    if (step == 0) first = metrics.loss;
  }
  EXPECT_EQ(training.trainer.first_not_finite(training.batch(), 0), "not found when the step is run again") << request;
  return first;
}

// Rounded numbers start from the same loss, except that a few tokens choose other experts, hence the tolerance of a tenth.
void hold_loss_to(double expected, double loss, const std::string& what) {
  EXPECT_NEAR(loss, expected, 0.1 * expected) << what;
}

class TypesSlow : public ::testing::TestWithParam<std::string> {};

TEST_P(TypesSlow, MixInEveryFamily) {
  for (const std::string& family : kFamilies) {
    const std::string request = family + "opt_type=" + GetParam();
    const double expected = train_two_steps(request + mixtures().front());
    for (const std::string& mixture : mixtures())
      hold_loss_to(expected, train_two_steps(request + mixture), request + mixture);
  }
}

std::vector<std::string> optimizers() {
  std::vector<std::string> all;
  for (const config::Choice& choice : config::choices(*config::find_key("opt_type"))) all.emplace_back(choice.word);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Of, TypesSlow, ::testing::ValuesIn(optimizers()), [](const auto& test) { return test.param; });

TEST(Types, MixOnAMesh) {
  for (const std::string& family : kFamilies) {
    const std::string request = family +
                                "compile_topology=cpu-4 ici_fsdp_parallelism=2 ici_expert_parallelism=2 "
                                "gradient_accumulation_steps=2 per_device_batch_size=1 weight_dtype=";
    const double expected = train_two_steps(request + "float32 dtype=float32");
    for (const char* types : {"bfloat16 dtype=float32", "float32 dtype=bfloat16"}) {
      hold_loss_to(expected, train_two_steps(request + types), request + types);
    }
  }
}

}  // namespace
}  // namespace moesh::train
