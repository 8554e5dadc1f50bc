// A plan is loaded as it was saved, and any other file is refused with a message that says what is wrong.
#include "plan/file.h"

#include <filesystem>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/compare.h"
#include "tests/plan/plan_support.h"

namespace moesh::plan {
namespace {

using test::planned;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const SavedPlan& small_saved() {
  static const SavedPlan plan = planned(test::kOnTwo);
  return plan;
}

// The text of a file without its first line.
std::string content_of(const std::string& text) { return text.substr(text.find('\n') + 1); }

std::string refusal(const std::string& text) {
  return test::message_of([&] { parse_file(text, "a.plan"); });
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

TEST(PlanFile, IsLoadedAsItWasSaved) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/a.plan";
  save(small_saved().plan, small_saved().origin, path);
  const SavedPlan loaded = load(path);
  EXPECT_EQ(loaded.origin, small_saved().origin);
  EXPECT_EQ(first_difference(loaded.plan, small_saved().plan), "");
  EXPECT_EQ(file_text(loaded.plan, loaded.origin), test::read_text(path));
}

TEST(PlanFile, TellsWhatItWasMadeFor) {
  const std::string text = file_text(small_saved().plan, small_saved().origin);
  EXPECT_THAT(text, StartsWith("moesh plan 1 hash "));
  EXPECT_THAT(text, HasSubstr("\nfor cpu-2 slices 1 mesh {"));
  EXPECT_THAT(text, HasSubstr("\nsetting num_experts=4\n"));
  EXPECT_THAT(text, HasSubstr("\nkernel "));
  EXPECT_THAT(text, Not(HasSubstr("setting run_name")));
}

// Names may contain any characters.
TEST(PlanFile, KeepsNamesWithSigns) {
  SavedPlan plan = small_saved();
  plan.plan.buffers[0].name = "a \"b\" \\ c\nd";
  plan.plan.instructions[0].path = "%0 = # x";
  plan.origin.settings.emplace_back("model_name", "it's \"here\"\n");
  const SavedPlan loaded = parse_file(file_text(plan.plan, plan.origin), "a.plan");
  EXPECT_EQ(first_difference(loaded.plan, plan.plan), "");
  EXPECT_EQ(loaded.origin, plan.origin);
}

TEST(PlanFile, RefusesWhatIsNoPlan) {
  EXPECT_EQ(refusal(""), "a.plan: this is no saved plan\n  fix: name a file that `moesh compile ... --save-plan FILE` wrote");
  EXPECT_THAT(refusal("{\"run\": 1}\n"), StartsWith("a.plan: this is no saved plan"));
  EXPECT_THAT(test::message_of([] { load("/no/such.plan"); }),
              StartsWith("/no/such.plan: the plan cannot be read: No such file or directory"));
}

TEST(PlanFile, RefusesOtherVersions) {
  const std::string text = file_text(small_saved().plan, small_saved().origin);
  EXPECT_EQ(refusal(replaced(text, "moesh plan 1 ", "moesh plan 2 ")),
            "a.plan: the plan is of format 2, this moesh reads format 1\n  fix: save the plan again: `moesh compile ... "
            "--save-plan FILE`");
  EXPECT_THAT(refusal(with_hash(replaced(content_of(text), "by ", "by 9.9."))),
              StartsWith("a.plan: the plan was made by moesh 9.9."));
  EXPECT_THAT(refusal(with_hash(replaced(content_of(text), "by ", "by 9.9."))), HasSubstr(", this is moesh "));
}

constexpr const char* kDamaged =
    "a.plan: the plan is damaged: what the file holds is not what its hash was made of\n"
    "  fix: save the plan again: `moesh compile ... --save-plan FILE`";

TEST(PlanFile, RefusesEveryTruncation) {
  const std::string text = file_text(small_saved().plan, small_saved().origin);
  const std::size_t step = std::max<std::size_t>(1, text.size() / 2000);
  for (std::size_t length = 0; length < text.size(); length += length < 200 || length + 200 > text.size() ? 1 : step) {
    const std::string message = refusal(text.substr(0, length));
    EXPECT_TRUE(message == kDamaged || message.starts_with("a.plan: this is no saved plan") ||
                message.starts_with("a.plan: the plan is of format "))
        << length << ": " << message;
  }
}

// Flips every bit of the first line, which has the hash, and random bits of the whole file.
TEST(PlanFile, RefusesEveryFlippedBit) {
  const std::string text = file_text(small_saved().plan, small_saved().origin);
  std::mt19937 random(1);
  const std::size_t first_line = 8 * (text.find('\n') + 1);
  for (std::size_t i = 0; i < first_line + 600; ++i) {
    const std::size_t bit = i < first_line ? i : random() % (8 * text.size());
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const std::string message = refusal(flipped);
    EXPECT_TRUE(message == kDamaged || message.starts_with("a.plan: this is no saved plan") ||
                message.starts_with("a.plan: the plan is of format "))
        << bit << ": " << message;
  }
}

// The file has been edited by hand, and its hash fits.
TEST(PlanFile, SaysWhereAPlanCannotBeRead) {
  const std::string content = content_of(file_text(small_saved().plan, small_saved().origin));
  const auto changed = [&](const std::string& what, const std::string& by) {
    return refusal(with_hash(replaced(content, what, by)));
  };
  EXPECT_THAT(changed("for cpu-2", "of cpu-2"), StartsWith("a.plan, line 3: 'for ' was expected, not 'of cpu-2 slices 1 mesh"));
  EXPECT_THAT(changed("\nbuffer lasts=state", "\nbuffer lasts=forever"),
              HasSubstr(": one of state, input, output, scratch was expected, not 'forever bytes="));
  EXPECT_THAT(changed("\nkernel ", "\nkernels "), HasSubstr(": a line of the plan was expected, not 'kernels "));
  EXPECT_THAT(changed("\nkernel ", "\nkernel so_"), HasSubstr(": an op was expected, not 'so_"));
  EXPECT_THAT(changed(" shape=[", " shape=[2000000000000, "), HasSubstr(": a view of sizes from 0 to 2^40 was expected, not "));
  EXPECT_THAT(changed(" shape=[", " shape=[1000000000000, 1000000, "),
              HasSubstr(": a view of at most 1e15 elements was expected, not "));
  EXPECT_THAT(changed("\nview buffer=0", "\nview buffer=7000"),
              HasSubstr("a.plan: the plan breaks a rule: view 0: buffer 7000 of "));
  EXPECT_THAT(changed("\nsetting ", "\nsettings "), HasSubstr(" was expected, not 'settings "));
  EXPECT_THAT(refusal(with_hash(content + "more\n")), HasSubstr(": the plan's end was expected, not 'more'"));
  EXPECT_THAT(changed("{", "{x=1048576x1048576 "), HasSubstr(": at most 2^30 devices before this was expected, not "));
}

}  // namespace
}  // namespace moesh::plan
