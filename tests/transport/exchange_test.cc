// Tests resharding by several owners of a mesh's devices: the bits of the results, and the bytes that are sent.
#include "transport/exchange.h"

#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "backend/element.h"
#include "graph/graph.h"
#include "partition/reshard.h"
#include "run/placed.h"
#include "tests/support.h"

namespace moesh::transport {
namespace {

using graph::ReshardOf;
using sharding::AxisList;
using sharding::OwnedShards;
using sharding::ShardAxes;
using sharding::Spec;

// An endpoint that counts the bytes sent through it.
class Counting : public Endpoint {
 public:
  Counting(std::unique_ptr<Endpoint> end, std::int64_t& bytes) : end_(std::move(end)), bytes_(&bytes) {}
  std::span<std::byte> room(int to, std::int64_t bytes) override {
    *bytes_ += bytes;
    return end_->room(to, bytes);
  }
  void send(int to) override { end_->send(to); }
  std::span<const std::byte> receive(int from) override { return end_->receive(from); }

 private:
  std::unique_ptr<Endpoint> end_;
  std::int64_t* bytes_;
};

// The shards that an owner has of a value.
std::vector<View> owned(const run::Placed& value, const mesh::Owners& owners, int owner) {
  const AxisList axes = sharding::distinct_axes(value.spec);
  const OwnedShards mine(axes, owners.mesh(), owners.devices(owner));
  std::vector<View> views;
  for (std::size_t i = 0; i < mine.count(); ++i) {
    views.push_back(value.shards[ShardAxes(axes, owners.mesh()).index(mine.device(i))].view);
  }
  return views;
}

struct Result {
  std::int64_t moved = 0;  // bytes moved between devices, as the exchanges count them
  std::int64_t sent = 0;   // bytes sent between owners, through the endpoints
};

// Runs a move in which each owner has its own copy of the new shards, and compares all of these with `expected`.
Result hold(const Move& move, bool is_all_reduce, const run::Placed& value, const run::Placed& expected, const mesh::Owners& owners,
            run::Pool& pool) {
  Result result;
  std::vector<Counting> ends;
  for (auto& end : connect_in_turns(owners.count())) ends.emplace_back(std::move(end), result.sent);
  std::vector<std::vector<Exchange>> rounds;
  std::vector<run::Placed> made;
  for (int owner = 0; owner < owners.count(); ++owner) {
    std::vector<Exchange> own;
    if (is_all_reduce) {
      own = Exchange::all_reduce(move, owners, owner);
    } else {
      own.emplace_back(move, owners, owner);
    }
    for (const Exchange& round : own) result.moved += round.moved() * size_of(expected.shards.front().view.dtype);
    rounds.push_back(std::move(own));
    made.push_back(run::unfilled(move.shape, expected.shards.front().view.dtype, move.to, owners.mesh(), pool));
  }
  for (std::size_t r = 0; r < rounds.front().size(); ++r) {
    const auto from = [&](std::size_t o) { return r == 0 ? owned(value, owners, static_cast<int>(o)) : owned(made[o], owners, static_cast<int>(o)); };
    for (std::size_t o = 0; o < rounds.size(); ++o) rounds[o][r].send(from(o), ends[o]);
    for (std::size_t o = 0; o < rounds.size(); ++o) {
      rounds[o][r].run(from(o), owned(made[o], owners, static_cast<int>(o)), nullptr, &ends[o]);
    }
  }
  for (int owner = 0; owner < owners.count(); ++owner) {
    const std::vector<View> views = owned(made[static_cast<std::size_t>(owner)], owners, owner), wanted = owned(expected, owners, owner);
    for (std::size_t i = 0; i < views.size(); ++i) {
      EXPECT_EQ(std::memcmp(views[i].data, wanted[i].data, static_cast<std::size_t>(views[i].count() * size_of(views[i].dtype))), 0);
    }
  }
  return result;
}

class Layouts {
 public:
  explicit Layouts(unsigned seed) : random_(seed) {
    for (std::int64_t a = 0; a < 3; ++a) axes_.push_back({std::string(1, static_cast<char>('x' + a)), draw(2) + 1, 1});
  }
  std::int64_t draw(std::int64_t below) { return static_cast<std::int64_t>(random_() % static_cast<unsigned>(below)); }
  mesh::Mesh mesh() const { return mesh::Mesh(axes_); }

  // Each axis above 1 shards a dim, makes a partial sum, or does nothing.
  Spec spec(bool may_be_partial) {
    Spec made{{{}, {}}, {}};
    for (const sharding::AxisIndex axis : {sharding::AxisIndex{2}, sharding::AxisIndex{0}, sharding::AxisIndex{1}}) {
      if (axes_[axis].size() == 1) continue;
      const std::int64_t choice = draw(4);
      if (choice < 2) made.dims[static_cast<std::size_t>(choice)].push_back(axis);
      if (choice == 2 && may_be_partial) made.partial.push_back(axis);
    }
    std::sort(made.partial.begin(), made.partial.end());
    return made;
  }
  std::vector<int> owners(int count) {
    const auto devices = static_cast<int>(mesh().devices());
    std::vector<int> of;
    for (int i = 0; i < devices; ++i) of.push_back(i % std::min(count, devices));
    std::shuffle(of.begin(), of.end(), random_);
    return of;
  }

 private:
  std::mt19937 random_;
  std::vector<mesh::Axis> axes_;
};

// The bytes of all blocks that the devices hold.
std::int64_t held(const Shape& shape, DType dtype, const Spec& spec, const mesh::Mesh& mesh) {
  std::int64_t sum = 0;
  for (std::int64_t d = 0; d < mesh.devices(); ++d) {
    sum += elements(shape_of(block_of(shape, spec, mesh, mesh.coordinates_of(d)))) * size_of(dtype);
  }
  return sum;
}

bool is_even(const Shape& shape, const Spec& spec, const mesh::Mesh& mesh) {
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim] % sharding::shards(spec.dims[dim], mesh) != 0) return false;
  }
  return true;
}

// The bytes that the usual algorithms move: in a gather, devices get what they lack; in a sum, they send all but the piece that they keep.
// There is no figure for uneven blocks, because blocks over two axes do not lie within those over one of them, so that more is moved.
std::optional<std::int64_t> expected_bytes(const Move& move, const ReshardOf& how, DType dtype, const mesh::Mesh& mesh) {
  if (!is_even(move.shape, move.from, mesh) || !is_even(move.shape, move.to, mesh)) return std::nullopt;
  const std::int64_t members = sharding::shards(how.axes, mesh), from = held(move.shape, dtype, move.from, mesh);
  switch (how.kind) {
    case ReshardOf::Kind::slice: return 0;
    case ReshardOf::Kind::all_gather: return held(move.shape, dtype, move.to, mesh) - from;
    case ReshardOf::Kind::reduce_scatter: return from - held(move.shape, dtype, move.to, mesh);
    case ReshardOf::Kind::all_reduce: return 2 * (from / members * (members - 1));
    default: return std::nullopt;  // what stays depends on which blocks overlap
  }
}

// Every step from one layout to another, by different numbers of owners, from a single one to one per device.
TEST(ExchangeOverOwners, HasTheBitsOfOneOwnerAndMovesWhatThePlanSays) {
  const auto pool = run::Pool::create();
  backend::Workers workers(2);
  std::int64_t steps = 0, counted = 0, all_to_alls = 0;
  for (unsigned seed = 0; seed < 250; ++seed) {
    Layouts layouts(seed);
    const mesh::Mesh mesh = layouts.mesh();
    const Spec from = layouts.spec(true), to = layouts.spec(false);
    const Shape shape{1 + layouts.draw(9), 1 + layouts.draw(9)};
    const DType dtype = seed % 3 == 0 ? DType::bfloat16 : seed % 3 == 1 ? DType::float32 : DType::float64;
    run::Placed value = run::unfilled(shape, dtype, from, mesh, *pool);
    for (const run::Array& shard : value.shards) {
      backend::for_floating(dtype, [&]<typename T>() {
        for (std::int64_t i = 0; i < shard.view.count(); ++i) shard.as<T>()[i] = backend::store<T>(static_cast<double>(layouts.draw(2000) - 1000) / 7);
      });
    }
    const std::vector<std::vector<partition::ReshardStep>> ways = partition::reshard_ways(shape, from, to, mesh);
    for (const partition::ReshardStep& step : ways.front()) {
      const Move move{shape, value.spec, step.result};
      const run::Placed expected = run::reshard(value, step.result, mesh, *pool, workers);
      const bool is_all_reduce = step.how.kind == ReshardOf::Kind::all_reduce;
      for (const int count : {1, 2, 3, static_cast<int>(mesh.devices())}) {
        const mesh::Owners owners(mesh, layouts.owners(count));
        const Result made = hold(move, is_all_reduce, value, expected, owners, *pool);
        if (const auto bytes = expected_bytes(move, step.how, dtype, mesh)) {
          ++counted;
          EXPECT_EQ(made.moved, *bytes) << seed << ": " << name_of(step.how.kind) << " of " << to_string(shape) << " from "
                                        << sharding::to_string(move.from, mesh) << " to " << sharding::to_string(move.to, mesh);
        }
        if (owners.count() == 1) { EXPECT_EQ(made.sent, 0); }
        if (owners.count() == mesh.devices()) { EXPECT_EQ(made.sent, made.moved) << seed; }
        EXPECT_LE(made.sent, made.moved);
      }
      value = expected;
      ++steps;
      all_to_alls += step.how.kind == ReshardOf::Kind::all_to_all ? 1 : 0;
    }
  }
  EXPECT_GT(steps, 200);
  EXPECT_GT(counted, 200);
  EXPECT_GT(all_to_alls, 10);
}

}  // namespace
}  // namespace moesh::transport
