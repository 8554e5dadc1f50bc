// `moesh doctor`: what it reports about a machine, and the hardware file that it measures.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "mesh/topology.h"
#include "tests/cli/outcome.h"
#include "tests/paths.h"
#include "tests/support.h"

namespace moesh::cli {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Doctor, TellsWhatTheMachineHas) {
  const Outcome made = outcome("doctor");
  ASSERT_EQ(made.code, 0) << made.err;
  for (const char* what : {"processor", "vector instructions", "cores", "load", "memory", "huge pages", "disk", "several processes", "serving"})
    EXPECT_THAT(made.out, HasSubstr(what));
  const Json json = Json::parse(outcome("doctor --json").out);
  EXPECT_EQ(json.size(), 9u);
  EXPECT_THAT(json.at(1)["found"].get<std::string>(), AllOf(HasSubstr("portable"), HasSubstr(" is used")));
}

TEST(Doctor, RefusesWhatItDoesNotTake) {
  const auto error = [](const std::string& line) {
    const Outcome made = outcome(line);
    EXPECT_EQ(made.code, 2) << line;
    return made.err;
  };
  EXPECT_THAT(error("doctor model_name=llama2-7b"), HasSubstr("doctor takes no model and no keys"));
  EXPECT_THAT(error("doctor --to a.yml"), HasSubstr("--to without --calibrate"));
  EXPECT_THAT(error("doctor --threads 1"), HasSubstr("--threads without --calibrate"));
  EXPECT_THAT(error("doctor --calibrate --to a.txt"), HasSubstr("'a.txt' is no name for a hardware file"));
}

// Times differ between machines, so the test checks only that the file can be read, has all kernels of a
// step, and predicts a step within a factor of ten.
TEST(DoctorSlow, MeasuresTheMachineAndPredictsItsSteps) {
  const test::TemporaryFolder folder;
  const std::string file = folder.path() + "/here.yml";
  const Outcome made = outcome("doctor --calibrate --to " + file);
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("Steps are predicted by it with compile_topology=" + file));
  const mesh::Topology machine = mesh::find_topology(file + ":8", 1);
  for (const char* kernel : {"einsum float32", "einsum bfloat16", "grouped_matmul float32", "attention bfloat16", "adam_update float32",
                             "all-gather float32", "any product float32", "any exchange float32"})
    EXPECT_TRUE(machine.chip.measured.contains(kernel)) << kernel;
  const Json step = Json::parse(outcome("bench model_name=mixtral-8x7b override_model_config=true base_emb_dim=128 base_mlp_dim=256 "
                                        "base_moe_mlp_dim=256 base_num_query_heads=4 base_num_kv_heads=4 head_dim=32 base_num_decoder_layers=2 "
                                        "vocab_size=1024 max_target_length=128 per_device_batch_size=1 dataset_type=synthetic steps=3 "
                                        "ici_fsdp_parallelism=2 ici_expert_parallelism=4 --json compile_topology=" + file + ":8").out);
  EXPECT_GT(step["predicted_seconds_per_step"].get<double>(), 0.1 * step["seconds_per_step"].get<double>());
  EXPECT_LT(step["predicted_seconds_per_step"].get<double>(), 10 * step["seconds_per_step"].get<double>());
}

}  // namespace
}  // namespace moesh::cli
