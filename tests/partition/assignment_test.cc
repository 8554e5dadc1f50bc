// Tests the choice of layouts at a single op on meshes of many axes.
#include "partition/assignment.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "cost/kernel.h"
#include "graph/facts.h"
#include "graph/work.h"
#include "tests/support.h"

namespace moesh::partition {
namespace {

using graph::Builder;
using graph::Tensor;

// A product of two whole matrices, whose result may have whichever layout is cheapest.
class FreeProduct {
 public:
  explicit FreeProduct(std::size_t axes)
      : mesh_(axes_of(axes)),
        target_(mesh::find_topology(axes == 7   ? "v5p-256"
                                    : axes == 5 ? "v5p-64"
                                                : "v5p-16",
                                    1)) {
    const Tensor a = builder_.input("a", {8192, 8192}, DType::bfloat16, {"", ""});
    const Tensor b = builder_.input("b", {8192, 8192}, DType::bfloat16, {"", ""});
    graph::einsum("ab", "sm,mh->sh", a, b);
  }

  Answers answers() const {
    const graph::Node& node = builder_.graph().nodes.back();
    Question question{
        node, graph::factors_of(builder_.graph(), node), {}, {{8192, 8192}}, {DType::bfloat16}, {std::nullopt}, {}};
    for (std::size_t i = 0; i < 2; ++i) {
      question.operands.push_back(
          {{8192, 8192}, DType::bfloat16, i, sharding::whole_spec(2), {sharding::whole_spec(2)}, false, true});
    }
    return choose(question, Prices(mesh_, target_), mesh_);
  }

  double seconds_whole() const {
    return cost::kernel_seconds(graph::work_of({builder_.graph(), builder_.graph().nodes.back()}, mesh_), target_.chip);
  }
  const mesh::Mesh& mesh() const { return mesh_; }

 private:
  static std::vector<mesh::Axis> axes_of(std::size_t count) {
    std::vector<mesh::Axis> axes;
    for (std::size_t i = 0; i < count; ++i) axes.push_back({fmt::format("a{}", i), 2, 1});
    return axes;
  }

  Builder builder_;
  mesh::Mesh mesh_;
  mesh::Topology target_;
};

// With seven axes there are 4^7 assignments, too many to try all of them; still, the product must be sharded over all axes.
TEST(Assignment, SharesOutAProductOverAsManyAxesAsThereAre) {
  for (const std::size_t axes : {3u, 5u, 7u}) {
    const FreeProduct product(axes);
    const Answers answers = product.answers();
    ASSERT_EQ(answers.best.results.size(), 1u);
    EXPECT_EQ(sharding::shards(answers.best.results[0], product.mesh()), product.mesh().devices()) << axes;
    EXPECT_LT(answers.best.seconds, 3 * product.seconds_whole() / static_cast<double>(product.mesh().devices()) + 1e-5)
        << axes;
    ASSERT_TRUE(answers.runner_up) << axes;
    EXPECT_GE(answers.runner_up->seconds, answers.best.seconds) << axes;
  }
}

TEST(Assignment, RefusesMoreAxesThanItCanHold) {
  EXPECT_EQ(test::message_of([] { FreeProduct(17).answers(); }),
            "the mesh: 17 axes are larger than one, at most 16 are laid out\n  fix: leave some at 1");
}

}  // namespace
}  // namespace moesh::partition
