// What moe_dispatch_no_expert_sharding is predicted to gain on eight MI355X, for mixtral-8x7b as it was published (7.4 to 10.9 thousand
// tokens a second and device), and for figures of the machine that are a fifth off.
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "base/table.h"
#include "errors.h"
#include "forecast/forecast.h"
#include "session/session.h"
#include "train/loop.h"
#include "train/program.h"

namespace moesh {
namespace {

struct Planned {
  session::Session session;
  train::StepProgram program;

  explicit Planned(const std::string& flag)
      : session(session::open({"model_name=mixtral-8x7b", "compile_topology=mi355x-8", "ici_expert_parallelism=-1", "capacity_factor=1.25",
                               "sparse_matmul=False", "per_device_batch_size=11", "remat_policy=minimal",
                               "moe_dispatch_no_expert_sharding=" + flag})),
        program(train::step_program(session.graph, session.loaded.settings, {session.layout, session.target})) {}

  double seconds(double links, double compute) const {
    mesh::Topology target = session.target;
    for (mesh::Link& link : target.chip.links) link.bytes_per_second *= links;
    if (target.chip.bf16_flops_per_second) *target.chip.bf16_flops_per_second *= compute;
    target.chip.memory_bytes_per_second *= compute;
    return forecast::forecast(program.plan, session.layout, target, {}).seconds;
  }
};

int measure() {
  const Planned off("false"), on("true");
  Table table({{"links", true}, {"compute and memory", true}, {"s a step without", true}, {"s with", true}, {"gain", true}});
  for (const double links : {0.8, 1.0, 1.2}) {
    for (const double compute : {0.8, 1.0, 1.2}) {
      const double before = off.seconds(links, compute), after = on.seconds(links, compute);
      table.add({fmt::format("x {}", links), fmt::format("x {}", compute), fmt::format("{:.2f}", before), fmt::format("{:.2f}", after),
                 fmt::format("{:.2f}", before / after)});
    }
  }
  fmt::print("{}", table.text(0));
  return 0;
}

}  // namespace
}  // namespace moesh

int main() { return moesh::bench::with_errors_told(moesh::measure); }
