// Tests which values a layout is taken from where no constraint tells one.
#include "partition/beside.h"

#include <gtest/gtest.h>

#include "graph/parse.h"

namespace moesh::partition {
namespace {

using graph::NodeId;
using graph::ValueId;

Beside found(const std::string& text, const std::vector<ValueId>& wanted = {}) {
  const graph::Graph graph = graph::parse_graph(text).graph;
  std::vector<Want> wants(graph.values.size());
  for (const ValueId id : wanted) wants[static_cast<std::size_t>(id)] = sharding::whole_spec(1);
  return find_beside(graph, wants);
}

const std::string kStart =
    "%0: float32[4] = input labels=(-)  # x\n"
    "%1: float32[] = input labels=()  # s\n";

TEST(Beside, ABroadcastLiesAsTheEarlierValueThatItIsReadWith) {
  const std::string text = kStart + "%2: float32[4] = broadcast %1 dims=[]  # b\n";
  const Beside of = found(text + "%3: float32[4] = binary %2, %0 function=add  # y\nreturn %3 as y\n");
  EXPECT_EQ(of.with[2], ValueId{0});
  EXPECT_FALSE(of.with[0] || of.with[3]);
  EXPECT_FALSE(found(text + "%3: float32[4] = unary %0 function=silu  # later\n"
                            "%4: float32[4] = binary %2, %3 function=add  # y\nreturn %4 as y\n")
                   .with[2]);
}

TEST(Beside, ACotangentLiesAsTheForwardValueThatItIsReadWith) {
  const std::string text = kStart +
                           "%2: float32[4] = unary %0 function=silu  # y\n"
                           "%3: float32[4] = unary %0 function=relu phase backward  # dy\n"
                           "%4: float32[4] = unary_grad %2, %3 function=silu phase backward  # dx\n"
                           "return %4 as dx\n";
  EXPECT_EQ(found(text).with[3], ValueId{2});
  EXPECT_FALSE(found(text, {3}).with[3]) << "a layout is wanted of it";
  EXPECT_FALSE(found(text).with[2]) << "of the forward pass";
}

TEST(Beside, ProductsAndCastsOfTheBackwardPassReadCotangents) {
  const Beside of = found(
      "%0: float32[4, 2] = input labels=(-, -)  # w\n"
      "%1: float32[3, 2] = input labels=(-, -)  # x\n"
      "%2: float32[3, 2] = unary %1 function=silu phase backward  # dy\n"
      "%3: bfloat16[3, 2] = cast %2 phase backward  # narrow\n"
      "%4: float32[3, 4] = einsum %2, %0 equation=\"am,bm->ab\" phase backward  # dx\n"
      "return %4 as dx, %3 as narrow\n");
  EXPECT_EQ(of.reader[2], NodeId{3}) << "the first";
  EXPECT_EQ(of.reader[0], -1);
  EXPECT_EQ(of.reader[1], -1) << "roots are no cotangents";
}

}  // namespace
}  // namespace moesh::partition
