// Recorded runs on meshes: the same numbers on any layout, the same bits on any number of threads.
#include <algorithm>

#include <gmock/gmock.h>

#include "tests/recorded.h"
#include "tests/train/train_support.h"
#include "tests/train/trainer_support.h"

namespace moesh::train {
namespace {

using test::Outcome;
using test::outcome_of;
using ::testing::HasSubstr;

std::vector<std::string> words(const std::string& line) {
  std::vector<std::string> all;
  for (const std::string& word : split(line, ' ')) {
    if (!word.empty()) all.push_back(word);
  }
  return all;
}

// All steps repeat one plan, so builds with sanitizers, which take up to a hundred times as long, check only the first two.
std::vector<std::string> verify_line(const std::filesystem::path& run) {
  std::vector<std::string> line{"verify", run.string()};
  if (test::kIsSanitized) line.insert(line.end(), {"--first", "2"});
  return line;
}

void hold(const std::string& run, const std::string& changes) {
  std::vector<std::string> line = verify_line(test::kRecordedRuns / run);
  for (const std::string& word : words(changes)) line.push_back(word);
  const Outcome outcome = outcome_of(line);
  EXPECT_EQ(outcome.code, 0) << run << " " << changes << "\n" << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(" as recorded.")) << run << " " << changes;
}

// Axes alone and combined, on two, four and eight devices.
constexpr const char* kMeshes[] = {
    "ici_fsdp_parallelism=2",
    "ici_fsdp_parallelism=8",
    "ici_fsdp_parallelism=1 ici_data_parallelism=4",
    "ici_fsdp_parallelism=1 ici_tensor_parallelism=2",
    "ici_fsdp_parallelism=1 ici_context_parallelism=4",
    "ici_fsdp_parallelism=2 ici_data_parallelism=2 ici_tensor_parallelism=2",
    "ici_fsdp_parallelism=2 ici_context_parallelism=2 ici_tensor_parallelism=2",
    "ici_fsdp_parallelism=2 ici_fsdp_transpose_parallelism=2 ici_tensor_sequence_parallelism=2",
};
constexpr const char* kExpertMeshes[] = {
    "ici_fsdp_parallelism=1 ici_expert_parallelism=2",
    "ici_fsdp_parallelism=2 ici_expert_parallelism=4",
    "ici_fsdp_parallelism=2 ici_expert_parallelism=2 ici_tensor_parallelism=2",
    "ici_fsdp_parallelism=4 ici_expert_parallelism=2 custom_mesh_and_rule=ep-as-cp",
    "ici_fsdp_parallelism=2 ici_context_parallelism=2 ici_expert_parallelism=2 custom_mesh_and_rule=cp-as-ep",
    "ici_fsdp_parallelism=4 ici_expert_parallelism=2 custom_mesh_and_rule=ep-as-dp",
    "ici_fsdp_parallelism=4 ici_expert_parallelism=2 custom_mesh_and_rule=ep-tp",
    "ici_fsdp_parallelism=4 ici_expert_parallelism=2 custom_mesh_and_rule=shard-exp-on-fsdp",
    "ici_fsdp_parallelism=4 ici_expert_parallelism=2 custom_mesh_and_rule=fsdp-as-dp-for-attn",
    "ici_fsdp_parallelism=8 custom_mesh_and_rule=pure-fsdp",
    "ici_fsdp_parallelism=4 ici_fsdp_transpose_parallelism=2 custom_mesh_and_rule=2d-fsdp",
};

class MeshSlow : public ::testing::TestWithParam<std::string> {};

TEST_P(MeshSlow, IsAsRecorded) {
  for (const char* mesh : kMeshes) hold(GetParam(), mesh);
}

INSTANTIATE_TEST_SUITE_P(Run, MeshSlow,
                         ::testing::Values("llama", "llama-tied", "llama-muon-rms", "mixtral", "mixtral-cap1.0",
                                           "deepseek3-muon", "gptoss"),
                         test::test_name);

class ExpertMeshSlow : public ::testing::TestWithParam<std::string> {};

TEST_P(ExpertMeshSlow, IsAsRecorded) {
  for (const char* mesh : kExpertMeshes) hold(GetParam(), mesh);
}

INSTANTIATE_TEST_SUITE_P(Run, ExpertMeshSlow, ::testing::Values("mixtral", "mixtral-cap1.0", "deepseek3-muon", "gptoss"),
                         test::test_name);

class MixedMeshSlow : public ::testing::TestWithParam<std::string> {};

TEST_P(MixedMeshSlow, IsAsRecorded) {
  hold(GetParam(), "ici_fsdp_parallelism=2 ici_expert_parallelism=2 ici_context_parallelism=2");
  hold(GetParam(), "ici_fsdp_parallelism=2 ici_expert_parallelism=2 ici_tensor_parallelism=2");
}

INSTANTIATE_TEST_SUITE_P(Run, MixedMeshSlow,
                         ::testing::Values("deepseek2", "deepseek2-groups", "deepseek3", "deepseek3-bf16",
                                           "deepseek3-biasupdate", "deepseek3-cap-packed-ga2", "deepseek3-lb",
                                           "deepseek3-mtp", "deepseek3-mtp-ga2-padded", "deepseek3-mtp-muon-packed", "deepseek3-padded",
                                           "deepseek3-spikes", "gptoss-clamp", "gptoss-mtp", "gptoss-packed-lb", "gptoss-unscanned",
                                           "llama-muon-mu16", "mixtral-bf16", "mixtral-cap1.25", "mixtral-ga2", "mixtral-lb",
                                           "mixtral-lb-ga2", "mixtral-mtp2-packed", "mixtral-mu16", "mixtral-packed", "mixtral-unscanned",
                                           "qwen3moe"),
                         test::test_name);

class LayoutSlow : public ::testing::TestWithParam<std::string> {};

TEST_P(LayoutSlow, IsAsRecorded) {
  const Outcome outcome = outcome_of(verify_line(test::kRecordedLayouts / (GetParam() + ".json")));
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(" as recorded."));
}

INSTANTIATE_TEST_SUITE_P(Recorded, LayoutSlow, ::testing::ValuesIn(test::cases_in(test::kRecordedLayouts)),
                         test::test_name);

TEST(Layouts, AreAllThere) { EXPECT_GE(test::cases_in(test::kRecordedLayouts).size(), 63u); }

TEST(Mesh, ALayoutThatIsTamperedWithIsNoticed) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() + "/layouts");
  std::filesystem::create_directory_symlink(test::kRecordedRuns, folder.path() + "/models");
  auto layout = nlohmann::json::parse(test::read_text(test::kRecordedLayouts / "mixtral-dense-fsdp8.json"));
  const auto written = [&] { return folder.write("layouts/changed.json", layout.dump()); };
  EXPECT_EQ(outcome_of({"verify", written()}).code, 0);
  auto changed = layout;
  changed["curve"][3]["raw_grad_norm"] = changed["curve"][3]["raw_grad_norm"].get<double>() * 1.001;
  std::swap(layout, changed);
  const Outcome off = outcome_of({"verify", written()});
  EXPECT_EQ(off.code, 1);
  EXPECT_THAT(off.out, HasSubstr("gradient norms"));
  EXPECT_THAT(off.out, HasSubstr("OFF  step 3"));
  layout["expect"] = "something else";
  const Outcome refused = outcome_of({"verify", written()});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("'expect' is 'something else', 'recorded curve' or 'one device' was expected"));
}

std::vector<double> all_numbers(const std::string& request, int threads) {
  test::Training training(request, threads);
  std::vector<double> all;
  for (int step = 0; step < 3; ++step) {
    const StepMetrics metrics = training.trainer.step(training.batch());
    all.insert(all.end(), {metrics.loss, metrics.raw_grad_norm, metrics.param_norm});
  }
  for (const std::string& path : training.paths()) {
    const std::vector<double> numbers = training.parameter(path);
    all.insert(all.end(), numbers.begin(), numbers.end());
  }
  return all;
}

TEST(Mesh, GivesTheSameBitsWhateverTheThreadsAndAgain) {
  const std::string request = test::kTinyMixtral +
                              "compile_topology=cpu-8 ici_fsdp_parallelism=2 ici_tensor_parallelism=2 ici_context_parallelism=2 "
                              "sparse_matmul=false capacity_factor=1.5 max_target_length=8 vocab_size=24 "
                              "base_num_kv_heads=2 per_device_batch_size=1 num_experts=4";
  const std::vector<double> once = all_numbers(request, 1);
  EXPECT_EQ(once, all_numbers(request, 1));
  EXPECT_EQ(once, all_numbers(request, 2));
  EXPECT_EQ(once, all_numbers(request, 5));
}

}  // namespace
}  // namespace moesh::train
