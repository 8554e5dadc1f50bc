// The messages in which rows travel between processes.
#include <algorithm>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "transport/rows.h"

namespace moesh::transport {
namespace {

// A message holds the rows of the tokens that the receiver has, from its first to its last.
TEST(HandedRows, AreThoseOfTheReceiversTokens) {
  std::vector<float> sums(10);
  std::iota(sums.begin(), sums.end(), 0.0f);
  std::vector<std::int32_t> tokens{0, 3, 4, 7, 9};
  std::int32_t count = 5;
  const std::vector<backend::View> sent{
      {sums.data(), DType::float32, {5, 2}}, {tokens.data(), DType::int32, {5}}, {&count, DType::int32, {}}};
  const graph::GroupOf group;
  const std::vector<std::vector<std::int32_t>> expected{{0, 3}, {4, 7}, {9}, {}};
  for (std::int64_t to = 0; to < 4; ++to) {
    const Handed handed{graph::Op::scatter_rows, group, sent, 0, to, 4};
    const auto& theirs = expected[static_cast<std::size_t>(to)];
    EXPECT_EQ(handed_bytes(handed), std::ssize(theirs) * (2 * 4 + 4));
    std::vector<std::byte> message(static_cast<std::size_t>(packed_bytes(handed)));
    pack(handed, message.data());
    std::vector<backend::View> got = sent;
    EXPECT_EQ(unpack(handed, message.data(), got), message.data() + message.size());
    ASSERT_EQ(*got[2].as<std::int32_t>(), std::ssize(theirs));
    for (std::size_t row = 0; row < theirs.size(); ++row) {
      EXPECT_EQ(got[1].as<std::int32_t>()[row], theirs[row]);
      const auto at = std::find(tokens.begin(), tokens.end(), theirs[row]) - tokens.begin();
      EXPECT_EQ(got[0].as<float>()[2 * row + 1], static_cast<float>(2 * at + 1));
    }
  }
}

}  // namespace
}  // namespace moesh::transport
