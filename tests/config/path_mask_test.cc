// Masks are Python's regular expressions, as in MaxText, and are found anywhere in a path.
#include "config/path_mask.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"
#include "tests/support.h"

namespace moesh::config {
namespace {

using test::message_of;
using ::testing::HasSubstr;

PathMask mask_of(const std::string& pattern) {
  return {load({"model_name=mixtral-8x7b", "adamw_mask=['" + pattern + "']"}).settings, "adamw_mask"};
}

TEST(PathMask, IsFoundAnywhere) {
  EXPECT_TRUE(mask_of("norm").matches("decoder/layers/pre_norm/scale"));
  EXPECT_FALSE(mask_of("^norm").matches("decoder/layers/pre_norm/scale"));
  EXPECT_TRUE(mask_of("scale$").matches("decoder/layers/pre_norm/scale"));
  EXPECT_FALSE(mask_of("norm$").matches("decoder/layers/pre_norm/scale"));
  EXPECT_FALSE(PathMask(load({"model_name=mixtral-8x7b"}).settings, "adamw_mask").matches("norm"));
}

TEST(PathMask, TakesWhatPythonTakes) {
  const std::string path = "decoder/layers/self_attention/query_norm/scale";
  EXPECT_TRUE(mask_of("(?i)QUERY").matches(path));
  EXPECT_TRUE(mask_of("(?<=query_)norm").matches(path));
  EXPECT_FALSE(mask_of("(?<!query_)norm").matches(path));
  EXPECT_TRUE(mask_of("(?P<part>y)_norm").matches(path));
  EXPECT_TRUE(mask_of("\\Adecoder.*\\Z").matches(path));
  EXPECT_FALSE(mask_of("^(?!.*norm).*$").matches(path));
}

TEST(PathMask, SaysWhatIsWrong) {
  EXPECT_THAT(message_of([] { mask_of("a["); }), HasSubstr("adamw_mask holds 'a[', a regular expression was expected: "));
  EXPECT_THAT(message_of([] { mask_of("*"); }), HasSubstr("at byte 0"));
  EXPECT_THAT(message_of([] { mask_of("(a+)+$").matches(std::string(40, 'a') + "b"); }), HasSubstr("a regular expression gave up: "));
}

}  // namespace
}  // namespace moesh::config
