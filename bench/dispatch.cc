// Prints the predicted gain of moe_dispatch_no_expert_sharding on eight MI355X, for mixtral-8x7b as it was published (7.4 to 10.9
// thousand tokens per second and device), also with the machine's figures a fifth lower or higher. For comparison, prices the collectives
// that the reference's compiler made of the same step at the same rates.
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/table.h"
#include "cost/collective.h"
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

  forecast::Forecast on_machine(double links, double compute) const {
    mesh::Topology target = session.target;
    for (mesh::Link& link : target.chip.links) link.bytes_per_second *= links;
    if (target.chip.bf16_flops_per_second) *target.chip.bf16_flops_per_second *= compute;
    target.chip.memory_bytes_per_second *= compute;
    return forecast::forecast(program.plan, session.layout, target, {});
  }
};

graph::ReshardOf::Kind kind_of(const std::string& name) {
  using Kind = graph::ReshardOf::Kind;
  for (const Kind kind : {Kind::all_gather, Kind::all_reduce, Kind::reduce_scatter, Kind::all_to_all}) {
    if (name == name_of(kind)) return kind;
  }
  fail(fmt::format("'{}' is no collective that is priced here", name));
}

// Seconds of all layers' collectives. The recorded program has two layers: a collective that runs an even number of times is in their
// body. Its permutes implement gathers: each moves a shard by one device.
double seconds_of_recorded(const std::string& name, const Planned& planned) {
  constexpr std::int64_t kRecordedLayers = 2, kLayers = 32;
  std::ifstream file(MOESH_RECORDED "/" + name + ".json");
  if (!file) fail("a recorded program cannot be read", name);
  const mesh::Mesh& mesh = planned.session.layout.mesh;
  const cost::Network network(mesh, planned.session.target);
  const cost::Group& group = network.group({mesh.find("expert").value()});
  const nlohmann::json recorded = nlohmann::json::parse(file);
  double seconds = 0;
  for (const nlohmann::json& sent : recorded.at("collectives").at("list")) {
    const auto count = sent.at("count").get<std::int64_t>();
    const auto times = static_cast<double>(count % kRecordedLayers == 0 ? count / kRecordedLayers * kLayers : count);
    const auto bytes = sent.at("operand_bytes").get<double>();
    const auto kind = sent.at("kind").get<std::string>();
    const auto steps = static_cast<double>(cost::devices_of(group) - 1);
    seconds += kind == "collective-permute" ? times / steps * cost::collective_seconds(kind_of("all-gather"), bytes, group)
                                            : times * cost::collective_seconds(kind_of(kind), bytes, group);
  }
  return seconds;
}

void print_recorded(const Planned& off, const Planned& on) {
  const auto sent = [](const forecast::Forecast& of) {
    double seconds = 0;
    for (const forecast::Sent& one : of.collectives) seconds += one.seconds;
    return seconds;
  };
  Table table({{"one after the other", false}, {"kernels", true}, {"sent without", true}, {"sent with", true}, {"gain", true}});
  const forecast::Forecast without = off.on_machine(1, 1), with = on.on_machine(1, 1);
  const auto add = [&](const std::string& of, double before, double after) {
    table.add({of, fmt::format("{:.2f} s", without.kernels), fmt::format("{:.2f} s", before), fmt::format("{:.2f} s", after),
               fmt::format("{:.2f}", (without.kernels + before) / (with.kernels + after))});
  };
  add("our plan", sent(without), sent(with));
  add("the reference's compiled step", seconds_of_recorded("mixtral-L2__v5p-16__ep8-capacity", off),
      seconds_of_recorded("mixtral-L2__v5p-16__ep8-capacity-noexp", on));
  fmt::print("{}", table.text(0));
}

int measure() {
  const Planned off("false"), on("true");
  Table table({{"links", true}, {"compute and memory", true}, {"s a step without", true}, {"s with", true}, {"gain", true}});
  for (const double links : {0.8, 1.0, 1.2}) {
    for (const double compute : {0.8, 1.0, 1.2}) {
      const double before = off.on_machine(links, compute).seconds, after = on.on_machine(links, compute).seconds;
      table.add({fmt::format("x {}", links), fmt::format("x {}", compute), fmt::format("{:.2f}", before), fmt::format("{:.2f}", after),
                 fmt::format("{:.2f}", before / after)});
    }
  }
  fmt::print("{}\n", table.text(0));
  print_recorded(off, on);
  return 0;
}

}  // namespace
}  // namespace moesh

int main() { return moesh::bench::with_errors_told(moesh::measure); }
