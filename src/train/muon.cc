#include "train/muon.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace moesh::train {
namespace {

using graph::Tensor;

std::int64_t product(const Shape& shape, const std::vector<int>& dims) {
  std::int64_t p = 1;
  for (const int dim : dims) p *= shape[static_cast<std::size_t>(dim)];
  return p;
}

std::vector<int> others(const Shape& shape, const graph::MatrixDims& dims) {
  std::vector<int> rest;
  for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
    const auto in = [&](const std::vector<int>& list) {
      return std::find(list.begin(), list.end(), dim) != list.end();
    };
    if (!in(dims.in) && !in(dims.out)) rest.push_back(dim);
  }
  return rest;
}

// x / (norm + epsilon), separately for each matrix of the batch. It is a product with one factor per matrix, so that the norms are
// not broadcast to x's size.
Tensor normalised(Tensor x_BMN, double epsilon) {
  const Tensor squares = graph::reduce(graph::Reduction::sum, graph::multiply(x_BMN, x_BMN), {1, 2});
  const Tensor norm = graph::unary(graph::Unary::offset, graph::unary(graph::Unary::sqrt, squares), epsilon);
  const Tensor one = graph::fill(*x_BMN.builder, 1, norm.shape(), norm.dtype());
  return graph::einsum("normalised", "bmn,b->bmn", x_BMN, graph::binary(graph::Binary::divide, one, norm));
}

// Factors of x, of x x' x and of x x' x x' x.
using Quintic = std::array<double, 3>;
constexpr Quintic kFast{3.4445, -4.7750, 2.0315};
constexpr Quintic kExact{2, -1.5, 0.5};  // converges to one, where the other stays around it

// The steps of the Newton-Schulz iteration: ten for DeepSeek 4, five for other models.
std::vector<Quintic> steps_of(const config::Settings& settings) {
  if (config::block_of(settings) != config::Block::deepseek4) return std::vector<Quintic>(5, kFast);
  std::vector<Quintic> steps(8, kFast);
  steps.insert(steps.end(), 2, kExact);
  return steps;
}

// Steps of the quintic Newton-Schulz iteration drive the singular values of each matrix towards one.
Tensor orthogonalised(Tensor x_BMN, const std::vector<Quintic>& steps, double epsilon) {
  const bool tall = x_BMN.size(1) > x_BMN.size(2);
  if (tall) x_BMN = graph::transpose(x_BMN, {0, 2, 1});
  x_BMN = normalised(x_BMN, epsilon);
  for (const Quintic& step : steps) {
    const Tensor a = graph::einsum("gram", "bmn,bkn->bmk", x_BMN, x_BMN);
    const Tensor b = graph::add(graph::scale(a, step[1]), graph::scale(graph::einsum("gram2", "bmk,bkn->bmn", a, a), step[2]));
    x_BMN = graph::add(graph::scale(x_BMN, step[0]), graph::einsum("step", "bmk,bkn->bmn", b, x_BMN));
  }
  return tall ? graph::transpose(x_BMN, {0, 2, 1}) : x_BMN;
}

}  // namespace

Tensor muon_direction(Tensor momentum, const graph::MatrixDims& dims, const config::Settings& settings) {
  const Shape shape = momentum.shape();
  std::vector<int> order = others(shape, dims);
  const std::int64_t in = product(shape, dims.in);
  const std::int64_t out = product(shape, dims.out);
  order.insert(order.end(), dims.in.begin(), dims.in.end());
  order.insert(order.end(), dims.out.begin(), dims.out.end());
  const Tensor moved = graph::transpose(momentum, order);
  const Tensor made = orthogonalised(graph::reshape(moved, {elements(shape) / (in * out), in, out}), steps_of(settings),
                                     settings.real("adam_eps"));
  const Tensor back = graph::transpose(graph::reshape(made, moved.shape()), graph::inverse(order));
  const auto wide = static_cast<double>(std::max(in, out));
  const double ratio = static_cast<double>(out) / static_cast<double>(in);
  const double factor = settings.is_null("muon_consistent_rms") ? std::sqrt(std::max(1.0, ratio))
                                                                : settings.real("muon_consistent_rms") * std::sqrt(wide);
  return graph::scale(back, factor);
}

std::int64_t layers_at_a_time(std::int64_t layers, std::int64_t matrices_of_layer, std::int64_t devices) {
  for (std::int64_t count = 1; count < layers; ++count) {
    if (layers % count == 0 && count * matrices_of_layer >= devices) return count;
  }
  return layers;
}

}  // namespace moesh::train
