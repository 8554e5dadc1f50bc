// YAML as the configuration reads it: line numbers, bounds, and messages about files that are not valid YAML.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "config/yaml.h"
#include "tests/support.h"

namespace moesh::config {
namespace {

using test::message_of;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Type = YamlNode::Type;

YamlNode parse(const std::string& text) { return parse_yaml(text, "f.yml"); }

std::string yaml_refusal(const std::string& text, const YamlLimits& limits = {}) {
  return message_of([&] { parse_yaml(text, "f.yml", limits); });
}

TEST(Yaml, KeepsTheOrderAndThePlaceOfEveryNode) {
  const YamlNode root = parse("b: 1\na:\n  - x\n  - [y, z]\n");
  ASSERT_EQ(root.type, Type::mapping);
  ASSERT_EQ(root.items.size(), 2u);
  EXPECT_EQ(root.items[0].key, "b");
  EXPECT_EQ(root.items[0].where, "f.yml:1");
  const YamlNode& list = *root.find("a");
  EXPECT_EQ(list.type, Type::sequence);
  EXPECT_EQ(list.where, "f.yml:3");
  EXPECT_EQ(list.items[1].items[1].scalar, "z");
  EXPECT_EQ(list.items[1].items[1].where, "f.yml:4");
}

TEST(Yaml, PassesOverAByteOrderMark) { EXPECT_EQ(parse("\xEF\xBB\xBFsteps: 2\n").items.at(0).key, "steps"); }

TEST(Yaml, TakesTextThatLiesNowhere) { EXPECT_EQ(parse_yaml(std::string_view(), "mine.yml").type, YamlNode::Type::null); }

TEST(Yaml, KnowsQuotedTextFromPlain) {
  const YamlNode root = parse("a: 'null'\nb: null\nc: \"1\"\nd: 1\n");
  EXPECT_TRUE(root.find("a")->quoted);
  EXPECT_EQ(root.find("a")->scalar, "null");
  EXPECT_EQ(root.find("b")->type, Type::null);
  EXPECT_TRUE(root.find("c")->quoted);
  EXPECT_FALSE(root.find("d")->quoted);
}

TEST(Yaml, FindsNothingWhereThereIsNone) {
  const YamlNode root = parse("a: 1\n");
  EXPECT_EQ(root.find("b"), nullptr);
  EXPECT_EQ(root.find("a")->find("b"), nullptr);
}

TEST(Yaml, TakesAnEmptyTextForANull) {
  EXPECT_EQ(parse("").type, Type::null);
  EXPECT_EQ(parse("# only a comment\n").type, Type::null);
}

TEST(Yaml, CopiesAliases) {
  const YamlNode root = parse("a: &x [1, 2]\nb: *x\n");
  EXPECT_EQ(root.find("b")->items.size(), 2u);
  EXPECT_EQ(root.find("b")->key, "b");
  EXPECT_EQ(root.find("a")->key, "a");
}

TEST(Yaml, RefusesToMergeMappings) {
  const std::string merge = "'<<' merges a mapping into another, which is not read here\n  fix: write out the keys that it would merge";
  EXPECT_EQ(yaml_refusal("a: &x {b: 1}\n<<: *x\n"), "f.yml:2: " + merge);
  EXPECT_EQ(yaml_refusal("a: &x {b: 1}\nc:\n  <<: [*x]\n"), "f.yml:3: " + merge);
  EXPECT_EQ(yaml_refusal("'<<': 1\n"), "no error") << "a key in quotes is a key";
}

TEST(Yaml, RefusesLeadingZerosOfNumbers) {
  const std::string octal = "\n  fix: leave the zeros out, which YAML takes for an octal number: 0400 is 256";
  const auto read = [](const std::string& text) {
    return message_of([&] { yaml_real(parse("a: " + text + "\n").items[0], "a"); });
  };
  EXPECT_EQ(read("0400"), "f.yml:1: a is '0400', a number without leading zeros was expected" + octal);
  EXPECT_EQ(read("-08"), "f.yml:1: a is '-08', a number without leading zeros was expected" + octal);
  EXPECT_EQ(message_of([] { yaml_real(parse("a: 010\n").items[0], "a"); }),
            "f.yml:1: a is '010', a number without leading zeros was expected" + octal);
  for (const char* text : {"0", "-0", "400", "1000"}) EXPECT_EQ(read(text), "no error");
  EXPECT_EQ(yaml_real(parse("a: 0.5\n").items[0], "a"), 0.5);
}

TEST(Yaml, RefusesCyclesOfAliases) {
  EXPECT_EQ(yaml_refusal("a: &x [1, *x]\n"), "f.yml:1: an alias points into itself, a tree was expected");
  EXPECT_EQ(yaml_refusal("a: &x\n  b: &y\n    c: *x\n"), "f.yml:3: an alias points into itself, a tree was expected");
  EXPECT_EQ(yaml_refusal("a: *nowhere\n"), "f.yml:1: no anchor 'nowhere' stands before its alias");
}

TEST(Yaml, RefusesAnExplosionOfAliases) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 40; ++i) {
    std::string uses;
    for (int k = 0; k < 10; ++k) uses += (k > 0 ? ", *a" : "*a") + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + uses + "]\n";
  }
  EXPECT_THAT(yaml_refusal(bomb), HasSubstr("more than 200000 values, aliases counted as often as they are used\n"
                                       "  fix: a configuration file is smaller than that; check which file this is"));
}

TEST(Yaml, RefusesMoreValuesThanTheLimit) {
  EXPECT_THAT(yaml_refusal("[1, 2, 3, 4]", {100, 4}), HasSubstr("more than 4 values"));
  EXPECT_EQ(yaml_refusal("[1, 2, 3]", {100, 4}), "no error");
}

TEST(Yaml, NestsAsDeepAsTheLimit) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(yaml_refusal(nested(256)), "no error");
  EXPECT_THAT(yaml_refusal(nested(257)), HasSubstr("nested more than 256 deep"));
}

TEST(Yaml, GivesAValueOfNoFileOnePlace) {
  const YamlNode list = parse_yaml_value("[a,\nb]", "the command line");
  EXPECT_EQ(list.where, "the command line");
  EXPECT_EQ(list.items[1].where, "the command line");
  EXPECT_THAT(message_of([] { parse_yaml_value("[a", "the command line"); }),
              StartsWith("the command line: not readable as YAML: "));
}

TEST(Yaml, RefusesAKeyThatStandsTwice) {
  EXPECT_EQ(yaml_refusal("a: 1\nb: 2\na: 3\n"), "f.yml:3: key 'a' stands twice in one mapping\n  fix: keep one of them");
  EXPECT_EQ(yaml_refusal("a: 1\nb: {a: 2}\n"), "no error");
}

TEST(Yaml, RefusesKeysThatAreNoWords) {
  EXPECT_EQ(yaml_refusal("? [a, b]\n: c\n"), "f.yml:1: a key that is no plain word");
  EXPECT_EQ(yaml_refusal("~: c\n"), "f.yml:1: a key that is no plain word");
}

TEST(Yaml, RefusesMoreBytesThanTheLimit) {
  EXPECT_EQ(yaml_refusal(std::string(2048, ' '), {1024, 100}),
            "f.yml: 2.00 KiB of YAML, at most 1.00 KiB are read\n  fix: check which file this is");
}

TEST(Yaml, RefusesWhatIsNoText) {
  EXPECT_EQ(yaml_refusal("a: \xff\n"), "f.yml: not valid UTF-8\n  fix: save the file as UTF-8 text");
  EXPECT_EQ(yaml_refusal("a: \xc0\xaf\n"), "f.yml: not valid UTF-8\n  fix: save the file as UTF-8 text")
      << "an overlong form";
  EXPECT_EQ(yaml_refusal(std::string("a: \0b\n", 6)), "f.yml: a zero byte, text was expected");
}

TEST(Yaml, SaysWhereASyntaxErrorStands) {
  EXPECT_THAT(yaml_refusal("a: 1\nb: [1, 2\n"), StartsWith("f.yml:3: not readable as YAML: "));
  EXPECT_THAT(yaml_refusal("a: 1\n\t- b\n"), StartsWith("f.yml:2: not readable as YAML: "));
}

TEST(Yaml, RefusesDeepNestingWithoutRunningOutOfStack) {
  const std::string deep = "lists and mappings nested more than 256 deep\n  fix: a configuration file is flatter than "
                           "that; check which file this is";
  EXPECT_EQ(yaml_refusal("a: " + std::string(100'000, '[')), "f.yml:1: " + deep);
  EXPECT_EQ(yaml_refusal(std::string(100'000, '[') + std::string(100'000, ']')), "f.yml:1: " + deep);
  std::string nested = "b: 1\na:\n";
  for (int i = 0; i < 20'000; ++i) nested += "  {a:\n";
  nested += std::string(20'000, '}');
  EXPECT_EQ(yaml_refusal(nested), "f.yml:258: " + deep) << "the line on which the nesting goes too deep";
  EXPECT_THAT(yaml_refusal(std::string(200'000, '-')), ::testing::Not(HasSubstr("bad_alloc")));
}

TEST(Yaml, ReadsAFile) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("a.yml", "a: 1\nb:\n  - 2\n");
  EXPECT_EQ(read_yaml(path).find("b")->items[0].where, path + ":3");
}

TEST(Yaml, ReadsAnEmptyFileAsANull) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(message_of([&] { EXPECT_EQ(read_yaml(folder.write("a.yml", "")).type, Type::null); }), "no error");
}

TEST(Yaml, RefusesASecondDocument) {
  EXPECT_THAT(yaml_refusal("a: 1\n---\nb: 2\n"), HasSubstr("a second document, one was expected"));
}

TEST(Yaml, RefusesWhatIsNoFile) {
  const test::TemporaryFolder folder;
  const auto read = [](const std::string& path, const YamlLimits& limits = {}) {
    return message_of([&] { read_yaml(path, limits); });
  };
  EXPECT_EQ(read(folder.path() + "/none.yml"), folder.path() + "/none.yml: no such file\n  fix: check the path");
  EXPECT_EQ(read(folder.path()), folder.path() + ": not a regular file\n  fix: name a YAML file");
  EXPECT_EQ(read("/dev/zero"), "/dev/zero: not a regular file\n  fix: name a YAML file");
  const std::string pipe = folder.path() + "/pipe.yml";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(read(pipe), pipe + ": not a regular file\n  fix: name a YAML file");
  EXPECT_EQ(read("/proc/self/mem"), "/proc/self/mem: the file cannot be read\n  fix: check its permissions");
}

TEST(Yaml, RefusesAHugeFileBeforeItIsRead) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("a.yml", "a: 1\n");
  std::filesystem::resize_file(path, 100u << 20);
  EXPECT_EQ(message_of([&] { read_yaml(path); }),
            path + ": a file of 100.0 MiB, at most 4.00 MiB are read\n  fix: check which file this is");
}

TEST(Yaml, ReadsWordsAndNumbersOrSaysWhatWasExpected) {
  const YamlNode root = parse("a: word\nb: 1.5\nc: 12\nd: [1]\ne: nan\n");
  EXPECT_EQ(yaml_text(*root.find("a"), "a"), "word");
  EXPECT_EQ(yaml_real(*root.find("b"), "b"), 1.5);
  EXPECT_EQ(yaml_real(*root.find("c"), "c"), 12);
  EXPECT_EQ(message_of([&] { yaml_text(*root.find("d"), "d"); }), "f.yml:4: d: text was expected");
  EXPECT_EQ(message_of([&] { yaml_real(*root.find("e"), "e"); }), "f.yml:5: e is 'nan', a finite number was expected");
}

}  // namespace
}  // namespace moesh::config
