#include "partition/stack_first.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "graph/parse.h"
#include "graph/print.h"
#include "tests/support.h"
#include "tests/train/trainer_support.h"

namespace moesh::partition {
namespace {

std::string stacked_first(const std::string& text) { return graph::to_text(stack_first(graph::parse_graph(text).graph)); }

// Two layers of a weight [3, layers, 5], and its update.
std::string step(const std::string& weight, const std::string& slice) {
  return "%0: float32[3] = input labels=(-)  # x\n"
         "%1: float32" + weight + " = parameter labels=(-, layers, -)" + slice + "  # w\n"
         "%2: float32[4] = input labels=(-)  # numbers\n"
         "%3: float32[3] = repeat %0, %1 sizes=[2] labels=(layers) carried=1 slices=[" + (slice.empty() ? "1" : "0") + "]  # layers\n"
         "  %0: float32[3] = input labels=(-)  # x\n"
         "  %1: float32[3, 5] = input labels=(-, -)  # w\n"
         "  %2: float32[3] = reduce %1 function=sum dims=[1]  # sum\n"
         "  %3: float32[3] = binary %0, %2 function=add  # add\n"
         "  return %3\n"
         "%4: float32" + weight + " = sgd_update %1, %1, %2  # w/sgd\n"
         "return %3 as y, %4 as w\n";
}

TEST(StackFirst, PutsTheLayersOfAWeightInFront) { EXPECT_EQ(stacked_first(step("[3, 2, 5]", "")), step("[2, 3, 5]", " first=1")); }

// The scores of two layers of heads.
TEST(StackFirst, TellsAClipWhereLayersAndHeadsAre) {
  const auto text = [](const std::string& weight, const std::string& slice, const std::string& dims) {
    std::string clipped = step(weight, slice);
    const std::string update = "%4: float32" + weight + " = sgd_update %1, %1, %2  # w/sgd\n";
    clipped.replace(clipped.find(update), std::string::npos,
                    "%4: float32[2, 1] = fill value=3  # scores\n"
                    "%5: float32" + weight + " = clip_update %1, %4, %2 dims=" + dims + " halved=2  # w/clip\nreturn %3 as y, %5 as w\n");
    return clipped;
  };
  const auto of_heads = [&](const std::string& weight, const std::string& slice, const std::string& dims) {
    std::string four = text(weight, slice, dims);
    for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
             {"labels=(-, layers, -)", "labels=(-, layers, -, -)"}, {"float32[3, 5] = input labels=(-, -)", "float32[3, 1, 5] = input labels=(-, -, -)"},
             {"dims=[1]", "dims=[1, 2]"}}) {
      if (four.find(from) != std::string::npos) four.replace(four.find(from), from.size(), to);
    }
    return four;
  };
  EXPECT_EQ(stacked_first(of_heads("[3, 2, 1, 5]", "", "[1, 2]")), of_heads("[2, 3, 1, 5]", " first=1", "[0, 2]"));
}

TEST(StackFirst, LeavesWhatSomethingElseReads) {
  std::string text = step("[3, 2, 5]", "");
  text.insert(text.find("return %3 as y"), "%5: float32[3, 2] = reduce %4 function=sum dims=[2]  # sum\n");
  text.replace(text.find("return %3 as y"), std::string::npos, "return %3 as y, %4 as w, %5 as sum\n");
  EXPECT_EQ(stacked_first(text), text);
}

bool copies_slices(const plan::Plan& plan) {
  return std::any_of(plan.views.begin(), plan.views.end(), [](const plan::View& view) { return !view.is_dense(); });
}

TEST(StackFirst, LeavesNoSliceThatIsNotDense) {
  for (const char* more : {"", "dtype=bfloat16", "gradient_accumulation_steps=2", "opt_type=sgd", "remat_policy=minimal",
                           "compile_topology=cpu-4 ici_fsdp_parallelism=4", "compile_topology=cpu-4 ici_fsdp_parallelism=2 ici_tensor_parallelism=2 base_num_kv_heads=2"}) {
    for (const std::string& model : {test::kTinyModel, test::kTinyMixtral, test::kTinyMixtral + "sparse_matmul=false num_experts=4 "}) {
      const session::Session session = test::session(model + "vocab_size=24 " + more);
      const plan::Plan plan = train::step_program(session.graph, session.loaded.settings, {session.layout, session.target}).plan;
      EXPECT_FALSE(copies_slices(plan)) << model << more;
      const auto scale = std::find_if(plan.ports.begin(), plan.ports.end(), [](const plan::Port& port) {
        return port.kind == plan::Port::Kind::state && port.name == "decoder/layers/pre_self_attention_layer_norm/scale";
      });
      ASSERT_NE(scale, plan.ports.end());
      EXPECT_EQ(scale->first, 1) << more;
      EXPECT_EQ(plan.view(scale->view).shape, (Shape{2, 12})) << more;
    }
  }
}

TEST(StackFirst, IsNotSeenByWhoSetsAndReadsAParameter) {
  for (const char* more : {"", "compile_topology=cpu-4 ici_fsdp_parallelism=4"}) {
    test::Training training(test::kTinyModel + more);
    const std::string path = "decoder/layers/mlp/wi_0/kernel";
    const run::Array before = training.trainer.parameter(path);
    EXPECT_EQ(before.view.shape, (Shape{12, 2, 20}));
    training.trainer.set_parameter(path, before);
    EXPECT_EQ(test::numbers_of(training.trainer.parameter(path)), test::numbers_of(before));
  }
}

}  // namespace
}  // namespace moesh::partition
