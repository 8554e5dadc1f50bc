// Sizes of mesh axes that the user gives beside an import, as a pasted fix does, come before the command's degrees of parallelism.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "foreign/import.h"
#include "session/session.h"
#include "tests/foreign/given.h"
#include "tests/support.h"

namespace moesh::foreign {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kSmall =
    "--num-layers 8 --hidden-size 128 --num-attention-heads 16 --seq-length 128 --micro-batch-size 1 --bf16 --swiglu "
    "--normalization RMSNorm --position-embedding-type rope --disable-bias-linear --attention-dropout 0 --hidden-dropout 0 "
    "--untie-embeddings-and-output-weights --vocab-size 2048 --num-experts 16 --moe-token-dispatcher-type alltoall "
    "--sequence-parallel ";
const std::string kLarge = "--model.name qwen3 --model.flavor 30B-A3B --training.seq_len 128 --training.local_batch_size 4 ";

struct Job {
  std::string program, command;
};

std::vector<Job> jobs() {
  std::vector<Job> all;
  for (const std::string flags :
       {"", "--use-distributed-optimizer", "--use-megatron-fsdp", "--tensor-model-parallel-size 4", "--pipeline-model-parallel-size 4",
        "--expert-model-parallel-size 8", "--context-parallel-size 2 --expert-model-parallel-size 4", "--tensor-model-parallel-size 3",
        "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --expert-model-parallel-size 4 --global-batch-size 24",
        "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --world-size 8"}) {
    all.push_back({"megatron", kSmall + flags});
  }
  for (const std::string flags :
       {"", "--parallelism.data_parallel_shard_degree 4", "--parallelism.tensor_parallel_degree 4",
        "--parallelism.pipeline_parallel_degree 4",
        "--parallelism.data_parallel_shard_degree 4 --parallelism.expert_parallel_degree 4 --world-size 4",
        "--parallelism.data_parallel_replicate_degree 2 --parallelism.context_parallel_degree 2 --training.global_batch_size 48"}) {
    all.push_back({"torchtitan", kLarge + flags});
  }
  return all;
}

struct Sizes {
  std::int64_t data, stage, fsdp, context, tensor, tensor_sequence, expert;
};

// Names the sizes of all axes.
std::vector<std::string> keys_of(const Sizes& sizes) {
  const auto key = [](const char* axis, std::int64_t size) { return fmt::format("ici_{}_parallelism={}", axis, size); };
  return {key("data", sizes.data),       key("pipeline", sizes.stage), key("fsdp", sizes.fsdp),
          key("context", sizes.context), key("tensor", sizes.tensor),  key("tensor_sequence", sizes.tensor_sequence),
          key("expert", sizes.expert)};
}

mesh::Mesh mesh_of(const Job& job, const std::vector<std::string>& own) {
  std::vector<std::string> request = from_program(job.program, job.command, own).keys;
  request.insert(request.end(), own.begin(), own.end());
  return session::open(request, session::Evenness::reported).mesh;
}

TEST(OwnMesh, SizesOfAllAxesAreTakenWhateverTheDegreesAre) {
  const Sizes all[] = {{1, 1, 64, 1, 1, 1, 1}, {8, 1, 8, 1, 1, 1, 1}, {1, 1, 4, 1, 1, 4, 4}, {2, 2, 2, 2, 2, 2, 1}, {1, 4, 1, 1, 2, 1, 8}};
  for (const Job& job : jobs()) {
    for (const Sizes& sizes : all) {
      std::vector<std::string> own = keys_of(sizes);
      own.emplace_back("compile_topology=h100-64");
      SCOPED_TRACE(job.command + " " + join(own, " "));
      const std::string message = test::message_of([&] {
        const mesh::Mesh mesh = mesh_of(job, own);
        EXPECT_EQ(mesh.devices(), 64);
        EXPECT_EQ(mesh.size_of("data"), sizes.data);
        EXPECT_EQ(mesh.size_of("stage"), sizes.stage);
        EXPECT_EQ(mesh.size_of("fsdp"), sizes.fsdp);
        EXPECT_EQ(mesh.size_of("context"), sizes.context);
        EXPECT_EQ(mesh.size_of("tensor"), sizes.tensor);
        EXPECT_EQ(mesh.size_of("tensor_sequence"), sizes.tensor_sequence);
        EXPECT_EQ(mesh.size_of("expert"), sizes.expert);
      });
      EXPECT_EQ(message, "no error");
    }
  }
}

std::string axes(const Job& job, const std::vector<std::string>& own) {
  std::string all;
  for (const std::string& key : from_program(job.program, job.command, own).keys) {
    if (key.find("_parallelism=") != std::string::npos) all += key + " ";
  }
  return all;
}

TEST(OwnMesh, TheDataAxisTakesWhatTheUsersSizesLeave) {
  const Job tensor{"megatron", kSmall + "--tensor-model-parallel-size 8"},
      shards{"torchtitan", kLarge + "--parallelism.expert_parallel_degree 4"};
  const std::string rest = "ici_fsdp_parallelism=1 ici_tensor_sequence_parallelism=8 ";
  EXPECT_EQ(axes(tensor, {"compile_topology=h100-64"}), "ici_data_parallelism=8 " + rest);
  EXPECT_EQ(axes(tensor, {"compile_topology=h100-128", "ici_fsdp_parallelism=2"}),
            "ici_data_parallelism=8 ici_tensor_sequence_parallelism=8 ");
  EXPECT_EQ(axes(tensor, {"compile_topology=h100-64", "ici_pipeline_parallelism=4"}), "ici_data_parallelism=2 " + rest);
  EXPECT_EQ(axes(tensor, {"compile_topology=h100-64", "ici_fsdp_parallelism=-1"}), "ici_tensor_sequence_parallelism=8 ") << "fsdp takes it";
  EXPECT_EQ(axes(tensor, {"compile_topology=h100-64", "ici_fsdp_parallelism=5"}), "ici_tensor_sequence_parallelism=8 ")
      << "the mesh refuses it";
  EXPECT_EQ(axes(shards, {"compile_topology=h100-64", "ici_data_parallelism=4"}), "ici_fsdp_parallelism=4 ici_expert_parallelism=4 ");
  const Job explicit_degree{"torchtitan", kLarge + "--parallelism.data_parallel_shard_degree 4 --parallelism.expert_parallel_degree 4"};
  EXPECT_EQ(axes(explicit_degree, {"compile_topology=b200-16", "ici_fsdp_parallelism=4"}), "ici_expert_parallelism=4 ");
}

TEST(OwnMesh, SlicesStayWhereTheyWereUnlessTheUserMovesThem) {
  const Job job{"megatron", kSmall + "--tensor-model-parallel-size 2"};
  const std::vector<std::string> target{"compile_topology=v5p-16", "compile_topology_num_slices=2"};
  const auto on_slices = [&](const std::string& own) { return axes(job, {target[0], target[1], own}); };
  const std::string tensor = "ici_tensor_sequence_parallelism=2 ";
  EXPECT_EQ(axes(job, target), "dcn_data_parallelism=2 ici_data_parallelism=4 ici_fsdp_parallelism=1 " + tensor);
  EXPECT_EQ(on_slices("ici_fsdp_parallelism=4"), "dcn_data_parallelism=2 " + tensor);
  EXPECT_EQ(on_slices("dcn_fsdp_parallelism=2"), "ici_data_parallelism=4 ici_fsdp_parallelism=1 " + tensor);
  EXPECT_EQ(on_slices("dcn_data_parallelism=2"), "ici_data_parallelism=4 ici_fsdp_parallelism=1 " + tensor);
}

TEST(OwnMesh, TheBatchStaysThatOfTheCommand) {
  const auto batch = [](const std::string& flags, const std::vector<std::string>& own) {
    const Imported made = from_program("megatron", kSmall + "--world-size 8 --global-batch-size 32 " + flags, own);
    return given(made, "per_device_batch_size") + " " + given(made, "gradient_accumulation_steps") + " " +
           given(made, "num_pipeline_microbatches");
  };
  const std::string of_tensor = "per_device_batch_size=0.25 gradient_accumulation_steps=16 num_pipeline_microbatches is not given";
  EXPECT_EQ(batch("--tensor-model-parallel-size 4", {}), of_tensor);
  EXPECT_EQ(batch("--tensor-model-parallel-size 4", {"ici_tensor_sequence_parallelism=2", "ici_fsdp_parallelism=2"}), of_tensor);
  EXPECT_EQ(batch("--pipeline-model-parallel-size 4", {"ici_pipeline_parallelism=1", "ici_fsdp_parallelism=4"}),
            "per_device_batch_size=4 gradient_accumulation_steps is not given num_pipeline_microbatches is not given");
  EXPECT_EQ(batch("", {"ici_pipeline_parallelism=4"}),
            "per_device_batch_size=4 gradient_accumulation_steps is not given num_pipeline_microbatches=4");
  const auto told_of = [](const std::string& flags, const std::vector<std::string>& own) {
    return told(from_program("megatron", kSmall + flags, own).notes);
  };
  EXPECT_THAT(told_of("--world-size 8 --global-batch-size 12", {"ici_fsdp_parallelism=2"}),
              HasSubstr("differs: the batch of a step is 16 rather than 12, as the mesh is yours\n"));
  EXPECT_THAT(told_of("--world-size 8 --global-batch-size 16 --pipeline-model-parallel-size 4", {"ici_pipeline_parallelism=1"}),
              HasSubstr("assumed: without stages, the 8 microbatches of a step are one batch: per_device_batch_size=0.25 "
                        "gradient_accumulation_steps=8 takes them one by one\n"));
}

TEST(OwnMesh, HugeAndOddSizesAreLeftToTheMeshToRefuse) {
  for (const std::string size : {"9223372036854775807", "1000000", "0", "-2", "x", ""}) {
    for (const Job& job : jobs()) {
      std::vector<std::string> own;
      for (const char* axis : {"ici_tensor", "ici_context", "dcn_tensor", "ici_data"})
        own.push_back(fmt::format("{}_parallelism={}", axis, size));
      EXPECT_EQ(test::message_of([&] { from_program(job.program, job.command, own); }), "no error") << job.command << " " << size;
    }
  }
}

TEST(OwnMesh, IsSaid) {
  const std::string note = "assumed: sizes of mesh axes are yours: the command's degrees are not held against the number of devices\n";
  EXPECT_THAT(told(from_program("megatron", kSmall, {"ici_fsdp_parallelism=2"}).notes), HasSubstr(note));
  EXPECT_THAT(told(from_program("megatron", kSmall, {"compile_topology=h100-8"}).notes), Not(HasSubstr("are yours")));
}

}  // namespace
}  // namespace moesh::foreign
