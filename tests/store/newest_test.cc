// The newest checkpoint that is whole: which one is taken, and what is not mistaken for damage.
#include "store/newest.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "base/error.h"
#include "tests/store/saving_support.h"
#include "tests/support.h"

namespace moesh::store {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using test::message_of;

class Newest : public ::testing::Test {
 protected:
  Newest() {
    for (const int step : {2, 4, 6}) test::save_empty_checkpoint(at(step), step);
  }
  std::string at(int step) const { return folder_.path() + "/" + std::to_string(step); }

  test::TemporaryFolder folder_;
};

TEST_F(Newest, IsTheOneBeforeWhereOneIsDamagedWhenItIsOpenedOrRead) {
  std::ofstream(at(6) + "/index.json") << "{}";
  std::vector<std::int64_t> checked, read;
  const auto check = [&](const Checkpoint& from) { checked.push_back(from.index().about.step); };
  const auto fill = [&](const Checkpoint& from) {
    read.push_back(from.index().about.step);
    if (read.back() == 4) refuse("bytes 0 to 7 are damaged", from.folder());
  };
  ::testing::internal::CaptureStderr();
  with_newest_whole(folder_.path(), check, fill);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr(at(6) + "/index.json: cut short, damaged, or no index of a checkpoint"),
                    HasSubstr(at(4) + ": bytes 0 to 7 are damaged"), HasSubstr("the checkpoint before it is taken")));
  EXPECT_THAT(checked, ElementsAre(4, 2));
  EXPECT_THAT(read, ElementsAre(4, 2));
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(newest_index(folder_.path()).about.step, 4);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(Newest, IsRefusedWhereItDoesNotFitOrMayNotBeReadOrIsNamedItself) {
  const auto nothing = [](const Checkpoint&) {};
  const auto refuses = [](const Checkpoint&) { refuse("it is of another model"); };
  const auto fails = [](const Checkpoint&) { fail("the system does not let it be read"); };
  EXPECT_EQ(message_of([&] { with_newest_whole(folder_.path(), refuses, nothing); }), "it is of another model");
  EXPECT_EQ(message_of([&] { with_newest_whole(folder_.path(), nothing, fails); }), "the system does not let it be read");
  std::ofstream(at(6) + "/index.json") << "{}";
  EXPECT_THAT(message_of([&] { with_newest_whole(at(6), nothing, nothing); }), HasSubstr("cut short, damaged, or no index"));
  for (const int step : {2, 4}) fs::remove(at(step) + "/index.json");
  EXPECT_THAT(message_of([&] { newest_index(folder_.path()); }), HasSubstr("the index of a checkpoint cannot be read"));
}

}  // namespace
}  // namespace moesh::store
