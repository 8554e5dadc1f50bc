// What the executor does not run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "run/executor.h"
#include "tests/support.h"

namespace moesh::run {
namespace {

TEST(Executor, SaysThatStagesAreNotRun) {
  graph::Builder builder;
  builder.mark_result(builder.add_one(graph::Op::stage_state, "state", {}, graph::StageStateOf{}, {4}, DType::float32));
  const graph::Graph graph = builder.take();
  Workers workers(1);
  Executor executor(workers, Pool::create());
  EXPECT_EQ(test::message_of([&] { executor.run(graph, std::vector<Placed>{}); }),
            "state: pipeline stages are laid out but not run yet\n  fix: ici_pipeline_parallelism=1");
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
