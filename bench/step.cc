// Measures the overhead of running a plan, besides its kernels, which are empty here. Each instruction passes the pool's barrier once,
// and views advance with every iteration of a loop. Runs on 1 to 64 devices separate the cost of an instruction from that of each
// further launch. In an iteration, one instruction reads a slice of a stacked value, and the others read the result of the one before.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include <fmt/core.h>

#include "backend/backend.h"
#include "base/table.h"
#include "errors.h"
#include "graph/builder.h"
#include "plan/lower.h"
#include "run/program.h"

namespace moesh {
namespace {

constexpr std::int64_t kIterations = 500;
constexpr int kInstructions = 8;  // per iteration
constexpr std::int64_t kWidth = 64;
constexpr int kRounds = 15;

// With several devices the launches themselves pass the pool's barrier, so the kernel is empty; with one device the kernel does.
void empty(const backend::KernelCall&) {}
void barrier(const backend::KernelCall& call) {
  call.workers.parallel(call.workers.threads(), 1, [](std::int64_t, std::int64_t) {});
}
constexpr backend::Backend kEmpty{"empty", [](graph::Op) -> backend::Kernel { return empty; }};
constexpr backend::Backend kBarrier{"barrier", [](graph::Op) -> backend::Kernel { return barrier; }};

// Shards the last dim but one of every value over all devices.
void lay_out(graph::Graph& graph) {
  for (graph::Value& value : graph.values) {
    value.spec = sharding::Spec{};
    value.spec.dims.resize(value.shape.size());
    value.spec.dims[value.shape.size() - 2] = {0};
  }
  for (graph::Node& node : graph.nodes) {
    if (auto* of = std::get_if<graph::RepeatOf>(&node.attributes)) {
      auto body = std::make_shared<graph::Graph>(*of->body);
      lay_out(*body);
      of->body = body;
    }
  }
}

plan::Plan looping(std::int64_t devices) {
  using graph::Tensor;
  graph::Builder builder;
  const Tensor x = builder.input("x", {devices, kWidth}, DType::float32, {"", ""});
  const Tensor w = builder.input("w", {kIterations, devices, kWidth}, DType::float32, {"", "", ""});
  const graph::Stack stack{"layers", {kIterations}, {""}, 0};
  const auto body = [&](graph::Builder& inner, const std::vector<Tensor>& carried, const std::vector<Tensor>&) {
    Tensor made = graph::add(carried[0], inner.slice_of(w, 1));
    for (int i = 1; i < kInstructions; ++i) made = graph::add(made, carried[0]);
    return std::vector<Tensor>{made};
  };
  builder.mark_result(graph::repeat(builder, stack, {x}, {}, {body})[0], "y");
  graph::Graph graph = builder.take();
  lay_out(graph);
  return plan::lower(graph, mesh::Mesh({{"data", devices, 1}}));
}

double seconds_of(run::Program& program) {
  std::vector<double> seconds;
  for (int round = 0; round < kRounds + 2; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    program.run();
    if (round >= 2) seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

int measure() {
  backend::Workers workers(0);
  Table table({{"devices", true}, {"instructions", true}, {"us an instruction", true}, {"ns more for each further launch", true}});
  double alone = 0;
  for (const std::int64_t devices : {1, 2, 8, 64}) {
    run::Program program(looping(devices), std::make_shared<run::State>(), workers, {.backend = devices == 1 ? kBarrier : kEmpty});
    const auto kernels = std::count_if(program.plan().instructions.begin(), program.plan().instructions.end(), [](const auto& of) {
      return of.kind == plan::Instruction::Kind::kernel || of.kind == plan::Instruction::Kind::copy;
    });
    const double each = seconds_of(program) / static_cast<double>(kernels * kIterations);
    if (devices == 1) alone = each;
    table.add({fmt::format("{}", devices), fmt::format("{}", kernels), fmt::format("{:.3f}", each * 1e6),
               devices == 1 ? "" : fmt::format("{:.0f}", (each - alone) / static_cast<double>(devices - 1) * 1e9)});
  }
  fmt::print("{} threads, {} iterations, medians of {} runs\n{}", workers.threads(), kIterations, kRounds, table.text(0));
  return 0;
}

}  // namespace
}  // namespace moesh

int main() { return moesh::bench::with_errors_told(moesh::measure); }
