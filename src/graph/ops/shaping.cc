// Ops that move elements: broadcasts, reshapes, transposes, slices and the like, and sums over dims.
#include <algorithm>
#include <cassert>
#include <numeric>

#include <fmt/core.h>

#include "graph/ops/ops.h"
#include "graph/ops/table.h"

namespace moesh::graph::ops {
namespace {

bool is_one_of(int dim, const std::vector<int>& dims) { return std::find(dims.begin(), dims.end(), dim) != dims.end(); }

// The dims of a value of that rank that are not among these.
std::vector<int> other_dims(std::size_t rank, const std::vector<int>& dims) {
  std::vector<int> others;
  for (int dim = 0; dim < static_cast<int>(rank); ++dim) {
    if (!is_one_of(dim, dims)) others.push_back(dim);
  }
  return others;
}

Shape with_size(Shape shape, int dim, std::int64_t size) {
  shape[static_cast<std::size_t>(dim)] = size;
  return shape;
}

bool same_type(const NodeView& v) { return v.operand(0).dtype == v.result(0).dtype; }

std::string broadcast_shapes(const NodeView& v) {
  const std::vector<int>& dims = v.of<BroadcastOf>().dims;
  const Shape& to = v.result(0).shape;
  const bool fits = are_dims_of(dims, to.size()) && picked(to, dims) == v.operand(0).shape && same_type(v);
  return fits ? "" : "broadcast to " + moesh::to_string(to);
}

void broadcast_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> dims = table.own(v.result(0).shape);
  table.takes(picked(dims, v.of<BroadcastOf>().dims)).gives(dims).linear_in({0});
}

std::vector<Tensor> broadcast_gradient(const Vjp& v) {
  const std::vector<int>& kept = v.of<BroadcastOf>().dims;
  assert(std::is_sorted(kept.begin(), kept.end()));
  const std::vector<int> summed = other_dims(v.dy().shape().size(), kept);
  return {summed.empty() ? v.dy() : reduce(Reduction::sum, v.dy(), summed)};
}

std::string reduce_shapes(const NodeView& v) {
  const auto& of = v.of<ReduceOf>();
  const Shape& from = v.operand(0).shape;
  const bool fits = are_dims_of(of.dims, from.size()) &&
                    picked(from, other_dims(from.size(), of.dims)) == v.result(0).shape && same_type(v);
  return fits ? "" : fmt::format("{} over dims", name_of(of.function));
}

void reduce_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> dims = table.own(v.operand(0).shape);
  table.takes(dims).gives(picked(dims, other_dims(dims.size(), v.of<ReduceOf>().dims))).linear_in({0});
}

std::vector<Tensor> reduce_gradient(const Vjp& v) {
  const Shape shape = v.operands[0].shape();
  return {broadcast(v.dy(), shape, other_dims(shape.size(), v.of<ReduceOf>().dims))};
}

std::string reshape_shapes(const NodeView& v) {
  const bool fits = elements(v.operand(0).shape) == elements(v.result(0).shape) && same_type(v);
  return fits ? "" : "reshape to " + moesh::to_string(v.result(0).shape);
}

// Merged or split dims share a factor of what their outermost parts have in common; a dim that stays is one factor.
void reshape_factors(const NodeView& v, FactorTable& table) {
  const Shape& from = v.operand(0).shape;
  const Shape& to = v.result(0).shape;
  std::vector<int> from_dims(from.size(), kWhole);
  std::vector<int> to_dims(to.size(), kWhole);
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < from.size() && j < to.size()) {
    if (from[i] == 1 && to[j] != 1) {
      ++i;
      continue;
    }
    if (to[j] == 1 && from[i] != 1) {
      ++j;
      continue;
    }
    const bool same = from[i] == to[j];
    const int shared = table.factor(std::gcd(from[i], to[j]), !same);
    from_dims[i] = shared;
    to_dims[j] = shared;
    std::int64_t left = from[i++];
    std::int64_t right = to[j++];
    while (left != right) {
      if (left < right && i < from.size()) {
        left *= from[i++];
      } else if (left > right && j < to.size()) {
        right *= to[j++];
      } else {
        break;  // there are no elements
      }
    }
  }
  table.takes(from_dims).gives(to_dims).linear_in({0});
}

std::vector<Tensor> reshape_gradient(const Vjp& v) { return {reshape(v.dy(), v.operands[0].shape())}; }

std::string transpose_shapes(const NodeView& v) {
  const std::vector<int>& order = v.of<TransposeOf>().order;
  const Shape& from = v.operand(0).shape;
  const bool fits = order.size() == from.size() && other_dims(from.size(), order).empty() &&
                    picked(from, order) == v.result(0).shape && same_type(v);
  return fits ? "" : "a transposition";
}

void transpose_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> dims = table.own(v.operand(0).shape);
  table.takes(dims).gives(picked(dims, v.of<TransposeOf>().order)).linear_in({0});
}

std::vector<Tensor> transpose_gradient(const Vjp& v) {
  const std::vector<int>& order = v.of<TransposeOf>().order;
  return {transpose(v.dy(), inverse(order))};
}

// The dim that is sliced, concatenated or padded is whole on both sides.
void along(int dim, const NodeView& v, FactorTable& table) {
  table.alike(table.own_but(v.result(0).shape, {dim})).linear_together();
}

std::string slice_shapes(const NodeView& v) {
  const auto& of = v.of<SliceOf>();
  const Shape& from = v.operand(0).shape;
  const bool fits = are_dims_of({of.dim}, from.size()) && of.begin >= 0 && of.size >= 0 &&
                    of.size <= from[static_cast<std::size_t>(of.dim)] &&
                    of.begin <= from[static_cast<std::size_t>(of.dim)] - of.size &&
                    with_size(from, of.dim, of.size) == v.result(0).shape && same_type(v);
  return fits ? "" : fmt::format("{} elements of dim {} from {} on", of.size, of.dim, of.begin);
}

void slice_factors(const NodeView& v, FactorTable& table) { along(v.of<SliceOf>().dim, v, table); }

std::vector<Tensor> slice_gradient(const Vjp& v) {
  const SliceOf& of = v.of<SliceOf>();
  return {pad(v.dy(), of.dim, of.begin, v.operands[0].size(of.dim) - of.begin - of.size)};
}

std::string concat_shapes(const NodeView& v) {
  const int dim = v.of<ConcatOf>().dim;
  const std::string what = fmt::format("concat along dim {}", dim);
  const Shape& to = v.result(0).shape;
  if (!are_dims_of({dim}, to.size()) || !same_type(v)) return what;
  std::int64_t size = 0;
  for (std::size_t i = 0; i < v.operands(); ++i) {
    const Shape& part = v.operand(i).shape;
    if (part.size() != to.size() || v.operand(i).dtype != v.result(0).dtype) return what;
    size += part[static_cast<std::size_t>(dim)];
    if (with_size(part, dim, 0) != with_size(to, dim, 0)) return what;
  }
  return size == to[static_cast<std::size_t>(dim)] ? "" : what;
}

void concat_factors(const NodeView& v, FactorTable& table) { along(v.of<ConcatOf>().dim, v, table); }

std::vector<Tensor> concat_gradient(const Vjp& v) {
  const int dim = v.of<ConcatOf>().dim;
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  for (const Tensor& operand : v.operands) {
    parts.push_back(slice(v.dy(), dim, begin, operand.size(dim)));
    begin += operand.size(dim);
  }
  return parts;
}

std::string pad_shapes(const NodeView& v) {
  const auto& of = v.of<PadOf>();
  const Shape& from = v.operand(0).shape;
  const Shape& to = v.result(0).shape;
  const bool fits =
      are_dims_of({of.dim}, from.size()) && to.size() == from.size() && of.before >= 0 && of.after >= 0 &&
      of.before <= elements(to) && of.after <= elements(to) && same_type(v) &&
      with_size(from, of.dim, of.before + from[static_cast<std::size_t>(of.dim)] + of.after) == v.result(0).shape;
  return fits ? "" : fmt::format("zeros around dim {}", of.dim);
}

void pad_factors(const NodeView& v, FactorTable& table) { along(v.of<PadOf>().dim, v, table); }

std::vector<Tensor> pad_gradient(const Vjp& v) {
  const PadOf& of = v.of<PadOf>();
  return {slice(v.dy(), of.dim, of.before, v.operands[0].size(of.dim))};
}

std::string fill_shapes(const NodeView&) { return ""; }

void fill_factors(const NodeView& v, FactorTable& table) { table.gives(table.own(v.result(0).shape)); }

}  // namespace

const OpFacts kBroadcast{.name = "broadcast",
                         .attributes = blank<BroadcastOf>,
                         .takes = {1},
                         .gives = {1},
                         .shapes = broadcast_shapes,
                         .factors = broadcast_factors,
                         .gradient = broadcast_gradient,
                         .keeps_dims = true,
                         .keeps_parameter = true,
                         .is_cheap = true};
const OpFacts kReduce{.name = "reduce",
                      .attributes = blank<ReduceOf>,
                      .takes = {1},
                      .gives = {1},
                      .shapes = reduce_shapes,
                      .factors = reduce_factors,
                      .gradient = reduce_gradient};
const OpFacts kReshape{.name = "reshape",
                       .attributes = blank<std::monostate>,
                       .takes = {1},
                       .gives = {1},
                       .shapes = reshape_shapes,
                       .factors = reshape_factors,
                       .gradient = reshape_gradient,
                       .becomes = Becomes::alias,
                       .keeps_dims = true,
                       .keeps_parameter = true,
                       .is_cheap = true};
const OpFacts kTranspose{.name = "transpose",
                         .attributes = blank<TransposeOf>,
                         .takes = {1},
                         .gives = {1},
                         .shapes = transpose_shapes,
                         .factors = transpose_factors,
                         .gradient = transpose_gradient,
                         .keeps_dims = true,
                         .keeps_parameter = true,
                         .is_cheap = true};
const OpFacts kSlice{.name = "slice",
                     .attributes = blank<SliceOf>,
                     .takes = {1},
                     .gives = {1},
                     .shapes = slice_shapes,
                     .factors = slice_factors,
                     .gradient = slice_gradient,
                     .keeps_dims = true,
                     .is_cheap = true,
                     .looked_up = 0};
const OpFacts kConcat{.name = "concat",
                      .attributes = blank<ConcatOf>,
                      .takes = {1, kMany},
                      .gives = {1},
                      .shapes = concat_shapes,
                      .factors = concat_factors,
                      .gradient = concat_gradient,
                      .keeps_dims = true,
                      .is_cheap = true};
const OpFacts kPad{.name = "pad",
                   .attributes = blank<PadOf>,
                   .takes = {1},
                   .gives = {1},
                   .shapes = pad_shapes,
                   .factors = pad_factors,
                   .gradient = pad_gradient,
                   .keeps_dims = true,
                   .is_cheap = true};
const OpFacts kFill{.name = "fill",
                    .attributes = blank<FillOf>,
                    .takes = {0},
                    .gives = {1},
                    .shapes = fill_shapes,
                    .factors = fill_factors,
                    .gradient = kNoGradient,
                    .in_any_order = true,
                    .is_cheap = true};

}  // namespace moesh::graph::ops
