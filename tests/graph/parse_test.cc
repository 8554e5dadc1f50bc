// A printed graph is read back unchanged, and text that is not a graph is refused with the number of the line.
#include "graph/parse.h"

#include <string>

#include <gtest/gtest.h>

#include "graph/print.h"
#include "tests/support.h"
#include "train/program.h"

namespace moesh::graph {
namespace {

std::string again(const std::string& text) {
  const ParsedGraph parsed = parse_graph(text);
  return to_text(parsed.graph, parsed.mesh ? &*parsed.mesh : nullptr);
}

// Covers every kind of model: its graph, and the program of a training step on a mesh.
class Printed : public ::testing::TestWithParam<const char*> {};

TEST_P(Printed, GraphsAreReadBack) {
  const session::Session session =
      moesh::test::session(std::string("override_model_config=true base_num_decoder_layers=2 compile_topology=v5p-16 ") + GetParam());
  const std::string model = to_text(session.graph);
  EXPECT_EQ(again(model), model);
  const train::StepProgram step =
      train::step_program(session.graph, session.loaded.settings, {session.layout, session.target});
  const std::string text = to_text(step.graph, &step.mesh);
  EXPECT_EQ(again(text), text);
}

INSTANTIATE_TEST_SUITE_P(
    Of, Printed,
    ::testing::Values("model_name=llama2-7b ici_fsdp_parallelism=4 ici_tensor_parallelism=2",
                      "model_name=mixtral-8x7b ici_expert_parallelism=4 ici_fsdp_parallelism=2",
                      "model_name=mixtral-8x7b ici_expert_parallelism=4 ici_fsdp_parallelism=2 sparse_matmul=false "
                      "capacity_factor=1.25 opt_type=muon",
                      "model_name=deepseek3-tiny first_num_dense_layers=1 ici_expert_parallelism=4 ici_fsdp_parallelism=2 "
                      "use_ring_of_experts=true num_moe_token_chunks=2 gradient_accumulation_steps=2",
                      "model_name=gpt-oss-20b ici_expert_parallelism=4 ici_fsdp_parallelism=2 ragged_buffer_factor=2",
                      "model_name=qwen3-30b-a3b ici_expert_parallelism=4 ici_fsdp_parallelism=2 opt_type=sgd remat_policy=minimal"));

TEST(Parse, ReadsWhatAPersonWrites) {
  const std::string text =
      "mesh {fsdp=2 expert=2x4}\n"
      "%0: float32[4, 8] as [(fsdp), -] = input labels=(batch, -) kind=batch  # x\n"
      "%3: float32[8, 6] = parameter labels=(embed, -) starts={kind=zeros fan_in=8} role=router_kernel  # w\n"
      "%2: float32[4, 6] as [(fsdp), -]+sum(expert) = einsum %0, %3 equation=\"bm,mn->bn\" tag mlpwo  # y\n"
      "%7: float32[4, 6] as [(fsdp), -] = reshard %2 kind=all-reduce axes=(expert) phase backward  # y\n"
      "return %7 as out\n";
  const ParsedGraph parsed = parse_graph(text);
  ASSERT_TRUE(parsed.mesh.has_value());
  EXPECT_EQ(parsed.mesh->devices(), 16);
  ASSERT_EQ(parsed.graph.nodes.size(), 4u);
  EXPECT_EQ(parsed.graph.nodes[2].tag, "mlpwo");
  EXPECT_EQ(std::get<ParameterOf>(parsed.graph.nodes[1].attributes).initializer.kind, Initializer::Kind::zeros);
  EXPECT_TRUE(is_input(parsed.graph.nodes[0], InputOf::Kind::batch));
  EXPECT_EQ(std::get<ParameterOf>(parsed.graph.nodes[1].attributes).role, Role::router_kernel);
  EXPECT_EQ(parsed.graph.nodes[2].phase, Phase::forward);
  EXPECT_EQ(parsed.graph.nodes[3].phase, Phase::backward);
  EXPECT_EQ(parsed.graph.result_names, (std::vector<std::string>{"out"}));
  EXPECT_EQ(parsed.graph.value(2).spec.partial, (sharding::AxisList{1}));
}

// Inside a region, `own` lists the axes along which devices have values of their own. These are not partial sums.
TEST(Parse, TellsValuesOfDevicesOwnFromSums) {
  const std::string text =
      "mesh {fsdp=2}\n"
      "%0: float32[4] as [(fsdp)] = input  # x\n"
      "%1: float32[2] as [-]+sum(fsdp) = region %0 strategy=ring mesh={fsdp=2} operands={[(fsdp)]} results={[-]+sum(fsdp)}  # r\n"
      "  %0: float32[2] as [-]+own(fsdp) = input  # r/operand0\n"
      "  return %0\n"
      "return %1\n";
  const Graph graph = parse_graph(text).graph;
  EXPECT_EQ(again(text), text);
  EXPECT_EQ(graph.value(1).spec, (sharding::Spec{{{}}, {0}, {}}));
  EXPECT_EQ(body_of(graph.nodes[1])->value(0).spec, (sharding::Spec{{{}}, {}, {0}}));
}

std::string parse_refusal(const std::string& text) { return test::message_of([&] { parse_graph(text); }); }

TEST(Parse, SaysWhatIsWrongAndWhere) {
  const std::string x = "%0: float32[4, 8] = input  # x\n";
  EXPECT_EQ(parse_refusal(x), "line 2 of the graph: '%' was expected, not the line's end");
  EXPECT_EQ(parse_refusal(x + "%1: float32[4, 8] = scatter %0  # y\nreturn %1\n"),
            "line 2 of the graph: an op was expected, not 'scatter %0  # y'");
  EXPECT_EQ(parse_refusal(x + "%0: float32[4, 8] = cast %0  # y\nreturn %0\n"),
            "line 2 of the graph: a value's new number was expected, not '%0: float32[4, 8] = cast %0  # y'");
  EXPECT_EQ(parse_refusal(x + "%1: float32[4, 8] = cast %2  # y\nreturn %1\n"),
            "line 2 of the graph: a value that stands before was expected, not '%2  # y'");
  EXPECT_EQ(parse_refusal(x + "%1: float16[4, 8] = cast %0  # y\nreturn %1\n"),
            "line 2 of the graph: a type was expected, not 'float16[4, 8] = cast %0  # y'");
  EXPECT_EQ(parse_refusal(x + "%1: float32[4, 8] = unary %0 function=sine  # y\nreturn %1\n"),
            "line 2 of the graph: one of silu, sigmoid, gelu, relu, tanh, exp, softplus, identity, scale, offset, clamp, sqrt, rsqrt, minimum, finite was expected, "
            "not 'sine  # y'");
  EXPECT_EQ(parse_refusal(x + "%1: float32[4, 8] = unary %0 function=silu phase sideways  # y\nreturn %1\n"),
            "line 2 of the graph: one of forward, backward, update was expected, not 'sideways  # y'");
  EXPECT_EQ(parse_refusal(x + "%1: float32[4, 9] = unary %0 function=silu  # y\nreturn %1\n"),
            "line 2 of the graph: silu does not fit its operands and results");
  EXPECT_EQ(parse_refusal(x + "%1: float32[4, 8] = cast %0, %0  # y\nreturn %1\n"),
            "line 2 of the graph: cast does not fit its operands and results");
  EXPECT_EQ(parse_refusal(x + "%1: float32[4, 8] = cast %0 depth=3  # y\nreturn %1\n"),
            "line 2 of the graph: '#' was expected, not 'depth=3  # y'");
  for (const std::string equation : {"ab->ac,bc", "aa,ab->ab", "ab,bb->ab", "ab,ba->aa", "ab,ba->ac", "abba->ab", "ab,baab", "a1,1b->ab"}) {
    EXPECT_EQ(
        parse_refusal("%0: float32[4, 4] = input  # x\n%1: float32[4, 4] = einsum %0, %0 equation=\"" + equation + "\"  # y\nreturn %1\n"),
        "line 2 of the graph: " + equation + " does not fit its operands and results");
  }
  for (const std::string part : {"part_dim=2 part_size=2", "part_dim=-1 part_size=2", "part_begin=3 part_size=2", "part_begin=-1 part_size=2",
                                 "part_size=-2", "part_begin=1", "part_dim=1"}) {
    EXPECT_EQ(parse_refusal("%0: float32[4, 4] = input  # x\n%1: float32[4, 4] = einsum %0, %0 equation=\"ab,bc->ac\" " + part + "  # y\nreturn %1\n"),
              "line 2 of the graph: ab,bc->ac of a part that the second operand has does not fit its operands and results");
  }
  EXPECT_EQ(parse_refusal(x + "return %0 and\n"), "line 2 of the graph: the line's end was expected, not 'and'");
  EXPECT_EQ(parse_refusal(x + "return %0, %0 as out\n"), "line 2 of the graph: names for the first results only was expected, not 'out'");
  EXPECT_EQ(parse_refusal(x + "return %0\nmore\n"), "line 3 of the graph: nothing behind the graph's return was expected, not 'more'");
}

// A step of a chain reads values that exist before it, in their type. Each result is the value of a different step.
TEST(Parse, RefusesChainsThatCannotBe) {
  const std::string x = "%0: float32[4] = input labels=(-)  # x\n";
  const std::string silu = "{kind=unary dtype=float32 operands=[0]}", sum = "{kind=binary binary={function=add} dtype=float32 operands=[1, 0]}";
  const auto chain = [&](const std::string& results, const std::string& of) {
    return x + results + " = chain %0 " + of + "  # y\nreturn %1\n";
  };
  const std::string one = "%1: float32[4]", two = "%1: float32[4], %2: float32[4]";
  EXPECT_EQ(parse_refusal(chain(one, "steps=[" + silu + ", " + sum + "]")), "no error");
  EXPECT_EQ(parse_refusal(chain(two, "steps=[" + silu + ", " + sum + "] results=[1, 0]")), "no error");
  for (const std::string& wrong :
       {chain(one, "steps=[]"), chain(one, "steps=[" + sum + "]"), chain(one, "steps=[{kind=unary dtype=float32 operands=[0, 0]}]"),
        chain(one, "steps=[{kind=unary dtype=float32 operands=[-1]}]"), chain(one, "steps=[{kind=unary dtype=bfloat16 operands=[0]}]"),
        chain(one, "steps=[{kind=cast dtype=int32 operands=[0]}]"), chain(one, "steps=[{kind=cast dtype=bfloat16 operands=[0]}]"),
        chain("%1: float32[5]", "steps=[" + silu + "]"), chain(two, "steps=[" + silu + ", " + sum + "]"),
        chain(one, "steps=[" + silu + "] results=[1]"), chain(one, "steps=[" + silu + "] results=[-1]"),
        chain(two, "steps=[" + silu + ", " + sum + "] results=[1]"), chain(two, "steps=[" + silu + ", " + sum + "] results=[1, 1]"),
        chain("%1: float32[4], %2: float32[5]", "steps=[" + silu + ", " + sum + "] results=[1, 0]"),
        chain("%1: float32[4], %2: bfloat16[4]", "steps=[" + silu + ", " + sum + "] results=[1, 0]")}) {
    EXPECT_TRUE(parse_refusal(wrong).starts_with("line 2 of the graph: ")) << wrong << parse_refusal(wrong);
  }
}

TEST(Parse, RefusesCastsThatHaveNoKernels) {
  const auto cast = [](const std::string& from, const std::string& to) {
    return parse_refusal("%0: " + from + "[4] = input  # x\n%1: " + to + "[4] = cast %0  # y\nreturn %1\n");
  };
  EXPECT_EQ(cast("int32", "float32"), "no error");
  EXPECT_EQ(cast("float64", "bfloat16"), "no error");
  for (const auto& [from, to] : {std::pair("float32", "int32"), {"float32", "bool"}, {"bool", "float32"}, {"int32", "bool"}})
    EXPECT_EQ(cast(from, to), "line 2 of the graph: a cast to floats does not fit its operands and results") << from << " to " << to;
}

TEST(Parse, RefusesSizesAndPlacesThatCannotBe) {
  EXPECT_EQ(parse_refusal("%0: float32[4] as [(fsdp)] = input  # x\nreturn %0\n"),
            "line 1 of the graph: an axis of the mesh was expected, not 'fsdp)] = input  # x'");
  EXPECT_EQ(parse_refusal("mesh {fsdp=0}\nreturn\n"), "line 1 of the graph: an axis' size from 1 to 2^20 before this was expected, not '}'");
  EXPECT_EQ(parse_refusal("mesh {fsdp=2x3x4}\nreturn\n"),
            "line 1 of the graph: an axis' size, or its size between slices x its size within one, before this was expected, not '}'");
  EXPECT_EQ(parse_refusal("%0: float32[1099511627777] = input  # x\nreturn %0\n"),
            "line 1 of the graph: a size up to 2^40 before this was expected, not '] = input  # x'");
  EXPECT_EQ(parse_refusal("%0: float32[99999999, 99999999] = input  # x\nreturn %0\n"),
            "line 1 of the graph: at most 1e15 elements before this was expected, not '] = input  # x'");
  EXPECT_EQ(parse_refusal("%9999999999: float32[1] = input  # x\nreturn %0\n"),
            "line 1 of the graph: a value's number below 1e9 was expected, not ': float32[1] = input  # x'");
  EXPECT_EQ(parse_refusal("%0: float32[4] = region strategy=ring  # x\nreturn\n"),
            "line 1 of the graph: a region's mesh before this was expected, not the line's end");
  EXPECT_EQ(parse_refusal("%0: float32[4] = repeat sizes=[2] saved=[3]  # x\nreturn\nreturn\n"),
            "line 1 of the graph: saved values of the body before this was expected, not the line's end");
  EXPECT_EQ(parse_refusal("mesh {fsdp=2}\n%0: float32[4, 4] as [-] = input  # x\nreturn %0\n"),
            "line 2 of the graph: axes for each dim before this was expected, not '= input  # x'");
}

}  // namespace
}  // namespace moesh::graph
