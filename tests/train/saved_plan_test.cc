// `plan=FILE`: a run executes the saved plan exactly, or does not begin.
#include "train/saved_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/support.h"
#include "tests/plan/plan_support.h"
#include "tests/train/train_support.h"

namespace moesh::train {
namespace {

using test::kOnTwo;
using ::testing::HasSubstr;
using ::testing::Not;

class SavedPlans : public ::testing::Test {
 protected:
  SavedPlans() : path_(folder_.path() + "/a.plan") {
    const plan::SavedPlan made = test::planned(kOnTwo);
    plan::save(made.plan, made.origin, path_);
  }

  test::Outcome train(const std::string& more) const {
    return test::train_with(kOnTwo + "steps=1 dataset_type=synthetic log_config=false enable_checkpointing=false metrics_file=" +
                            folder_.path() + "/m.jsonl plan=" + path_ + " " + more);
  }
  bool has_begun() const { return std::filesystem::exists(folder_.path() + "/m.jsonl"); }

  test::TemporaryFolder folder_;
  std::string path_;
};

TEST_F(SavedPlans, AreWhatRuns) {
  const test::Outcome made = train("learning_rate=0.25");
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("completed step: 0"));
  EXPECT_TRUE(has_begun());
}

TEST_F(SavedPlans, RefuseARunThatDiffers) {
  const test::Outcome made = train("remat_policy=minimal");
  EXPECT_EQ(made.code, 2);
  EXPECT_THAT(made.err, HasSubstr("a.plan: the plan is not what this request runs: "));
  EXPECT_THAT(made.err, HasSubstr("remat_policy is its default in the file and minimal here"));
  EXPECT_THAT(made.out, Not(HasSubstr("completed step")));
  EXPECT_FALSE(has_begun());
}

TEST_F(SavedPlans, RefuseARunOnAnotherMesh) {
  const test::Outcome made = train("ici_fsdp_parallelism=1 ici_expert_parallelism=2");
  EXPECT_EQ(made.code, 2);
  EXPECT_THAT(made.err, HasSubstr("a.plan: the plan is for the mesh {"));
}

TEST_F(SavedPlans, RefuseARunWhenTheyAreDamaged) {
  test::write_file(path_, test::read_text(path_) + " ");
  const test::Outcome made = train("");
  EXPECT_EQ(made.code, 2);
  EXPECT_THAT(made.err, HasSubstr("a.plan: the plan is damaged: what the file holds is not what its hash was made of"));
}

// A recorded run also keeps logits and gradients.
TEST(SavedPlan, IsNotForVerify) {
  const config::Settings settings = config::load(test::words_of(kOnTwo + "plan=a.plan")).settings;
  EXPECT_EQ(test::message_of([&] { config::check_run(settings, config::Run::steps); }),
            "the command line: a saved plan is of a training step, and this run keeps more than that\n  fix: leave plan away");
}

TEST(SavedPlan, IsSavedWithTheSettingsThatAreNotAtTheirDefaults) {
  const session::Session session = test::session(kOnTwo + "run_name=r learning_rate=0.25 adam_b1=0.9");
  const plan::Origin origin = origin_of(session.loaded.settings, session.target);
  const auto has = [&](const std::string& key) {
    return std::any_of(origin.settings.begin(), origin.settings.end(), [&](const auto& setting) { return setting.first == key; });
  };
  EXPECT_EQ(origin.target, "cpu-2");
  EXPECT_EQ(origin.slices, 1);
  EXPECT_TRUE(has("num_experts") && has("learning_rate"));
  EXPECT_FALSE(has("run_name") || has("adam_b1") || has("dataset_type"));
}

}  // namespace
}  // namespace moesh::train
