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

}  // namespace
}  // namespace moesh::run
