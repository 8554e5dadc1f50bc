// Names of ops and functions, as printed.
#include "graph/graph.h"

namespace moesh::graph {

const Graph* body_of(const Node& node) {
  if (const auto* repeat = std::get_if<RepeatOf>(&node.attributes)) return repeat->body.get();
  if (const auto* region = std::get_if<RegionOf>(&node.attributes)) return region->body.get();
  return nullptr;
}

int find_result(const Graph& graph, std::string_view name) {
  for (std::size_t i = 0; i < graph.result_names.size(); ++i) {
    if (graph.result_names[i] == name) return static_cast<int>(i);
  }
  return -1;
}

std::string_view name_of(Op op) {
  switch (op) {
    case Op::input: return "input";
    case Op::parameter: return "parameter";
    case Op::einsum: return "einsum";
    case Op::unary: return "unary";
    case Op::binary: return "binary";
    case Op::cast: return "cast";
    case Op::broadcast: return "broadcast";
    case Op::reduce: return "reduce";
    case Op::reshape: return "reshape";
    case Op::transpose: return "transpose";
    case Op::slice: return "slice";
    case Op::concat: return "concat";
    case Op::pad: return "pad";
    case Op::fill: return "fill";
    case Op::softmax: return "softmax";
    case Op::rms_norm: return "rms_norm";
    case Op::rope: return "rope";
    case Op::attention: return "attention";
    case Op::cache_write: return "cache_write";
    case Op::embed: return "embed";
    case Op::cross_entropy: return "cross_entropy";
    case Op::random_scores: return "random_scores";
    case Op::top_k: return "top_k";
    case Op::spread: return "spread";
    case Op::slot_mask: return "slot_mask";
    case Op::slots: return "slots";
    case Op::fill_slots: return "fill_slots";
    case Op::empty_slots: return "empty_slots";
    case Op::slot_products: return "slot_products";
    case Op::expert_load: return "expert_load";
    case Op::grouped_matmul: return "grouped_matmul";
    case Op::grouped_bias: return "grouped_bias";
    case Op::constraint: return "constraint";
    case Op::stage_state: return "stage_state";
    case Op::repeat: return "repeat";
    case Op::region: return "region";
    case Op::reshard: return "reshard";
    case Op::vocab_scores: return "vocab_scores";
    case Op::cross_entropy_of_scores: return "cross_entropy_of_scores";
    case Op::device_index: return "device_index";
    case Op::gather: return "gather";
    case Op::all_sum: return "all_sum";
    case Op::own_once: return "own_once";
    case Op::sort_slots: return "sort_slots";
    case Op::fetch_rows: return "fetch_rows";
    case Op::return_rows: return "return_rows";
    case Op::plan_exchange: return "plan_exchange";
    case Op::exchange_rows: return "exchange_rows";
    case Op::unary_grad: return "unary_grad";
    case Op::softmax_grad: return "softmax_grad";
    case Op::rms_norm_grad: return "rms_norm_grad";
    case Op::attention_grad: return "attention_grad";
    case Op::embed_grad: return "embed_grad";
    case Op::cross_entropy_grad: return "cross_entropy_grad";
    case Op::top_k_grad: return "top_k_grad";
    case Op::spread_grad: return "spread_grad";
    case Op::grouped_outer: return "grouped_outer";
    case Op::grouped_sum: return "grouped_sum";
    case Op::weighted_rows_grad: return "weighted_rows_grad";
    case Op::sum_squares: return "sum_squares";
    case Op::adam_update: return "adam_update";
    case Op::sgd_update: return "sgd_update";
  }
  return "?";
}

std::string_view name_of(Unary function) {
  switch (function) {
    case Unary::silu: return "silu";
    case Unary::sigmoid: return "sigmoid";
    case Unary::gelu: return "gelu";
    case Unary::relu: return "relu";
    case Unary::identity: return "identity";
    case Unary::scale: return "scale";
    case Unary::offset: return "offset";
    case Unary::clamp: return "clamp";
    case Unary::rsqrt: return "rsqrt";
    case Unary::minimum: return "minimum";
  }
  return "?";
}

std::string_view name_of(Binary function) {
  switch (function) {
    case Binary::add: return "add";
    case Binary::subtract: return "subtract";
    case Binary::multiply: return "multiply";
    case Binary::divide: return "divide";
  }
  return "?";
}

std::string_view name_of(Reduction function) {
  switch (function) {
    case Reduction::sum: return "sum";
  }
  return "?";
}

std::string_view name_of(ReshardOf::Kind kind) {
  switch (kind) {
    case ReshardOf::Kind::slice: return "slice";
    case ReshardOf::Kind::all_gather: return "all-gather";
    case ReshardOf::Kind::all_to_all: return "all-to-all";
    case ReshardOf::Kind::reduce_scatter: return "reduce-scatter";
    case ReshardOf::Kind::all_reduce: return "all-reduce";
    case ReshardOf::Kind::permute: return "permute";
  }
  return "";
}

}  // namespace moesh::graph
