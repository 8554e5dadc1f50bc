// How programs are run: what each value is held for, what is given, what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/region.h"
#include "run/executor.h"
#include "tests/support.h"

namespace moesh::run {
namespace {

TEST(Executor, SaysThatStagesAreNotRun) {
  graph::Builder builder;
  const graph::Tensor x = graph::fill(builder, 1, {4}, DType::float32);
  builder.mark_result(builder.add_one(graph::Op::stage_state, "state", {x}, graph::StageStateOf{}, {4}, DType::float32));
  const graph::Graph graph = builder.take();
  Workers workers(1);
  Executor executor(workers, Pool::create());
  EXPECT_EQ(test::message_of([&] { executor.run(graph, std::vector<Placed>{}); }),
            "state: pipeline stages are laid out but not run yet\n  fix: ici_pipeline_parallelism=1");
}

// Two programs, one after the other at the same address: the first needs its input only once, the second to the end.
TEST(Executor, TakesAProgramForWhatItIsAndNotForWhereItLies) {
  const auto doubled = [](bool adds_input) {
    graph::Builder builder;
    const graph::Tensor x = builder.input("x", {2}, DType::float32, {""});
    graph::Tensor y = graph::scale(x, 2);
    y = graph::scale(y, 3);
    builder.mark_result(adds_input ? graph::add(y, x) : y);
    return builder.take();
  };
  Workers workers(1);
  const auto pool = Pool::create();
  Executor executor(workers, pool);
  const auto made = [&](const graph::Graph& graph) {
    const Array x = pool->allocate({2}, DType::float32);
    x.as<float>()[0] = 1;
    x.as<float>()[1] = 5;
    const Array y = executor.run(graph, std::vector<Array>{x}).front();
    return std::vector<float>(y.as<float>(), y.as<float>() + 2);
  };
  graph::Graph graph = doubled(false);
  EXPECT_EQ(made(graph), (std::vector<float>{6, 30}));
  graph = doubled(true);
  EXPECT_EQ(made(graph), (std::vector<float>{7, 35}));
}

TEST(Executor, ChecksWhatItIsGiven) {
  graph::Builder builder;
  builder.mark_result(graph::scale(builder.input("x", {2}, DType::float32, {""}), 2));
  const graph::Graph graph = builder.take();
  Workers workers(1);
  const auto pool = Pool::create();
  const auto message = [&](std::vector<Array> feeds) {
    return test::message_of([&] { Executor(workers, pool).run(graph, std::move(feeds)); });
  };
  const Array fits = pool->allocate({2}, DType::float32);
  EXPECT_EQ(message({fits}), "no error");
  EXPECT_EQ(message({}), "x: a program is run without a value for this");
  EXPECT_EQ(message({fits, fits}), "2 values for a program that takes 1");
  EXPECT_EQ(message({pool->allocate({3}, DType::float32)}), "x: a program takes float32 [2], it is given float32 [3]");
  EXPECT_EQ(message({pool->allocate({2}, DType::bfloat16)}), "x: a program takes float32 [2], it is given bfloat16 [2]");
}

// Written for a group, but not split: a kernel would have to reach into the memory of other devices.
TEST(Executor, RunsNoKernelOverSeveralDevices) {
  graph::Builder builder = graph::Builder::of_region("body");
  const graph::Tensor x = builder.shard_input("x", {2, 3}, DType::float32, {0});
  const graph::Tensor order = builder.shard_input("order", {2}, DType::int32, {0});
  const graph::Tensor sizes = builder.shard_input("sizes", {1}, DType::int32, {0});
  const mesh::Mesh mesh({{"x", 4, 1}});
  builder.mark_result(graph::fetch_rows(x, {order, sizes, {}}, graph::group_of({0}, mesh)));
  const graph::Graph graph = builder.take();
  Workers workers(1);
  const auto pool = Pool::create();
  std::vector<Placed> feeds;
  for (const graph::Node& node : graph.nodes) {
    const graph::Value& value = graph.value(node.results[0]);
    if (graph::is_root(node)) feeds.push_back(unfilled(value.shape, value.dtype, value.spec, mesh, *pool));
  }
  EXPECT_EQ(test::message_of([&] { Executor(workers, pool, mesh).run(graph, std::move(feeds)); }),
            "body/fetch: fetch_rows over 4 devices runs as collectives and kernels of one device each\n"
            "  fix: partition the graph first");
}

// What looks on is gone when the run is over, however it ends.
TEST(Executor, TellsOnlyTheObserversOfTheRun) {
  graph::Builder builder;
  const graph::Tensor x = graph::scale(builder.input("x", {2}, DType::float32, {""}), 2);
  builder.mark_result(x);
  builder.mark_result(builder.add_one(graph::Op::stage_state, "state", {x}, graph::StageStateOf{}, {2}, DType::float32));
  const graph::Graph graph = builder.take();
  Workers workers(1);
  const auto pool = Pool::create();
  Executor executor(workers, pool);
  int seen = 0;
  const auto run = [&](const Observers& observers) {
    std::vector<Placed> feeds{{{2}, {{{}}, {}}, {pool->allocate({2}, DType::float32)}}};
    return test::message_of([&] { executor.run(graph, std::move(feeds), observers); });
  };
  EXPECT_NE(run({[&](const graph::Node&, const std::vector<Placed>&) { ++seen; }}), "no error");
  EXPECT_EQ(seen, 1);
  EXPECT_NE(run({}), "no error");
  EXPECT_EQ(seen, 1);
}

// A cache of one row, four slots and one number each, of which the third is written.
struct CacheRun {
  Workers workers{1};
  std::shared_ptr<Pool> pool = Pool::create();
  graph::Graph graph;

  CacheRun() {
    graph::Builder builder;
    const graph::Tensor cache = builder.state("cache", {1, 4, 1}, DType::float32, Labels(3));
    const graph::Tensor rows = builder.input("rows", {1, 1, 1}, DType::float32, Labels(3));
    const graph::Tensor slots = builder.input("slots", {1, 1}, DType::int32, Labels(2));
    builder.keep(cache, graph::cache_write(cache, rows, slots));
    graph = builder.take();
  }
  Array cache() const {
    Array made = pool->allocate({1, 4, 1}, DType::float32);
    std::fill_n(made.as<float>(), 4, 1.0f);
    return made;
  }
  Array run(Array cache) {
    std::vector<Array> feeds{std::move(cache), pool->allocate({1, 1, 1}, DType::float32), pool->allocate({1, 1}, DType::int32)};
    feeds[1].as<float>()[0] = 5;
    feeds[2].as<std::int32_t>()[0] = 2;
    return Executor(workers, pool).run(graph, std::move(feeds)).front();
  }
};

TEST(Executor, WritesIntoACacheThatNobodyElseHolds) {
  CacheRun cache_run;
  Array cache = cache_run.cache();
  const void* buffer = cache.view.data;
  const Array made = cache_run.run(std::move(cache));
  EXPECT_EQ(made.view.data, buffer);
  EXPECT_THAT(std::vector<float>(made.as<float>(), made.as<float>() + 4), ::testing::ElementsAre(1, 1, 5, 1));
}

TEST(Executor, LeavesACacheAloneThatSomebodyHolds) {
  CacheRun cache_run;
  const Array cache = cache_run.cache();
  const Array made = cache_run.run(cache);
  EXPECT_THAT(std::vector<float>(cache.as<float>(), cache.as<float>() + 4), ::testing::ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(std::vector<float>(made.as<float>(), made.as<float>() + 4), ::testing::ElementsAre(1, 1, 5, 1));
}

}  // namespace
}  // namespace moesh::run
