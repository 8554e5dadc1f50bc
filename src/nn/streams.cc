// Shape suffixes: B rows, S length, K streams, M embedding, W the streams of a token as one vector, N numbers made of it.
#include "nn/streams.h"

#include "graph/doubly_stochastic.h"
#include "nn/norm.h"
#include "sharding/labels.h"

namespace moesh::nn {
namespace {

static_assert(config::kMostPermutedStreams == graph::kMostPermuted);

constexpr double kInitialScale = 0.01;
constexpr double kEndEpsilon = 1e-6;  // of the norm behind all layers
constexpr double kReadOffset = 1e-6;  // added to the weights by which a block reads streams

// What a token's streams are weighed by: a matrix of `name`_alpha times all of them, a scale `name`_alpha_scale and a bias `name`_beta.
class Weights {
 public:
  Weights(Builder& builder, const Context& context, std::string name, Shape each)
      : builder_(builder), context_(context), name_(std::move(name)), each_(std::move(each)) {}

  std::int64_t count() const { return elements(each_); }
  Tensor kernel_WN(std::int64_t width) const {
    return of(name_ + "_alpha", {width, count()}, {labels::activation_embed, labels::none}, normal_fan_in(width), Role::stream_kernel);
  }
  // The weights of all tokens, from their products with the kernel, [B, S, N].
  Tensor from(Tensor products_BSN) const {
    Shape shape{products_BSN.size(0), products_BSN.size(1)};
    shape.insert(shape.end(), each_.begin(), each_.end());
    const graph::Initializer initial{graph::Initializer::Kind::ones, 1, 1 / kInitialScale};
    const Tensor scale = of(name_ + "_alpha_scale", {1}, {labels::none}, initial, Role::stream_gate);
    const Tensor bias = of(name_ + "_beta", each_, Labels(each_.size(), labels::none), zeros(), Role::stream_gate);
    return add_bias(multiply_all(reshape(products_BSN, shape), scale), bias);
  }

 private:
  Tensor of(const std::string& name, Shape shape, Labels labels, graph::Initializer initial, Role role) const {
    return parameter(builder_, context_, name, std::move(shape), {std::move(labels), initial, role});
  }

  Builder& builder_;
  const Context& context_;
  std::string name_;
  Shape each_;
};

Tensor mixing(Builder& builder, const Context& context, Tensor logits, Shape matrices) {
  return builder.add_one(graph::Op::doubly_stochastic, "mixing", {logits}, graph::DoublyStochasticOf{context.model.streams.iterations},
                         std::move(matrices), logits.dtype());
}

// The sum of the streams, in float32, weighted by functions of all of them.
Tensor weighed(Builder& builder, const Context& context, Tensor x_BSKM) {
  const graph::Scope scope(builder, "hc_head");
  const Shape shape = x_BSKM.shape();
  const std::int64_t K = shape[2], width = K * shape[3];
  const Tensor wide_BSKM = cast(x_BSKM, DType::float32);
  const auto of = [&](const char* name, Shape each, Labels labels, graph::Initializer initial, Role role) {
    return parameter(builder, context, name, std::move(each), {std::move(labels), initial, role}, DType::float32);
  };
  const Tensor kernel_WK = of("hc_fn", {width, K}, {labels::activation_embed, labels::none}, normal_fan_in(width), Role::stream_kernel);
  const Tensor bias_K = of("hc_base", {K}, {labels::none}, zeros(), Role::stream_gate);
  const Tensor scale = of("hc_scale", {1}, {labels::none}, {graph::Initializer::Kind::ones, 1, 1 / kInitialScale}, Role::stream_gate);
  const Tensor normed_BSW = rms_norm_without_scale(builder, context, reshape(wide_BSKM, {shape[0], shape[1], width}), kEndEpsilon);
  const Tensor logits_BSK = add_bias(multiply_all(einsum("", "bsw,wk->bsk", normed_BSW, kernel_WK), scale), bias_K);
  const Tensor weights_BSK = unary(graph::Unary::offset, unary(graph::Unary::sigmoid, logits_BSK), kReadOffset);
  return cast(einsum("", "bsk,bskm->bsm", weights_BSK, wide_BSKM), context.model.compute_dtype);
}

}  // namespace

Tensor to_streams(const Context& context, Tensor x_BSM) {
  if (context.model.streams.count == 1) return x_BSM;
  const Shape& shape = x_BSM.shape();
  return broadcast(x_BSM, {shape[0], shape[1], context.model.streams.count, shape[2]}, {0, 1, 3});
}

Tensor from_streams(Builder& builder, const Context& context, Tensor x_BSKM) {
  const config::StreamShape& streams = context.model.streams;
  if (streams.count == 1) return x_BSKM;
  return streams.weighs_end ? weighed(builder, context, x_BSKM) : reduce(graph::Reduction::sum, x_BSKM, {2});
}

Tensor connect(Builder& builder, const Context& context, const std::string& name, Tensor x_BSKM,
               const std::function<Tensor(Tensor)>& block) {
  const std::int64_t K = context.model.streams.count;
  if (K == 1) return add(x_BSKM, block(x_BSKM));
  const Shape shape = x_BSKM.shape(), matrices{shape[0], shape[1], K, K};
  const bool permutes = context.model.streams.iterations == 0;
  const Weights read(builder, context, "pre", {K}), write(builder, context, "post", {K}),
      mix(builder, context, "res", permutes ? Shape{graph::permutations_of(K)} : Shape{K, K});
  Tensor read_BSK, write_BSK, mix_BSKK;
  {
    const graph::Scope scope(builder, name);
    const std::int64_t width = K * shape[3];
    const Tensor normed_BSW = rms_norm(builder, context, "mhc_norm", reshape(x_BSKM, {shape[0], shape[1], width}));
    const Tensor kernel_WN = graph::concat({read.kernel_WN(width), write.kernel_WN(width), mix.kernel_WN(width)}, 1);
    const Tensor products_BSN = einsum("", "bsw,wn->bsn", normed_BSW, kernel_WN);
    const auto share = [&](const Weights& weights, std::int64_t first) {
      return weights.from(slice(products_BSN, 2, first, weights.count()));
    };
    read_BSK = unary(graph::Unary::offset, unary(graph::Unary::sigmoid, share(read, 0)), kReadOffset);
    write_BSK = scale(unary(graph::Unary::sigmoid, share(write, K)), 2);
    mix_BSKK = mixing(builder, context, share(mix, 2 * K), matrices);
  }
  const Tensor made_BSM = block(einsum("", "bsk,bskm->bsm", read_BSK, x_BSKM));
  const Tensor written_BSKM = multiply(broadcast(made_BSM, shape, {0, 1, 3}), broadcast(write_BSK, shape, {0, 1, 2}));
  return add(einsum("", "bskj,bskm->bsjm", mix_BSKK, x_BSKM), written_BSKM);
}

}  // namespace moesh::nn
