#include "foreign/pattern.h"

#include <string>

#include <gtest/gtest.h>

namespace moesh::foreign {
namespace {

// The elements one after the other, such as "0001", or "no list".
std::string list(const std::string& text, std::size_t most = 100) {
  const auto elements = parse_pattern(text, most);
  if (!elements) return "no list";
  std::string shown;
  for (const int element : *elements) shown += std::to_string(element);
  return shown;
}

TEST(LayerPattern, IsAListInPython) {
  EXPECT_EQ(list("[0]*3+[1]*4"), "0001111");
  EXPECT_EQ(list("([0]*1+[1]*2)*2"), "011011");
  EXPECT_EQ(list(" [ 0 , 1 ] * 2 + [1] "), "01011");
  EXPECT_EQ(list("[1,1,1,0]*2*2"), "1110111011101110");
  EXPECT_EQ(list("(([1]))"), "1");
}

TEST(LayerPattern, IsNothingElse) {
  for (const std::string text : {"", "1", "[2]", "[-1]", "[]", "[0", "[0]*", "[0]**2", "[0]+", "([0]", "[0])", "[0]*x", "__import__('os')", "[0,]", "[0]*-1"})
    EXPECT_EQ(list(text), "no list") << text;
}

TEST(LayerPattern, IsNoLongerThanThereAreLayers) {
  EXPECT_EQ(list("[0]*4", 4), "0000");
  EXPECT_EQ(list("[0]*5", 4), "no list");
  EXPECT_EQ(list("[0]*2+[1]*3", 4), "no list");
  EXPECT_EQ(list("[0]*99999999999999999999", 4), "no list");
  EXPECT_EQ(list("[0]*1000000*1000000*1000000", 4), "no list");
  EXPECT_EQ(list(std::string(1000, '(') + "[0]" + std::string(1000, ')'), 4), "no list");
}

}  // namespace
}  // namespace moesh::foreign
