// The folder of a run's checkpoints: listing them, cleaning up after a run that died, and folders that cannot be read or written.
#include "store/folder.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "store/checkpoint.h"
#include "store/saving.h"
#include "tests/store/saving_support.h"
#include "tests/support.h"

namespace moesh::store {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using test::message_of;

class CheckpointFolder : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_.path() + "/" + name; }
  void save(const std::string& name) const {
    test::save_empty_checkpoint(at("new"), 7);
    fs::rename(at("new"), at(name));
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_.path())) all.push_back(entry.path().filename().string());
    return all;
  }

  test::TemporaryFolder folder_;
};

TEST_F(CheckpointFolder, HasThoseWithoutAnIndexToo) {
  for (const char* step : {"2", "4", "6", "8"}) save(step);
  fs::remove(at("4/index.json"));
  fs::remove(at("8/index.json"));
  fs::create_symlink("/nowhere", at("9"));
  folder_.write("10", "a file");
  EXPECT_THAT(steps_in(folder_.path()), ElementsAre(2, 4, 6, 8, 9));
  EXPECT_EQ(checkpoints_at(folder_.path()).front(), at("9"));
  EXPECT_THAT(message_of([&] { Checkpoint{at("8")}; }), AllOf(HasSubstr("8/index.json: the index of a checkpoint cannot be read"),
                                                             HasSubstr("a run of which none is whole can begin anew")));
  EXPECT_THAT(keep_newest(folder_.path(), 1), ElementsAre(2)) << "6 is the newest that has one";
  EXPECT_THAT(steps_in(folder_.path()), ElementsAre(4, 6, 8, 9));
}

// A checkpoint that was moved elsewhere, with a link in its place, stays there whole.
TEST_F(CheckpointFolder, LosesOnlyTheLinkToACheckpointElsewhere) {
  for (const char* step : {"2", "4"}) save(step);
  fs::create_directory(at("archive"));
  fs::rename(at("2"), at("archive/2"));
  fs::create_directory_symlink(at("archive/2"), at("2"));
  EXPECT_THAT(keep_newest(folder_.path(), 1), ElementsAre(2));
  EXPECT_THAT(names(), UnorderedElementsAre("4", "archive"));
  EXPECT_EQ(Checkpoint(at("archive/2")).index().about.step, 7);
  fs::create_directory_symlink(at("archive/2"), at("6"));
  test::save_empty_checkpoint(at("6"), 6);
  EXPECT_EQ(Checkpoint(at("6")).index().about.step, 6);
  EXPECT_EQ(Checkpoint(at("archive/2")).index().about.step, 7) << "one that replaces the link";
}

// A process that dies leaves each in one place or in the other, whole.
TEST_F(CheckpointFolder, MayKeepThoseThatAreTooManyAside) {
  for (const char* step : {"2", "4", "6"}) save(step);
  EXPECT_THAT(keep_newest(folder_.path(), 1, ".todelete"), ElementsAre(2, 4));
  EXPECT_THAT(names(), UnorderedElementsAre("6", ".todelete"));
  EXPECT_THAT(steps_in(at(".todelete")), ElementsAre(2, 4));
  EXPECT_EQ(Checkpoint(at(".todelete/4")).index().about.step, Checkpoint(at("6")).index().about.step) << "it can still be read";
  for (const char* step : {"4", "8"}) save(step);
  EXPECT_THAT(keep_newest(folder_.path(), 1, ".todelete"), ElementsAre(4, 6));
  EXPECT_THAT(steps_in(at(".todelete")), ElementsAre(2, 4, 6));
  EXPECT_TRUE(has_index(at(".todelete/4+"))) << "one of the same step stays too";
  clear_leftovers(folder_.path());
  EXPECT_THAT(steps_in(at(".todelete")), ElementsAre(2, 4, 6));
  EXPECT_THAT(keep_newest(folder_.path(), 0, "deep/er"), ElementsAre(8));
  EXPECT_THAT(steps_in(at("deep/er")), ElementsAre(8));
  save("9");
  folder_.write("file", "");
  EXPECT_THAT(message_of([&] { keep_newest(folder_.path(), 0, "file"); }), HasSubstr("/file: the folder cannot be made: "));
  EXPECT_THAT(steps_in(folder_.path()), ElementsAre(9)) << "what cannot be moved is not removed";
}

TEST_F(CheckpointFolder, OfARunIsTheOneNamedCheckpoints) {
  fs::create_directory(at("checkpoints"));
  fs::create_directory(at("3"));
  save("checkpoints/5");
  EXPECT_THAT(checkpoints_at(folder_.path()), ElementsAre(at("checkpoints/5")));
}

TEST_F(CheckpointFolder, OfTheReferenceIsNamedAsSuch) {
  fs::create_directories(at("checkpoints/5/items"));
  folder_.write("checkpoints/5/items/_METADATA", "{}");
  for (const std::string& path : {folder_.path(), at("checkpoints"), at("checkpoints/5"), at("checkpoints/5/items")}) {
    EXPECT_THAT(message_of([&] { checkpoints_at(path); }),
                AllOf(HasSubstr("/checkpoints/5"), HasSubstr(": a checkpoint of Orbax, which moesh does not read\n  fix: export it to a Hugging Face folder")));
  }
}

TEST_F(CheckpointFolder, IsClearedOfWhatARunThatDiedLeft) {
  for (const char* name : {"3.part", "3", "5.old", "7.old", "7", "9.old"}) save(name);
  fs::remove(at("3.part/index.json"));
  fs::remove(at("9.old/index.json"));
  fs::create_directory(at("mine.part"));
  folder_.write("8.part", "a file");
  ::testing::internal::CaptureStderr();
  clear_leftovers(folder_.path());
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(names(), UnorderedElementsAre("3", "5", "7", "mine.part", "8.part", ::testing::StartsWith("7.old.aside-")));
  EXPECT_THAT(said, AllOf(HasSubstr(at("5.old") + " was about to be replaced when a run died: it is " + at("5") + " again"),
                          HasSubstr(at("7.old") + " is an earlier checkpoint of a step that was saved again: it is ")));
}

TEST_F(CheckpointFolder, ThatCannotBeReadIsNotEmpty) {
  save("7");
  ::chmod(at("7").c_str(), 0);
  ::chmod(folder_.path().c_str(), 0333);
  std::string listed, locked, looked;
  {
    const test::AnotherUser other;
    listed = message_of([&] { steps_in(folder_.path()); });
    locked = message_of([&] { FolderLock{folder_.path()}; });
    looked = message_of([&] { has_index(at("7")); });
  }
  ::chmod(folder_.path().c_str(), 0755);
  ::chmod(at("7").c_str(), 0755);
  EXPECT_THAT(listed, HasSubstr("the folder cannot be read: Permission denied"));
  EXPECT_THAT(locked, HasSubstr("its checkpoints cannot be listed: Permission denied"));
  EXPECT_THAT(looked, HasSubstr("7/index.json: the system does not say whether it is there: Permission denied"));
}

TEST_F(CheckpointFolder, ThatCannotBeWrittenIsNotLocked) {
  { const FolderLock lock(folder_.path()); }
  EXPECT_THAT(names(), ElementsAre());
  ::chmod(folder_.path().c_str(), 0555);
  std::string locked;
  {
    const test::AnotherUser other;
    locked = message_of([&] { FolderLock{folder_.path()}; });
  }
  ::chmod(folder_.path().c_str(), 0755);
  EXPECT_THAT(locked, AllOf(HasSubstr("no file can be made there: Permission denied"), HasSubstr("choose base_output_directory")));
}

// A run may go on although it may not remove what an earlier one left there.
TEST(Leftovers, ThatMayNotBeRemovedStay) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() + "/7.part/within");
  for (const char* own : {"/7.part", "/7.part/within"})
    std::filesystem::permissions(folder.path() + own, std::filesystem::perms(0555));
  ::testing::internal::CaptureStderr();
  {
    const test::AnotherUser other;
    clear_leftovers(folder.path());
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("what a run that died has left behind stays: "));
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/7.part/within"));
  for (const char* own : {"/7.part", "/7.part/within"})
    std::filesystem::permissions(folder.path() + own, std::filesystem::perms(0755));
}

}  // namespace
}  // namespace moesh::store
