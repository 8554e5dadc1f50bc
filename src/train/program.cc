#include "train/program.h"

#include <algorithm>
#include <numeric>

#include "config/load.h"
#include "config/support.h"
#include "forecast/forecast.h"
#include "graph/rewrite.h"
#include "graph/slots.h"
#include "mesh/context_order.h"
#include "models/model.h"
#include "partition/as_laid.h"
#include "partition/chain.h"
#include "partition/doubles.h"
#include "partition/early_sums.h"
#include "partition/fold_casts.h"
#include "partition/fuse_fetch.h"
#include "partition/fuse_loss.h"
#include "partition/fuse_sums.h"
#include "partition/fuse_updates.h"
#include "partition/narrow_gradients.h"
#include "partition/overlap.h"
#include "partition/remat_gradients.h"
#include "partition/single_loops.h"
#include "partition/stack_first.h"
#include "plan/alternate.h"
#include "plan/arena.h"
#include "plan/lower.h"
#include "run/program.h"
#include "train/offload.h"

namespace moesh::train {
namespace {

using graph::Graph;
using graph::Node;
using Kind = graph::InputOf::Kind;

// Partitions the program's graph for the layout's devices, rewrites it, and lowers it to a plan.
// `beside`: the graph of a program that was laid out before, with which this one shares its parameters.
void lay_out(StepProgram& program, const config::Settings& settings, const Where& where, const SeeGraph& see,
             const Graph* beside = nullptr) {
  namespace results = models::results;
  partition::Partitioned made =
      partition::partition_as_laid(std::move(program.graph), where.layout, where.target, {results::guesses, results::guesses_ahead});
  if (see) see(pass_names::expand, made.expanded);
  program.graph = partition::without_doubles(std::move(made.graph));
  program.choices = std::move(made.choices);
  if (see) see(pass_names::partition, program.graph);
  program.graph = partition::stack_first(graph::with_blocks_inlined(program.graph), beside);
  if (see) see(pass_names::stack, program.graph);
  const bool makes_logits_again = settings.integer("num_vocab_tiling") > 1;
  program.graph = partition::with_casts_folded(partition::with_loss_fused(std::move(program.graph), makes_logits_again));
  program.graph = partition::with_updates_fused(partition::with_narrow_gradients(std::move(program.graph)));
  if (program.microbatches > 1) program.graph = partition::with_early_sums(std::move(program.graph));
  program.graph = partition::with_sums_fused(partition::with_fetches_fused(std::move(program.graph)));
  if (see) see(pass_names::fuse, program.graph);
  const bool is_alone = program.mesh.devices() == 1;  // several devices reduce gradients before they are applied
  if (is_alone && settings.boolean("remat_gradients")) program.graph = partition::with_gradients_made_again(std::move(program.graph));
  if (see) see(pass_names::remat_gradients, program.graph);
  program.graph = partition::without_single_loops(std::move(program.graph));
  if (see) see(pass_names::single_loops, program.graph);
  program.graph = partition::with_chains(std::move(program.graph));
  if (see) see(pass_names::chain, program.graph);
  program.graph = partition::with_overlap(std::move(program.graph));
  if (see) see(pass_names::overlap, program.graph);
  program.plan = plan::with_parts_alternating(plan::lower(program.graph, program.mesh));
}

Graph losses_alone(const Graph& model) {
  Graph made = graph::without_slot_masks(model);
  std::vector<graph::ValueId> results;
  std::vector<std::string> names;
  namespace of = models::results;
  std::vector<const char*> wanted{of::entropy_sum, of::positions, of::z_loss, of::balance_loss, of::index_loss};
  // Nothing else needs the modules of multi-token prediction.
  if (find_result(made, of::guesses) >= 0) wanted.insert(wanted.end(), {of::mtp_loss, of::guesses, of::guesses_ahead});
  for (const char* name : wanted) {
    const int at = find_result(made, name);
    if (at < 0) continue;
    results.push_back(made.results[static_cast<std::size_t>(at)]);
    names.emplace_back(name);
  }
  made.results = std::move(results);
  made.result_names = std::move(names);
  return graph::without_dead_nodes(std::move(made));
}

StepProgram program_with(Reduction reduction, const Graph& model, const config::Settings& settings, const Where& where, const Keep& keep,
                         const SeeGraph& see) {
  const mesh::Mesh& mesh = where.layout.mesh;
  StepProgram program{mesh,
                      trained_parameters(model, settings),
                      settings.integer("gradient_accumulation_steps"),
                      static_cast<int>(settings.integer("owners")),
                      -1,
                      step_graph(model, settings, keep, mesh.devices(), reduction, see),
                      {},
                      {},
                      reduction};
  lay_out(program, settings, where, see);
  return program;
}

// The share of a device's parameters, by bytes, that other devices hold too, with other rows of the batch: it may add up its own gradient
// of them.
double shared_gradients(const sharding::Layout& layout) {
  const sharding::AxisList batch = sharding::distinct_axes(sharding::without_size_one(layout.input.spec, layout.mesh));
  double all = 0, shared = 0;
  for (const sharding::LaidTensor& parameter : layout.parameters) {
    const auto bytes = static_cast<double>(sharding::bytes_per_device(parameter, layout.mesh));
    const sharding::AxisList own = sharding::distinct_axes(parameter.spec);
    const bool is_shared = std::any_of(batch.begin(), batch.end(), [&](sharding::AxisIndex axis) { return !sharding::holds(own, axis); });
    all += bytes;
    shared += is_shared ? bytes : 0;
  }
  return shared / all;
}

constexpr double kLeastShared = 0.01;  // where only norms are shared, planning twice gains nothing

// Nothing, if plans are to be compared. Virtual devices share one machine: there is no wire to spare, and their equal gradients exist once.
std::optional<Reduction> fixed_reduction(const config::Settings& settings, const Where& where) {
  const std::string& asked = settings.text("reduce_gradients");
  if (asked == "each_pass" || settings.integer("gradient_accumulation_steps") == 1) return Reduction::each_pass;
  const double shared = shared_gradients(where.layout);
  if (asked == "once") return shared > 0 ? Reduction::once : Reduction::each_pass;
  const bool is_worth_a_look = shared > kLeastShared && !where.target.chip.has_memory_of_host();
  return is_worth_a_look ? std::nullopt : std::optional(Reduction::each_pass);
}

}  // namespace

StepProgram step_program(const Graph& model, const config::Settings& settings, const Where& where, const Keep& keep,
                         const SeeGraph& see) {
  config::check_stages(settings);
  config::check_training(settings);
  mesh::check_balance(settings, where.layout.mesh);
  const auto with = [&](Reduction reduction, const SeeGraph& seen) {
    return program_with(reduction, model, settings, where, keep, seen);
  };
  if (const auto fixed = fixed_reduction(settings, where)) return with(*fixed, see);
  StepProgram each_pass = with(Reduction::each_pass, {}), once = with(Reduction::once, {});
  const auto forecast_of = [&](const StepProgram& program) {
    return forecast::forecast(program.plan, where.layout, where.target, {}, elsewhere_of(model, program, where, settings));
  };
  const forecast::Forecast often = forecast_of(each_pass), rarely = forecast_of(once);
  const bool has_room = rarely.fits() || rarely.memory.peak <= often.memory.peak;
  StepProgram& better = has_room && rarely.seconds < often.seconds ? once : each_pass;
  return see ? with(better.reduction, see) : std::move(better);
}

StepProgram evaluation_program(const Subject& subject, const StepProgram& step) {
  StepProgram program{subject.where.layout.mesh, {}, 1, static_cast<int>(subject.settings.integer("owners")), -1,
                      losses_alone(subject.model), {}, {}};
  lay_out(program, subject.settings, subject.where, {}, &step.graph);
  return program;
}

namespace {

std::vector<int> owners_here(const StepProgram& program) {
  if (program.self >= 0) return {program.self};
  std::vector<int> all(static_cast<std::size_t>(program.owners));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

Footprint footprint_of(const StepProgram& program) {
  std::int64_t batch = 0;
  for (const Node& node : program.graph.nodes) {
    if (!graph::is_input(node, Kind::batch)) continue;
    batch += graph::bytes_of(program.graph.value(node.results.front()));
  }
  const run::Taken process = program.owners == 1
                                 ? run::bytes_of(program.plan)
                                 : run::bytes_of(program.plan, mesh::Owners::in_a_row(program.mesh, program.owners), owners_here(program));
  const std::int64_t device_scratch = plan::device_arena(program.plan).bytes;
  return {plan::state_bytes(program.plan) + device_scratch, process.total() + batch, device_scratch, process.scratch + batch};
}

Footprint with_beside(Footprint step, const Footprint& other) {
  if (other.device_scratch > step.device_scratch) step.device += other.device_scratch;
  if (other.process_scratch > step.process_scratch) step.process += other.process_scratch;
  return step;
}

}  // namespace moesh::train
