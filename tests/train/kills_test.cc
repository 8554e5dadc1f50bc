// Runs that are killed at any moment and started again by the same command end with the bits of an undisturbed run.
//
//   MOESH_KILLS=200            number of kills
//   MOESH_KILLS_SEED=1         another seed kills at other moments
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include <gmock/gmock.h>

#include "store/folder.h"
#include "store/index.h"
#include "tests/process.h"
#include "tests/train/train_support.h"
#include "tests/train/trainer_support.h"

namespace moesh::train {
namespace {

using test::Process;
using test::TemporaryFolder;

std::uint64_t setting(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Steps of a few milliseconds, each of them saved, so that kills hit steps, saving, restoring and the start alike.
struct KeptRun {
  TemporaryFolder folder;
  std::string command =
      "train " + test::kTinyMixtral +
      "compile_topology=cpu-4 ici_fsdp_parallelism=2 ici_expert_parallelism=2 num_experts=4 per_device_batch_size=1 base_emb_dim=96 "
      "base_mlp_dim=512 "
      "base_moe_mlp_dim=512 enable_checkpointing=true checkpoint_period=1 max_num_checkpoints_to_keep=2 steps=60 log_config=false "
      "run_name=r base_output_directory=" +
      folder.path();

  std::string checkpoints() const { return folder.path() + "/r/checkpoints"; }
  std::int64_t newest() const {
    const auto steps = store::steps_in(checkpoints());
    return steps.empty() ? -1 : steps.back();
  }
  // The hashes of all tensors after the last step.
  std::vector<std::uint64_t> hashes() const {
    const std::string path = store::checkpoint_path(checkpoints(), newest()) + "/index.json";
    std::vector<std::uint64_t> all;
    for (const auto& [name, tensor] : store::parse_index(test::read_text(path), path).tensors) {
      for (const store::Piece& piece : tensor.pieces) all.insert(all.end(), piece.hashes.begin(), piece.hashes.end());
    }
    return all;
  }
  std::map<std::int64_t, double> losses() const {
    std::map<std::int64_t, double> by_step;
    for (const auto& line : test::metrics_in(folder.path() + "/r/metrics.jsonl")) by_step[line["step"]] = line["loss"];
    return by_step;
  }
};

class KillsSlow : public ::testing::TestWithParam<int> {};

TEST_P(KillsSlow, LeadToTheSameBits) {
  const int processes = GetParam();
  ASSERT_TRUE(processes == 1 || test::has_mpi()) << test::kNeedsMpi;
  const std::string spread = processes > 1 ? fmt::format(" --processes {}", processes) : "";
  const KeptRun undisturbed;
  ASSERT_EQ(Process(undisturbed.command + spread, undisturbed.folder.path()).wait(), 0);
  const auto hashes = undisturbed.hashes();
  const auto losses = undisturbed.losses();
  ASSERT_EQ(losses.size(), 60u);
  std::mt19937_64 engine(setting("MOESH_KILLS_SEED", 1));
  std::uint64_t left = setting("MOESH_KILLS", test::kIsSanitized ? 2 : processes > 1 ? 4 : 8);
  std::map<std::string, int> met;
  while (left > 0) {
    const KeptRun run;
    for (bool is_done = false; !is_done;) {
      const std::int64_t before = run.newest();
      Process process(run.command + spread, run.folder.path());
      // Alternates between moments of the start and moments of the steps. With several processes any of them may be killed.
      const auto moment = std::chrono::microseconds(engine() % (left % 2 == 0 ? 40'000 : 400'000) * (processes > 1 ? 3 : 1));
      std::this_thread::sleep_for(left > 0 ? moment : std::chrono::microseconds(0));
      if (left > 0) {
        const pid_t victim =
            processes > 1 ? test::process_of(run.folder.path(), static_cast<int>(engine() % static_cast<std::uint64_t>(processes))) : 0;
        if (victim > 0) ::kill(victim, SIGKILL);
        else if (processes == 1) process.send(SIGKILL);
        else process.send(SIGTERM);
      }
      const int code = process.wait();
      is_done = code == 0;
      ASSERT_TRUE(is_done || code >= 128 || processes > 1) << process.err();
      ASSERT_NE(code, 2) << process.err();
      if (is_done) break;
      --left;
      const bool is_saving = std::filesystem::exists(store::checkpoint_path(run.checkpoints(), run.newest() + 1) + ".part");
      ++met[run.newest() == before ? "before a step was saved" : is_saving ? "while one was saved" : "between"];
      EXPECT_GE(run.newest(), before) << "a checkpoint is gone";
    }
    EXPECT_EQ(run.hashes(), hashes);
    EXPECT_EQ(run.losses(), losses);
    EXPECT_EQ(run.newest(), 59);
  }
  for (const auto& [when, count] : met) fmt::print("kills {}: {}\n", when, count);
}

INSTANTIATE_TEST_SUITE_P(Processes, KillsSlow, ::testing::ValuesIn(test::kIsSanitized ? std::vector{1} : std::vector{1, 2}));

}  // namespace
}  // namespace moesh::train
