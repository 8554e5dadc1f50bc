// Which parameters are trained, and what is kept of them.
#include "train/trained.h"

#include <gtest/gtest.h>

#include "tests/train/trainer_support.h"

namespace moesh::train {
namespace {

using test::kTinyModel;

TEST(TrainableParametersMask, LeavesOutMomentsAndNothingElse) {
  const std::string mask = "trainable_parameters_mask=[norm]";
  const auto moments = [](const std::string& request) {
    return session::open(test::words_of(kTinyModel + request)).layout.moments;
  };
  for (const sharding::LaidTensor& moment : moments(mask)) EXPECT_NE(moment.path.find("norm"), std::string::npos) << moment.path;
  EXPECT_FALSE(moments(mask).empty());
  EXPECT_LT(moments(mask).size(), moments("").size());
  test::Training masked(kTinyModel + mask), all(kTinyModel);
  const auto norm_of = [](test::Training& training) { return training.trainer.step(training.batch()).raw_grad_norm; };
  EXPECT_EQ(norm_of(masked), norm_of(all)) << "gradients are clipped by the norm of all of them, as in MaxText";
}

TEST(TrainableParametersMask, TellsWhatItCannotBe) {
  EXPECT_EQ(test::message_of([] { test::Training(kTinyModel + "trainable_parameters_mask=[lora]"); }),
            "the command line: trainable_parameters_mask matches no parameter\n"
            "  fix: trainable_parameters_mask=[token_embedder/embedding], or [] for all; `moesh shardings` lists them");
  EXPECT_EQ(test::message_of([] { test::Training(kTinyModel + "trainable_parameters_mask=[(]"); }),
            "the command line: trainable_parameters_mask holds '(', a regular expression was expected: missing closing parenthesis at byte 1\n"
            "  fix: trainable_parameters_mask=[bias, '.*norm.*']");
}

}  // namespace
}  // namespace moesh::train
