// Paths printed as a tree.
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "base/tree.h"

namespace moesh {
namespace {

std::string drawn(const std::vector<std::string>& paths) {
  std::string text;
  for (const TreeLine& line : tree_of(paths, 0)) text += line.text + (line.path ? fmt::format(" {}\n", *line.path) : "\n");
  return text;
}

TEST(Trees, SayOnceWhatNeighboursHaveInCommon) {
  EXPECT_EQ(drawn({"decoder/layers/attention/key", "decoder/layers/attention/out", "decoder/layers/mlp/wi/kernel", "decoder/norm"}),
            "decoder/\n"
            "  layers/\n"
            "    attention/\n"
            "      key 0\n"
            "      out 1\n"
            "    mlp/wi/kernel 2\n"
            "  norm 3\n");
}

TEST(Trees, LeaveALonePathWhole) { EXPECT_EQ(drawn({"a/b/c", "d/e"}), "a/b/c 0\nd/e 1\n"); }

TEST(Trees, KeepTheOrderOfPaths) { EXPECT_EQ(drawn({"a/x", "b", "a/y"}), "a/x 0\nb 1\na/y 2\n"); }

TEST(Trees, TakeAPathThatIsAnothersFolder) { EXPECT_EQ(drawn({"a/b", "a/b/c", "a/b/d"}), "a/\n  b 0\n  b/\n    c 1\n    d 2\n"); }

TEST(Trees, AreListsForWhatIsSearched) {
  const std::vector<TreeLine> lines = list_of({"a/b", "a/c"}, 2);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1].text, "  a/c");
  EXPECT_EQ(lines[1].path, 1u);
}

}  // namespace
}  // namespace moesh
