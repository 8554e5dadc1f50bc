// The report that `train --audit` prints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/train_support.h"
#include "train/run_words.h"

namespace moesh::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(AuditWords, FoldWhatOneNodeAsksForAndShowWhatDiffers) {
  run::AuditLine line;
  line.path = "gradients/add";
  line.planned_runs = line.runs = 2;
  line.planned_bytes = line.bytes = 1000;
  run::Audit audit;
  audit.collectives = {line, line, line};
  audit.collectives.back().bytes = 900;
  audit.planned_memory = audit.memory = 4096;
  EXPECT_EQ(audit_words(audit, 120),
            "Run and plan, all devices together:\n"
            "collective  made by        runs  planned  bytes moved  planned\n"
            "all-gather  gradients/add     4        4        2,000    2,000\n"
            "all-gather  gradients/add     2        2          900    1,000  differs\n"
            "all collectives: 2,900 bytes moved, planned 3,000\n"
            "memory of this process: 4,096 bytes, planned 4,096\n");
  EXPECT_EQ(audit.difference(), "all-gather at gradients/add: planned 2 times with 1,000 in all, it ran 2 times with 900");
}

TEST(AuditWords, StandAtTheEndOfARunThatAsksForThem) {
  const test::TemporaryFolder folder;
  const std::string request =
      "model_name=mixtral-8x7b override_model_config=true base_emb_dim=16 base_num_query_heads=2 base_num_kv_heads=2 head_dim=8 "
      "base_mlp_dim=16 base_moe_mlp_dim=16 base_num_decoder_layers=1 vocab_size=32 max_target_length=16 per_device_batch_size=1 "
      "compile_topology=cpu-4 ici_fsdp_parallelism=2 ici_expert_parallelism=2 owners=2 steps=2 dataset_type=synthetic "
      "enable_checkpointing=false metrics_file=" + folder.path() + "/m.jsonl";
  const test::Outcome made = test::train_with(request + " --audit");
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("Run and plan, all devices together:\ncollective "));
  EXPECT_THAT(made.out, HasSubstr(" at most "));
  EXPECT_THAT(made.out, HasSubstr("\nmemory of this process: "));
  EXPECT_THAT(made.out, Not(HasSubstr("differs")));
  EXPECT_THAT(test::train_with(request).out, Not(HasSubstr("Run and plan")));
}

}  // namespace
}  // namespace moesh::train
