// The gradient of each op: cotangents of its operands from those of its results.
#include <algorithm>
#include <cassert>
#include <numeric>

#include <fmt/core.h>

#include "base/error.h"
#include "graph/autodiff.h"

namespace moesh::graph {
namespace {

struct Vjp {
  Builder& builder;
  const Node& node;
  const std::vector<Tensor>& operands;
  const std::vector<Tensor>& results;
  const std::vector<Tensor>& cotangents;

  Tensor dy() const { return cotangents.front(); }
  template <typename T>
  const T& of() const {
    return std::get<T>(node.attributes);
  }
  // A gradient op with results like the given tensors.
  std::vector<Tensor> grad(Op op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& like) const {
    std::vector<std::pair<Shape, DType>> shapes;
    for (const Tensor& tensor : like) shapes.emplace_back(tensor.shape(), tensor.dtype());
    return builder.add(op, "", inputs, node.attributes, shapes);
  }
};

using Cotangents = std::vector<Tensor>;

Cotangents einsum_vjp(const Vjp& v) {
  const std::string& text = v.of<EinsumOf>().equation;
  const std::size_t comma = text.find(',');
  const std::size_t arrow = text.find("->");
  const std::string a = text.substr(0, comma);
  const std::string b = text.substr(comma + 1, arrow - comma - 1);
  const std::string out = text.substr(arrow + 2);
  return {einsum("", out + "," + b + "->" + a, v.dy(), v.operands[1]),
          einsum("", a + "," + out + "->" + b, v.operands[0], v.dy())};
}

Cotangents unary_vjp(const Vjp& v) {
  const UnaryOf& of = v.of<UnaryOf>();
  if (of.function == Unary::scale) return {scale(v.dy(), of.a)};
  if (of.function == Unary::offset) return {v.dy()};
  return v.grad(Op::unary_grad, {v.operands[0], v.dy()}, {v.operands[0]});
}

Cotangents binary_vjp(const Vjp& v) {
  const Tensor& a = v.operands[0];
  const Tensor& b = v.operands[1];
  switch (v.of<BinaryOf>().function) {
    case Binary::add: return {v.dy(), v.dy()};
    case Binary::subtract: return {v.dy(), scale(v.dy(), -1)};
    case Binary::multiply: return {multiply(v.dy(), b), multiply(v.dy(), a)};
    case Binary::divide: {
      const Tensor by_b = binary(Binary::divide, v.dy(), b);
      return {by_b, scale(multiply(by_b, v.results[0]), -1)};
    }
  }
  return {};
}

Cotangents cast_vjp(const Vjp& v) {
  return is_floating(v.operands[0].dtype()) ? Cotangents{cast(v.dy(), v.operands[0].dtype())} : Cotangents{{}};
}

Cotangents broadcast_vjp(const Vjp& v) {
  const std::vector<int>& kept = v.of<BroadcastOf>().dims;
  assert(std::is_sorted(kept.begin(), kept.end()));
  std::vector<int> summed;
  for (int dim = 0; dim < v.dy().rank(); ++dim) {
    if (std::find(kept.begin(), kept.end(), dim) == kept.end()) summed.push_back(dim);
  }
  return {summed.empty() ? v.dy() : reduce(Reduction::sum, v.dy(), summed)};
}

Cotangents reduce_vjp(const Vjp& v) {
  const std::vector<int>& summed = v.of<ReduceOf>().dims;
  std::vector<int> kept;
  for (int dim = 0; dim < v.operands[0].rank(); ++dim) {
    if (std::find(summed.begin(), summed.end(), dim) == summed.end()) kept.push_back(dim);
  }
  return {broadcast(v.dy(), v.operands[0].shape(), kept)};
}

Cotangents transpose_vjp(const Vjp& v) {
  const std::vector<int>& order = v.of<TransposeOf>().order;
  std::vector<int> inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) inverse[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  return {transpose(v.dy(), inverse)};
}

Cotangents slice_vjp(const Vjp& v) {
  const SliceOf& of = v.of<SliceOf>();
  return {pad(v.dy(), of.dim, of.begin, v.operands[0].size(of.dim) - of.begin - of.size)};
}

Cotangents concat_vjp(const Vjp& v) {
  const int dim = v.of<ConcatOf>().dim;
  Cotangents parts;
  std::int64_t begin = 0;
  for (const Tensor& operand : v.operands) {
    parts.push_back(slice(v.dy(), dim, begin, operand.size(dim)));
    begin += operand.size(dim);
  }
  return parts;
}

Cotangents pad_vjp(const Vjp& v) {
  const PadOf& of = v.of<PadOf>();
  return {slice(v.dy(), of.dim, of.before, v.operands[0].size(of.dim))};
}

Cotangents rope_vjp(const Vjp& v) {
  RopeOf turned = v.of<RopeOf>();
  turned.inverse = !turned.inverse;
  return {v.builder.add_one(Op::rope, "", {v.dy(), v.operands[1]}, turned, v.dy().shape(), v.dy().dtype()), {}};
}

Cotangents attention_vjp(const Vjp& v) {
  const bool sinks = v.operands.size() == 6;
  std::vector<Tensor> inputs = v.operands;
  inputs.push_back(v.dy());
  std::vector<Tensor> like(v.operands.begin(), v.operands.begin() + 3);
  if (sinks) like.push_back(v.operands[5]);
  Cotangents made = v.grad(Op::attention_grad, inputs, like);
  made.insert(made.begin() + 3, 2, Tensor{});
  return made;
}

Cotangents cross_entropy_vjp(const Vjp& v) {
  assert(v.dy() && "the number of positions has no gradient");
  return {v.grad(Op::cross_entropy_grad, {v.operands[0], v.operands[1], v.operands[2], v.dy()}, {v.operands[0]})[0],
          {},
          {}};
}

// The weights come from the second scores where there are two; the first ones only choose.
Cotangents top_k_vjp(const Vjp& v) {
  Cotangents made(v.operands.size());
  made.back() = v.grad(Op::top_k_grad, {v.operands.back(), v.results[1], v.dy()}, {v.operands.back()})[0];
  return made;
}

// fill_slots and empty_slots are each other's transposes.
Cotangents slots_vjp(const Vjp& v) {
  const bool fills = v.node.op == Op::fill_slots;
  std::vector<Tensor> inputs = v.operands;
  inputs[0] = v.dy();
  Cotangents made{v.builder.add_one(fills ? Op::empty_slots : Op::fill_slots, "", inputs, v.node.attributes,
                                    v.operands[0].shape(), v.operands[0].dtype()),
                  {}};
  if (v.operands.size() == 2) return made;
  const Tensor& filled = fills ? v.dy() : v.operands[0];
  const Tensor& tokens = fills ? v.operands[0] : v.dy();
  made.push_back(v.builder.add_one(Op::slot_products, "", {filled, v.operands[1], tokens}, v.node.attributes,
                                   v.operands[2].shape(), v.operands[2].dtype()));
  return made;
}

Cotangents grouped_matmul_vjp(const Vjp& v) {
  const Tensor& rows = v.operands[0];
  const Tensor& weights = v.operands[1];
  const Tensor& sizes = v.operands[2];
  const bool transpose = v.of<GroupedMatmulOf>().transpose;
  const Tensor drows = v.builder.add_one(Op::grouped_matmul, "", {v.dy(), weights, sizes}, GroupedMatmulOf{!transpose},
                                         rows.shape(), rows.dtype());
  const std::vector<Tensor> outer =
      transpose ? std::vector<Tensor>{v.dy(), rows, sizes} : std::vector<Tensor>{rows, v.dy(), sizes};
  return {drows, v.builder.add_one(Op::grouped_outer, "", outer, {}, weights.shape(), weights.dtype()), {}};
}

Cotangents fetch_rows_vjp(const Vjp& v) {
  return {v.builder.add_one(Op::return_rows, "", {v.dy(), v.operands[1], v.operands[2]}, v.of<GroupOf>(),
                            v.operands[0].shape(), v.operands[0].dtype()),
          {},
          {}};
}

Cotangents return_rows_vjp(const Vjp& v) {
  const Tensor& rows = v.operands[0];
  const Tensor drows = v.builder.add_one(Op::fetch_rows, "", {v.dy(), v.operands[1], v.operands[2]}, v.of<GroupOf>(),
                                         rows.shape(), rows.dtype());
  if (v.operands.size() == 3) return {drows, {}, {}};
  const Tensor& weights = v.operands[3];
  const std::vector<Tensor> made = v.builder.add(Op::weighted_rows_grad, "", {rows, weights, drows}, {},
                                                 {{rows.shape(), rows.dtype()}, {weights.shape(), weights.dtype()}});
  return {made[0], {}, {}, made[1]};
}

Cotangents exchange_rows_vjp(const Vjp& v) {
  GroupOf other_way = v.of<GroupOf>();
  other_way.back = !other_way.back;
  return {v.builder.add_one(Op::exchange_rows, "", {v.dy(), v.operands[1], v.operands[2], v.operands[3]}, other_way,
                            v.operands[0].shape(), v.operands[0].dtype()),
          {},
          {},
          {}};
}

}  // namespace

std::vector<Tensor> operand_cotangents(Builder& builder, const Node& node, const std::vector<Tensor>& operands,
                                       const std::vector<Tensor>& results, const std::vector<Tensor>& cotangents) {
  const Vjp v{builder, node, operands, results, cotangents};
  switch (node.op) {
    case Op::einsum: return einsum_vjp(v);
    case Op::unary: return unary_vjp(v);
    case Op::binary: return binary_vjp(v);
    case Op::cast: return cast_vjp(v);
    case Op::broadcast: return broadcast_vjp(v);
    case Op::reduce: return reduce_vjp(v);
    case Op::reshape: return {reshape(v.dy(), operands[0].shape())};
    case Op::transpose: return transpose_vjp(v);
    case Op::slice: return slice_vjp(v);
    case Op::concat: return concat_vjp(v);
    case Op::pad: return pad_vjp(v);
    case Op::softmax: return v.grad(Op::softmax_grad, {results[0], v.dy()}, {operands[0]});
    case Op::rms_norm: return v.grad(Op::rms_norm_grad, {operands[0], operands[1], v.dy()}, operands);
    case Op::rope: return rope_vjp(v);
    case Op::attention: return attention_vjp(v);
    case Op::embed: return {v.grad(Op::embed_grad, {operands[1], v.dy()}, {operands[0]})[0], {}};
    case Op::cross_entropy: return cross_entropy_vjp(v);
    case Op::top_k: return top_k_vjp(v);
    case Op::spread: return {v.grad(Op::spread_grad, {operands[1], v.dy()}, {operands[0]})[0], {}};
    case Op::slots: return {{}};
    case Op::fill_slots:
    case Op::empty_slots: return slots_vjp(v);
    case Op::expert_load: return {{}};
    case Op::grouped_matmul: return grouped_matmul_vjp(v);
    case Op::grouped_bias: return {v.dy(), v.grad(Op::grouped_sum, {v.dy(), operands[2]}, {operands[1]})[0], {}};
    case Op::fetch_rows: return fetch_rows_vjp(v);
    case Op::return_rows: return return_rows_vjp(v);
    case Op::exchange_rows: return exchange_rows_vjp(v);
    case Op::own_once:
      return {v.builder.add_one(Op::own_once, "", {v.dy()}, v.of<GroupOf>(), operands[0].shape(), operands[0].dtype())};
    case Op::constraint: return {constrain("", v.dy(), v.of<ConstraintOf>())};
    default: fail(fmt::format("{} has no gradient yet", name_of(node.op)), node.path);
  }
}

}  // namespace moesh::graph
