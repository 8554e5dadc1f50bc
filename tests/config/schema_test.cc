// The table of keys is complete: every default is a valid value of its key, and every row has a help text.
#include <filesystem>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/hugging_face.h"
#include "config/settings.h"
#include "tests/paths.h"
#include "tests/support.h"

namespace moesh::config {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

template <typename Act>
void for_all_keys(Act act) {
  for (const Topic& topic : topics()) {
    for (const Key& key : topic.keys) act(key);
  }
}

TEST(Schema, NamesAKeyOnce) {
  std::set<std::string_view> seen;
  for_all_keys([&](const Key& key) { EXPECT_TRUE(seen.insert(key.name).second) << key.name; });
  EXPECT_GT(seen.size(), 500u);
}

TEST(Schema, HasADefaultThatItsOwnKeyAccepts) {
  for_all_keys([](const Key& key) {
    EXPECT_EQ(test::message_of([&] { read_value(key, key.initial, "here"); }), "no error") << key.name;
  });
}

TEST(Schema, HasALineOfHelpForEveryKey) {
  for_all_keys([](const Key& key) {
    EXPECT_GT(key.help.size(), 5u) << key.name;
    EXPECT_EQ(key.help.find('\n'), std::string_view::npos) << key.name;
    EXPECT_LE(display_width(key.help), 110) << key.name;
  });
}

TEST(Schema, HasARangeOnlyWhereOneIsRead) {
  for_all_keys([](const Key& key) {
    const bool number = key.kind == Kind::integer || key.kind == Kind::real;
    if (number && !key.range.empty()) {
      EXPECT_NE(key.range.find(".."), std::string_view::npos) << key.name;
    }
    EXPECT_EQ(key.kind == Kind::choice, !key.range.empty() && !number) << key.name;
  });
}

// Integers that control sizes are bounded, so that products of a few of them stay within 64 bits.
TEST(Schema, BoundsEveryIntegerThatIsUsed) {
  for_all_keys([](const Key& key) {
    if (key.kind == Kind::integer && key.status == Status::used) {
      EXPECT_FALSE(key.range.empty()) << key.name;
      EXPECT_FALSE(key.range.ends_with("..")) << key.name;
    }
  });
}

TEST(Schema, FindsKeysByName) {
  ASSERT_NE(find_key("ici_fsdp_parallelism"), nullptr);
  EXPECT_EQ(find_key("ici_fsdp_parallelism")->name, "ici_fsdp_parallelism");
  EXPECT_EQ(find_key("nothing"), nullptr);
  EXPECT_EQ(find_key(""), nullptr);
}

TEST(Schema, SuggestsKeysThatAreNear) {
  EXPECT_EQ(nearest_keys("ici_fdsp_parallelism").front(), "ici_fsdp_parallelism");
  EXPECT_EQ(nearest_keys("step").front(), "steps");
  EXPECT_THAT(nearest_keys("xyzzyxyzzyxyzzy"), IsEmpty());
  EXPECT_EQ(nearest_keys("parallelism", 2).size(), 2u);
}

TEST(Schema, TellsTheChoicesThatAreNotDone) {
  const std::vector<Choice> all = choices(*find_key("profiler"));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].word, "");
  EXPECT_EQ(all[2].word, "nsys");
  EXPECT_TRUE(all[2].refused);
  EXPECT_TRUE(choices(*find_key("steps")).empty());
}

TEST(Schema, ClaimsNoTraceThatNothingWrites) {
  EXPECT_EQ(find_key("profile_periodically_period")->status, Status::accepted);
}

TEST(Schema, NamesKindsAndStates) {
  EXPECT_EQ(name_of(Kind::boolean), "true or false");
  EXPECT_EQ(name_of(Kind::choice), "one of a few words");
  EXPECT_EQ(name_of(Kind::nested), "a mapping or a list");
  EXPECT_EQ(name_of(Status::used), "used");
  EXPECT_EQ(name_of(Status::accepted), "accepted");
  EXPECT_EQ(name_of(Status::refused), "refused");
}

// A checkpoint is written as a Hugging Face folder from those of its settings that belong to topics of models, so that whatever a
// config.json says must be among them.
TEST(Schema, HasTheKeysOfAModelInTopicsOfModels) {
  std::set<std::string> of_models;
  for (const Topic& topic : topics()) {
    for (const Key& key : topic.keys) {
      if (topic.is_of_models) of_models.insert(std::string(key.name));
    }
  }
  int models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_folder() / "tests/golden/hf")) {
    if (!entry.is_directory()) continue;
    ++models;
    for (const HuggingFaceKey& key : hugging_face_keys(entry.path().string())) {
      EXPECT_TRUE(of_models.contains(key.key)) << entry.path() << ": " << key.key;
    }
  }
  EXPECT_GT(models, 15);
}

}  // namespace
}  // namespace moesh::config
