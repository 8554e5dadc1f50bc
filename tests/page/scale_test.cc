// Marks on an axis.
#include "page/scale.h"

#include <cmath>

#include <gmock/gmock.h>

namespace moesh::page {
namespace {

using ::testing::ElementsAre;

Scale scale_of(double least, double most) {
  Scale scale{0, 100};
  scale.see(least);
  scale.see(most);
  return scale;
}

TEST(Scale, HasMarksAtRoundNumbers) {
  EXPECT_THAT(scale_of(0, 59).marks(), ElementsAre(0, 20, 40));
  EXPECT_THAT(scale_of(-1, 1).marks(), ElementsAre(-1, 0, 1));
  EXPECT_THAT(scale_of(1e6, 1e6 + 5).marks(), ElementsAre(1e6, 1e6 + 2, 1e6 + 4));
}

TEST(Scale, OfOneValueHasOneMark) {
  EXPECT_THAT(scale_of(3, 3).marks(), ElementsAre(3));
  EXPECT_EQ(scale_of(3, 3).at(3), 50);
}

// As of a constant learning rate that a schedule computes.
TEST(Scale, OfValuesThatDifferByRoundingIsThatOfOneValue) {
  const double value = 1e6, next = std::nextafter(value, 2 * value);
  EXPECT_THAT(scale_of(value, next).marks(), ElementsAre(value));
  EXPECT_EQ(scale_of(value, next).at(next), 50);
}

// Of any size, and however little they differ.
TEST(Scale, HasAFewMarksForAnyValues) {
  for (const double size : {0.0, 5e-324, 1e-300, 1e-20, 3e-4, 1.0, 12345.678, 1e6, 1e20, 1e300}) {
    for (const double sign : {1.0, -1.0}) {
      for (double share = 1; share > 1e-20; share /= 7) {
        for (const double width : {share, size * share}) {
          const double least = sign * size, most = least + width;
          const std::vector<double> marks = scale_of(least, most).marks();
          const double rounding = 1e-9 * width + 1e-15 * size;
          SCOPED_TRACE(::testing::Message() << least << " to " << most);
          ASSERT_LE(marks.size(), 12u);
          for (std::size_t i = 0; i < marks.size(); ++i) {
            ASSERT_GE(marks[i], least - rounding);
            ASSERT_LE(marks[i], most + rounding);
            if (i > 0) {
              ASSERT_GT(marks[i], marks[i - 1]);
            }
          }
          const double at = scale_of(least, most).at(most);
          ASSERT_TRUE(at > -1e-9 && at < 100 + 1e-9) << at;
        }
      }
    }
  }
}

}  // namespace
}  // namespace moesh::page
