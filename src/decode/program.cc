#include "decode/program.h"

#include <cassert>
#include <map>

#include "graph/rewrite.h"
#include "graph/slots.h"
#include "partition/chain.h"
#include "partition/fold_casts.h"
#include "partition/fuse_sums.h"
#include "partition/lay_out.h"
#include "partition/stack_first.h"
#include "plan/lower.h"

namespace moesh::decode {
namespace {

using sharding::Spec;

std::map<std::string, Spec> specs_of(const sharding::Layout& layout) {
  std::map<std::string, Spec> specs;
  for (const auto* tensors : {&layout.parameters, &layout.states}) {
    for (const sharding::LaidTensor& tensor : *tensors) specs[tensor.path] = sharding::without_size_one(tensor.spec, layout.mesh);
  }
  return specs;
}

}  // namespace

Program make_program(const models::ModelRequest& request, const models::DecodeShape& shape, const mesh::Topology& target) {
  assert(request.mesh != nullptr);
  const graph::Graph model = models::build_decode_model(request, shape);
  const sharding::Layout layout = partition::lay_out_decoding(model, request.settings, *request.mesh);
  return make_program(model, layout, request, target);
}

Program make_program(const graph::Graph& model, const sharding::Layout& layout, const models::ModelRequest& request,
                     const mesh::Topology& target) {
  Program program{layout.mesh,
                  request.shape.vocab_size,
                  graph::without_slot_masks(model),
                  {},
                  request.settings.integer("max_target_length"),
                  request.settings.integer("init_weights_seed")};
  if (program.mesh.devices() == 1) {
    program.graph = graph::without_constraints(program.graph);
    return program;
  }
  const std::map<std::string, Spec> specs = specs_of(layout);
  std::vector<Spec> roots;
  for (const graph::Node& node : program.graph.nodes) {
    if (!graph::is_root(node)) continue;
    const auto known = specs.find(node.path);
    const std::size_t rank = program.graph.value(node.results.front()).shape.size();
    roots.push_back(known != specs.end() ? known->second : sharding::whole_spec(rank));
  }
  std::vector<std::optional<Spec>> results;
  for (const std::string& name : program.graph.result_names) {
    const auto known = specs.find(name);
    results.push_back(known != specs.end() ? std::optional<Spec>(known->second) : std::nullopt);
  }
  partition::Partitioned made =
      partition::partition(program.graph, roots, results, {layout.mesh, target, layout.rules, layout.explicit_mode});
  program.graph = std::move(made.graph);
  program.choices = std::move(made.choices);
  return program;
}

plan::Plan plan_of(const Program& program) {
  graph::Graph graph = partition::with_casts_folded(partition::stack_first(graph::with_blocks_inlined(program.graph)));
  return plan::lower(partition::with_chains(partition::with_sums_fused(std::move(graph))), program.mesh);
}

}  // namespace moesh::decode
