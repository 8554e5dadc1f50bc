// Tests what multi-token prediction is given of a batch.
#include "models/ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moesh::models {
namespace {

using ::testing::ElementsAre;
using Row = std::vector<std::int32_t>;

TEST(ValuesAhead, StandFurtherOnInTheirRows) {
  const Row values{1, 2, 3, 4, 5, 6}, segments{1, 1, 1, 1, 1, 1};
  EXPECT_THAT(values_ahead(values, segments, 3, 1), ElementsAre(2, 3, 0, 5, 6, 0));
  EXPECT_THAT(values_ahead(values, segments, 3, 2), ElementsAre(3, 0, 0, 6, 0, 0));
  EXPECT_THAT(values_ahead(values, segments, 6, 2), ElementsAre(3, 4, 5, 6, 0, 0));
  EXPECT_THAT(values_ahead(values, segments, 3, 7), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(values_ahead(values, segments, 1, 1), ElementsAre(0, 0, 0, 0, 0, 0));
}

TEST(ValuesAhead, AreOfTheSameDocument) {
  const Row values{11, 12, 13, 21, 22, 91, 92}, segments{1, 1, 1, 2, 2, 0, 0};
  EXPECT_THAT(values_ahead(values, segments, 7, 1), ElementsAre(12, 13, 0, 22, 0, 0, 0));
}

// The second shift compares segments that have been shifted by one themselves: a place just before a document takes from it.
TEST(ValuesAhead, FollowTheReferenceBehindTheFirstPlace) {
  const Row values{11, 21, 22, 23}, segments{1, 2, 2, 2};
  EXPECT_THAT(values_ahead(values, segments, 4, 1), ElementsAre(0, 22, 23, 0));
  EXPECT_THAT(values_ahead(values, segments, 4, 2), ElementsAre(22, 23, 0, 0));
}

// A module's guess at a place is for the word that the model guesses one place later, and so on.
TEST(GuessesAhead, AreComparedWithTheModelsOwn) {
  const Row model{1, 2, 3, 4, 5, 6, 7, 8}, counted{1, 1, 1, 0, 1, 1, 1, 0};
  EXPECT_EQ(percent_accepted(model, Row{2, 3, 4, 9, 6, 7, 8, 9}, counted, 4, 1), 100);
  EXPECT_EQ(percent_accepted(model, Row{2, 3, 4, 9, 5, 5, 5, 9}, counted, 4, 1), 50);
  EXPECT_EQ(percent_accepted(model, Row{3, 4, 0, 9, 9, 9, 9, 9}, Row{1, 1, 1, 0, 0, 1, 0, 0}, 4, 2), 75) << "0 behind the end of a row";
  EXPECT_EQ(percent_accepted(model, model, Row{0, 0, 0, 0, 0, 0, 0, 0}, 4, 1), 0);
}

TEST(InputsAhead, AreNamedByTheirModules) {
  std::vector<std::string> names;
  for (const InputAhead& of : inputs_of_module(2)) names.push_back(of.name());
  EXPECT_THAT(names, ElementsAre("inputs_ahead_2", "targets_ahead_2", "targets_segmentation_ahead_2"));
}

}  // namespace
}  // namespace moesh::models
