// Several streams of the residual: what they are refused for, that they train on any mesh, and that texts are gone on with as one trains.
#include <gmock/gmock.h>

#include "tests/config/small_models.h"
#include "tests/train/trainer_support.h"

namespace moesh {
namespace {

using test::kStreams;
using ::testing::HasSubstr;

const std::string kFloatStreams = kStreams + "dtype=float32 max_target_length=16 ";

TEST(Streams, AreRefusedWhereTheyAreNotHeeded) {
  EXPECT_THAT(test::refusal_of(test::kSparse + "mhc_expansion_rate=2"),
              HasSubstr("mhc_expansion_rate=2, but decoder_block=mixtral has one stream\n"
                        "  fix: decoder_block=deepseek or deepseek4 has several, or mhc_expansion_rate=1"));
  EXPECT_THAT(test::refusal_of(kStreams + "mtp_num_layers=1"), HasSubstr("multi-token prediction is not there for several streams"));
  EXPECT_THAT(test::refusal_of(kStreams + "mhc_expansion_rate=7 enable_mhc_lite=true"),
              HasSubstr("enable_mhc_lite=true takes a number for each permutation of 7 streams, which are too many\n"
                        "  fix: mhc_expansion_rate up to 6, or enable_mhc_lite=false"));
  EXPECT_THAT(test::refusal_of(kStreams + "compile_topology=cpu-2 ici_pipeline_parallelism=2"),
              HasSubstr("several streams do not go through pipeline stages"));
  EXPECT_EQ(test::refusal_of(kStreams + "mhc_expansion_rate=7"), "no error");
}

TEST(Streams, TrainTheSameOnAnyMesh) {
  for (const std::string streams : {"", "enable_mhc_lite=true ", "mhc_expansion_rate=4 scan_layers=false "}) {
    const std::string request = kFloatStreams + streams;
    const double one = test::second_loss_of(request + "compile_topology=cpu-1 per_device_batch_size=4");
    for (const std::string mesh :
         {"ici_fsdp_parallelism=4 ", "ici_fsdp_parallelism=2 ici_expert_parallelism=2 ", "ici_fsdp_parallelism=2 ici_tensor_parallelism=2 ",
          "ici_fsdp_parallelism=2 ici_context_parallelism=2 ", "ici_expert_parallelism=4 custom_mesh_and_rule=ep-as-cp ",
          "ici_expert_parallelism=2 ici_fsdp_parallelism=2 custom_mesh_and_rule=ep-tp per_device_batch_size=1 "}) {
      const std::string fsdp = mesh.find("fsdp_parallelism") == std::string::npos ? "ici_fsdp_parallelism=1 " : "";
      EXPECT_NEAR(test::second_loss_of(request + "compile_topology=cpu-4 per_device_batch_size=1 " + fsdp + mesh), one, 5e-6) << streams << mesh;
    }
  }
}

}  // namespace
}  // namespace moesh
