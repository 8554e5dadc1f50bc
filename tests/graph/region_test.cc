// Tests along which mesh axes the values of a region differ between devices, and what follows for gradients.
#include "graph/region.h"

#include "partition/partition.h"
#include "tests/graph/graph_support.h"
#include "tests/support.h"

namespace moesh::graph {
namespace {

using sharding::AxisList;

class OwnAxes : public ::testing::Test {
 protected:
  Tensor shard(Shape shape, DType dtype, AxisList axes) { return builder_.shard_input("in", std::move(shape), dtype, std::move(axes)); }
  AxisList of(Tensor tensor) const { return builder_.own_axes(tensor.id); }

  // Axes 0 and 1 have two devices each, axis 2 has four.
  const mesh::Mesh mesh_ = moesh::test::mesh_of({{"data", 2}, {"expert", 2}, {"tensor", 4}});
  Builder builder_ = Builder::of_region("body");
  const Tensor tokens_ = shard({6, 3}, DType::float32, {0, 1});
  const Tensor weights_ = shard({6, 3}, DType::float32, {1, 2});
};

TEST_F(OwnAxes, OfAResultAreThoseOfItsOperandsTogether) {
  EXPECT_EQ(of(add(tokens_, weights_)), (AxisList{0, 1, 2}));
  EXPECT_EQ(of(scale(tokens_, 2)), (AxisList{0, 1}));
  EXPECT_EQ(of(fill(builder_, 0, {2}, DType::float32)), AxisList{});
}

TEST_F(OwnAxes, OfWhatIsGatheredOrSummedAreThoseBeyondTheGroup) {
  EXPECT_EQ(of(gather(tokens_, group_of({1}, mesh_))), AxisList{0});
  EXPECT_EQ(of(all_sum(tokens_, mesh_, {0, 1})), AxisList{});
}

TEST_F(OwnAxes, OfWhatFollowsADevicesPlaceAreTheGroupsToo) {
  EXPECT_EQ(of(device_index(builder_, group_of({1, 2}, mesh_))), (AxisList{1, 2}));
  EXPECT_EQ(of(own_once(tokens_, group_of({2}, mesh_))), (AxisList{0, 1, 2}));
}

// Rows are fetched from the tokens of the whole group, so they differ only along the axes of the order that says which rows to fetch, and
// along axes beyond the group.
TEST_F(OwnAxes, OfRowsThatAreFetchedAreThoseOfTheirOrder) {
  const GroupOf group = group_of({1}, mesh_);
  const Tensor ids = gather(shard({6, 2}, DType::int32, {0, 1}), group);
  EXPECT_EQ(of(fetch_rows(tokens_, sort_slots(ids, {}, 4, 0), group)), AxisList{0});
  const SortedSlots slots = sort_slots(ids, device_index(builder_, group), 2, 0);
  const Tensor rows = fetch_rows(tokens_, slots, group);
  EXPECT_EQ(of(rows), (AxisList{0, 1}));
  EXPECT_EQ(of(return_rows(rows, slots, {}, 6, group)), (AxisList{0, 1}));
}

TEST(Region, RoomIsForEachTokenOnceAnExpert) {
  Builder builder;
  const Tensor ids = builder.input("ids", {10, 4}, DType::int32, {"", ""});
  EXPECT_EQ(sort_slots(ids, {}, 8, 0).order_R.size(0), 40);
  EXPECT_EQ(sort_slots(ids, {}, 2, 0).order_R.size(0), 20) << "of four choices at most two are here";
  EXPECT_EQ(sort_slots(ids, {}, 2, 7).order_R.size(0), 7);
}

TEST(Region, OfOneDeviceNeedsNoCollectives) {
  Builder builder;
  const Tensor x = builder.input("x", {3}, DType::float32, {""});
  EXPECT_EQ(gather(x, {}).id, x.id);
  EXPECT_EQ(own_once(x, {}).id, x.id);
  EXPECT_EQ(all_sum(x, mesh::Mesh({}), {}).id, x.id);
}

using test::Numbers;

constexpr std::int64_t kRows = 4, kWidth = 3, kColumns = 8;

// The gradients of x[rows, width] and w[width, columns], whose columns are sharded over `devices`. x is used in a product with w, of which
// each device computes a part, and in a square that every device computes whole, before or after the product.
std::vector<Numbers> shared_and_own_uses(std::int64_t devices, bool shared_first) {
  const mesh::Mesh mesh = moesh::test::mesh_of({{"tensor", devices}});
  const sharding::Spec whole = sharding::whole_spec(2), columns = sharding::without_size_one({{{}, {0}}, {}}, mesh);
  const std::vector<Numbers> feeds{test::noise(DType::float64, {kRows, kWidth}, 1), test::noise(DType::float64, {kWidth, kColumns}, 2),
                                   test::noise(DType::float64, {kRows, kColumns}, 3), test::noise(DType::float64, {kRows, kWidth}, 4)};
  Builder builder;
  std::vector<Tensor> in;
  for (const Numbers& feed : feeds) in.push_back(test::input_like(builder, fmt::format("in{}", in.size()), feed));
  const auto body = [&](Builder&, const std::vector<Tensor>& local) {
    Tensor square = shared_first ? multiply(local[0], local[0]) : Tensor{};
    const Tensor product = einsum("y", "ab,bc->ac", local[0], local[1]);
    if (!shared_first) square = multiply(local[0], local[0]);
    return std::vector<RegionResult>{{product, {kRows, kColumns}, columns}, {square, {kRows, kWidth}, whole}};
  };
  const std::vector<Tensor> made = region(builder, "body", {}, {{in[0], whole}, {in[1], columns}}, mesh, body);
  const auto sum = [](Tensor x, Tensor weights) { return reduce(Reduction::sum, multiply(x, weights), {0, 1}); };
  for (const Tensor& gradient : gradients(add(sum(made[0], in[2]), sum(made[1], in[3])), {in[0], in[1]})) builder.mark_result(gradient);
  const Graph graph = without_dead_nodes(builder.take());
  if (devices == 1) return test::run_graph(graph, feeds);

  const partition::PartitionRequest request{mesh, mesh::find_topology(fmt::format("cpu-{}", devices), 1), {}};
  const Graph program = partition::partition(graph, {whole, columns, columns, whole}, {std::nullopt, std::nullopt}, request).graph;
  backend::Workers workers(1);
  const auto pool = run::Pool::create();
  std::vector<run::Placed> placed;
  for (std::size_t i = 0; i < feeds.size(); ++i) {
    run::Array array = pool->allocate(feeds[i].shape, feeds[i].dtype);
    std::memcpy(array.view.data, feeds[i].bytes.data(), feeds[i].bytes.size());
    placed.push_back(run::place(array, i == 1 || i == 2 ? columns : whole, mesh, *pool));
  }
  std::vector<Numbers> results;
  for (const run::Placed& result : run::evaluate(program, placed, mesh, workers)) {
    const run::Array array = run::gathered(result, mesh, *pool, workers);
    results.emplace_back(array.view.dtype, array.view.shape);
    std::memcpy(results.back().bytes.data(), array.view.data, results.back().bytes.size());
  }
  return results;
}

// Contributions of single devices are summed, and contributions that all devices know count once. Expected values come from one device.
TEST(Region, GradientsOfSharedAndOwnUsesAddUp) {
  for (const bool shared_first : {false, true}) {
    const std::vector<Numbers> expected = shared_and_own_uses(1, shared_first);
    for (const std::int64_t devices : {2, 4}) {
      const std::vector<Numbers> made = shared_and_own_uses(devices, shared_first);
      for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_LT(backend::test::distance(made[i], expected[i]), 1e-14) << devices << " " << i;
    }
  }
}

}  // namespace
}  // namespace moesh::graph
