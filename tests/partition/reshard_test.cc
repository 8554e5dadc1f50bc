// Tests resharding between all pairs of layouts on meshes of eight devices: each step does what its kind says, and the right values arrive.
#include "partition/reshard_price.h"

#include <algorithm>
#include <functional>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "run/placed.h"
#include "sharding/report.h"
#include "tests/support.h"

namespace moesh::partition {
namespace {

using graph::ReshardOf;
using run::Array;
using run::Placed;
using sharding::AxisIndex;
using sharding::AxisList;
using sharding::Spec;
using Kind = ReshardOf::Kind;

mesh::Mesh mesh_of(const std::vector<std::int64_t>& sizes) {
  std::vector<mesh::Axis> axes;
  for (std::size_t i = 0; i < sizes.size(); ++i) axes.push_back({fmt::format("a{}", i), sizes[i], 1});
  return mesh::Mesh(axes);
}

// All specs of a rank: each axis is absent, in the partial sum, or in a dim at any position among the axes that are already there.
std::vector<Spec> all_specs(std::size_t rank, std::size_t axes, bool partial) {
  std::vector<Spec> all{Spec{std::vector<AxisList>(rank), {}}};
  for (AxisIndex axis = 0; axis < axes; ++axis) {
    std::vector<Spec> more;
    for (const Spec& spec : all) {
      more.push_back(spec);
      if (partial) {
        more.push_back(spec);
        more.back().partial.push_back(axis);
      }
      for (std::size_t dim = 0; dim < rank; ++dim) {
        for (std::size_t place = 0; place <= spec.dims[dim].size(); ++place) {
          more.push_back(spec);
          AxisList& list = more.back().dims[dim];
          list.insert(list.begin() + static_cast<std::ptrdiff_t>(place), axis);
        }
      }
    }
    all = std::move(more);
  }
  return all;
}

bool may_become(const Spec& from, const Spec& to) {
  return std::all_of(to.partial.begin(), to.partial.end(), [&](AxisIndex axis) {
    return std::find(from.partial.begin(), from.partial.end(), axis) != from.partial.end();
  });
}

class Numbers {
 public:
  Numbers(mesh::Mesh mesh, const Shape& shape) : mesh_(std::move(mesh)), whole_(pool_->allocate(shape, DType::float32)) {
    for (std::int64_t i = 0; i < whole_.view.count(); ++i) whole_.as<float>()[i] = static_cast<float>(i * 37 % 101);
  }

  const mesh::Mesh& mesh() const { return mesh_; }
  const Array& whole() const { return whole_; }

  // Shards whose partial sums are the value: the terms differ from each other, and the last one makes up for the others.
  Placed placed(const Spec& spec) {
    Placed value = run::place(whole_, spec, mesh_, *pool_);
    const sharding::ShardAxes axes(spec, mesh_);
    const sharding::ShardAxes sums(spec.partial, mesh_);
    for (std::size_t i = 0; i < axes.count(); ++i) {
      const auto at = static_cast<float>(sums.index(axes.coordinates(i)));
      const auto count = static_cast<float>(sums.count());
      value.shards[i] = copy_of(value.shards[i], *pool_);
      for (std::int64_t k = 0; k < value.shards[i].view.count(); ++k) {
        float& x = value.shards[i].as<float>()[k];
        const float others = 3 * (count - 1) * (count - 2) / 2 + (count - 1);  // sum of 3 p + 1 over the earlier terms
        x = at + 1 < count ? 3 * at + 1 : x - others;
      }
    }
    return value;
  }

  Placed step(const Placed& value, const Spec& to) { return run::reshard(value, to, mesh_, *pool_, workers_); }

  void expect_same(const Placed& value, const std::string& what) {
    const Array sum = run::gathered(value, mesh_, *pool_, workers_);
    ASSERT_EQ(0, std::memcmp(sum.view.data, whole_.view.data, static_cast<std::size_t>(whole_.bytes()))) << what;
  }

  void expect_blocks(const Placed& value, const std::string& what) {
    const Placed expected = run::place(whole_, value.spec, mesh_, *pool_);
    for (std::size_t i = 0; i < expected.shards.size(); ++i) {
      ASSERT_EQ(expected.shards[i].view.shape, value.shards[i].view.shape) << what;
      ASSERT_EQ(0, std::memcmp(expected.shards[i].view.data, value.shards[i].view.data,
                               static_cast<std::size_t>(expected.shards[i].bytes())))
          << what;
    }
  }

 private:
  mesh::Mesh mesh_;
  backend::Workers workers_{1};
  std::shared_ptr<run::Pool> pool_ = run::Pool::create();
  Array whole_;
};

// The layout that a collective makes of another one, by its kind alone.
Spec applied(const Spec& from, const ReshardOf& how, const Spec& result) {
  Spec made = from;
  const auto drop_last = [&](int dim) {
    AxisList& list = made.dims[static_cast<std::size_t>(dim)];
    list.erase(list.end() - static_cast<std::ptrdiff_t>(how.axes.size()), list.end());
  };
  const auto append = [&](int dim) {
    AxisList& list = made.dims[static_cast<std::size_t>(dim)];
    list.insert(list.end(), how.axes.begin(), how.axes.end());
  };
  const auto sum = [&] {
    for (const AxisIndex axis : how.axes) erase(made.partial, axis);
  };
  // The axes that a reduce-scatter to several dims puts last in each.
  const auto spread = [&] {
    for (std::size_t dim = 0; dim < made.dims.size(); ++dim) {
      const AxisList& list = result.dims[dim];
      for (std::size_t i = made.dims[dim].size(); i < list.size(); ++i) {
        if (std::find(how.axes.begin(), how.axes.end(), list[i]) != how.axes.end()) made.dims[dim].push_back(list[i]);
      }
    }
  };
  switch (how.kind) {
    case Kind::slice: append(how.to); break;
    case Kind::all_gather: drop_last(how.from); break;
    case Kind::all_to_all: drop_last(how.from); append(how.to); break;
    case Kind::reduce_scatter:
      sum();
      how.to < 0 ? spread() : append(how.to);
      break;
    case Kind::all_reduce: sum(); break;
    case Kind::permute: return result;
  }
  return made;
}

void hold_way(Numbers& numbers, const Placed& start, const std::vector<ReshardStep>& way, const Spec& to, const std::string& what) {
  const mesh::Mesh& mesh = numbers.mesh();
  Placed value = start;
  for (const ReshardStep& step : way) {
    ASSERT_EQ(applied(value.spec, step.how, step.result), step.result) << what << ": " << name_of(step.how.kind);
    if (step.how.kind == Kind::permute) {
      for (std::size_t dim = 0; dim < to.dims.size(); ++dim) {
        ASSERT_EQ(sharding::shards(value.spec.dims[dim], mesh), sharding::shards(step.result.dims[dim], mesh)) << what;
      }
    }
    value = numbers.step(value, step.result);
  }
  ASSERT_EQ(value.spec, to) << what;
  if (to.partial.empty()) numbers.expect_blocks(value, what);
  numbers.expect_same(value, what);
}

void hold_pairs(const std::vector<std::int64_t>& sizes, const Shape& shape) {
  Numbers numbers(mesh_of(sizes), shape);
  const mesh::Mesh& mesh = numbers.mesh();
  for (const Spec& from : all_specs(shape.size(), sizes.size(), true)) {
    const Placed start = numbers.placed(from);
    for (const Spec& to : all_specs(shape.size(), sizes.size(), true)) {
      if (!may_become(from, to)) continue;
      const std::string what = sharding::to_string(from, mesh) + " -> " + sharding::to_string(to, mesh);
      for (const std::vector<ReshardStep>& way : reshard_ways(shape, from, to, mesh)) hold_way(numbers, start, way, to, what);
    }
  }
}

TEST(Reshard, EveryPairOfLayoutsOfRankOne) {
  hold_pairs({8}, {16});
  hold_pairs({2, 4}, {11});
  hold_pairs({2, 2, 2}, {16});
}

TEST(Reshard, EveryPairOfLayoutsOfRankTwo) {
  hold_pairs({8}, {8, 5});
  hold_pairs({2, 4}, {8, 7});
  hold_pairs({2, 2, 2}, {8, 8});
}

TEST(Reshard, EveryPairOfLayoutsOfRankThree) {
  hold_pairs({8}, {8, 3, 2});
  hold_pairs({2, 4}, {4, 3, 8});
  hold_pairs({2, 2, 2}, {4, 2, 3});
}

// Of the first way.
std::vector<Kind> kinds(const Spec& from, const Spec& to, const mesh::Mesh& mesh) {
  std::vector<Kind> kinds;
  const std::vector<std::vector<ReshardStep>> ways = reshard_ways(Shape(from.dims.size(), 64), from, to, mesh);
  for (const ReshardStep& step : ways.front()) kinds.push_back(step.how.kind);
  return kinds;
}

TEST(Reshard, TakesTheOneCollectiveThatDoesIt) {
  const mesh::Mesh mesh = mesh_of({2, 4});
  EXPECT_EQ(kinds({{{0}, {}}, {}}, {{{}, {}}, {}}, mesh), std::vector{Kind::all_gather});
  EXPECT_EQ(kinds({{{0, 1}, {}}, {}}, {{{}, {}}, {}}, mesh), std::vector{Kind::all_gather});
  EXPECT_EQ(kinds({{{}, {}}, {}}, {{{0, 1}, {}}, {}}, mesh), std::vector{Kind::slice});
  EXPECT_EQ(kinds({{{0}, {}}, {}}, {{{}, {0}}, {}}, mesh), std::vector{Kind::all_to_all});
  EXPECT_EQ(kinds({{{}, {}}, {0}}, {{{}, {0}}, {}}, mesh), std::vector{Kind::reduce_scatter});
  EXPECT_EQ(kinds({{{}, {}}, {0, 1}}, {{{}, {}}, {}}, mesh), std::vector{Kind::all_reduce});
  EXPECT_EQ(kinds({{{0, 1}, {}}, {}}, {{{1, 0}, {}}, {}}, mesh), std::vector{Kind::permute});
}

TEST(Reshard, MovesWhileValuesAreSmall) {
  const mesh::Mesh mesh = mesh_of({2, 4});
  // Slices before the gather, reduces before the gather, and permutes instead of gathering more.
  EXPECT_EQ(kinds({{{0}, {}}, {}}, {{{}, {1}}, {}}, mesh), (std::vector{Kind::slice, Kind::all_gather}));
  EXPECT_EQ(kinds({{{0}, {}}, {1}}, {{{}, {}}, {}}, mesh), (std::vector{Kind::all_reduce, Kind::all_gather}));
  EXPECT_EQ(kinds({{{0, 1}, {}}, {}}, {{{1}, {}}, {}}, mesh), (std::vector{Kind::permute, Kind::all_gather}));
}

// On a torus of 4 x 2 chips, the axis of four has links in two directions.
TEST(Reshard, SendsTheMostBytesOverTheFastestLinks) {
  const session::Session session =
      test::session("model_name=llama2-7b compile_topology=v5p-16 ici_fsdp_parallelism=4 ici_tensor_parallelism=2");
  const cost::Network network(session.mesh, session.target);
  const ReshardPrices prices(session.mesh, network);
  const AxisIndex four = *session.mesh.find("fsdp"), two = *session.mesh.find("tensor");
  const auto way = [&](const Spec& from, const Spec& to) {
    std::string words;
    for (const ReshardStep& step : prices.fastest({4096, 4096}, DType::bfloat16, from, to).steps)
      words += fmt::format("{} {}; ", name_of(step.how.kind), sharding::axis_names(step.how.axes, session.mesh));
    return words;
  };
  EXPECT_EQ(way({{{two}, {four}}, {}}, {{{}, {}}, {}}), "all-gather tensor=2; all-gather fsdp=4; ");
  EXPECT_EQ(way({{{four}, {two}}, {}}, {{{}, {}}, {}}), "all-gather tensor=2; all-gather fsdp=4; ");
  EXPECT_EQ(way({{{}, {}}, {two, four}}, {{{two}, {four}}, {}}), "reduce-scatter tensor=2 x fsdp=4; ") << "at once, over the links of both";
  EXPECT_EQ(way({{{}, {}}, {two, four}}, {{{four}, {}}, {}}), "reduce-scatter fsdp=4 x tensor=2; all-gather tensor=2; ");
  EXPECT_EQ(way({{{}, {}}, {two, four}}, {{{}, {}}, {}}), "all-reduce fsdp=4 x tensor=2; ");
}

TEST(Reshard, SaysWhereNoWayLeads) {
  const mesh::Mesh mesh = mesh_of({2});
  EXPECT_EQ(test::message_of([&] { reshard_ways({64}, {{{}}, {}}, {{{}}, {0}}, mesh); }),
            "no collectives lead from one layout to another\n  fix: choose another rule set or mesh, and report this one");
}

}  // namespace
}  // namespace moesh::partition
