#include "decode/program.h"

#include <cassert>

#include "graph/rewrite.h"
#include "graph/slots.h"
#include "partition/as_laid.h"
#include "partition/chain.h"
#include "partition/fold_casts.h"
#include "partition/fold_slices.h"
#include "partition/fuse_sums.h"
#include "partition/lay_out.h"
#include "partition/stack_first.h"
#include "plan/lower.h"

namespace moesh::decode {

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
  partition::Partitioned made = partition::partition_as_laid(std::move(program.graph), layout, target);
  program.graph = std::move(made.graph);
  program.choices = std::move(made.choices);
  return program;
}

plan::Plan plan_of(const Program& program) {
  graph::Graph graph = partition::with_casts_folded(partition::stack_first(graph::with_blocks_inlined(program.graph)));
  graph = partition::with_slices_folded(std::move(graph));
  return plan::lower(partition::with_chains(partition::with_sums_fused(std::move(graph))), program.mesh);
}

}  // namespace moesh::decode
