// Tests what differentiation refuses.
#include <gtest/gtest.h>

#include "graph/autodiff.h"
#include "tests/support.h"

namespace moesh::graph {
namespace {

TEST(Gradients, NameTheOpThatHasNone) {
  Builder builder;
  const Tensor w = builder.parameter("w", {4}, DType::float32, {{""}, {}, {}});
  const Tensor norm = builder.add_one(Op::sum_squares, "norm", {w}, {}, {}, DType::float32);
  EXPECT_EQ(test::message_of([&] { gradients(norm, {w}); }), "norm: sum_squares has no gradient yet");
}

}  // namespace
}  // namespace moesh::graph
