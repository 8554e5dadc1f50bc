// Experts that compute only the rows of their own tokens, in a region: tokens are dispatched, the experts here multiply them by grouped
// GEMMs, and the results are combined. Chunks of the tokens go through this one after another.
// Shape suffixes: B rows, S length, M embedding, T tokens here, K experts a token, R rows sorted by expert, E experts, F width.
#include <algorithm>
#include <numeric>

#include <fmt/core.h>

#include "base/error.h"
#include "nn/moe/dispatch.h"
#include "nn/moe/moe.h"
#include "sharding/labels.h"

namespace moesh::nn {
namespace {

using graph::RegionOperand;
using sharding::AxisList;
using sharding::Spec;

graph::ConstraintOf peeled(Labels labels, std::vector<std::string> axes) {
  return {std::move(labels), false, std::move(axes), {}, false};
}

// The axes that shard the experts, and those that shard the width of each expert.
struct ExpertAxes {
  AxisList experts;
  AxisList width;
};

// The name of a value as it enters the region, where the name alone is taken by what it was before.
std::string entering(const std::string& name) { return name + "_entering"; }

// Lays an operand out as the rules say, then without the axes `off`; each of the two values has a path of its own.
RegionOperand constrained(const Context& context, const std::string& name, Tensor tensor, graph::ConstraintOf constraint,
                          const std::vector<std::string>& off) {
  tensor = constrain(name, tensor, constraint);
  if (!off.empty()) {
    constraint.peeled.insert(constraint.peeled.end(), off.begin(), off.end());
    tensor = constrain(entering(name), tensor, constraint);
  }
  return {tensor, context.spec_of(constraint)};
}

// The layouts in which the tokens and the experts' weights enter the region: what the rules say, less the axes that are taken off.
struct Entrance {
  graph::ConstraintOf tokens, in_kernels, out_kernel;
  std::vector<std::string> off_tokens, off_kernels;
};

double bytes_here(const Context& context, Tensor tensor, const graph::ConstraintOf& constraint) {
  return static_cast<double>(sharding::shard_bytes(tensor.shape(), tensor.dtype(), context.spec_of(constraint), *context.mesh));
}

// Results for parts of an expert's width can only be summed by devices that have the same tokens. So an axis that the rules give to both
// tokens and width is taken off one of them: off the tokens, which are then all-gathered and their results reduce-scattered, or off the
// width, whose weights are then all-gathered. The backward pass costs as much again either way, and either way a device receives what the
// others of its group have, so the smaller shard decides.
void give_each_axis_to_tokens_or_width(const Context& context, Entrance& entrance, Tensor x_BSM, const Experts& e) {
  const AxisList token_axes = sharding::distinct_axes(context.spec_of(entrance.tokens));
  std::vector<std::string> shared;
  for (const sharding::AxisIndex axis : sharding::shared(context.spec_of(entrance.in_kernels).dims[2], token_axes)) {
    shared.push_back(context.mesh->axis(axis).name);
  }
  if (shared.empty()) return;
  const double token_bytes = 2 * bytes_here(context, x_BSM, entrance.tokens);
  const double weight_bytes = bytes_here(context, e.wi_0, entrance.in_kernels) + bytes_here(context, e.wi_1, entrance.in_kernels) +
                              bytes_here(context, e.wo, entrance.out_kernel);
  (token_bytes < weight_bytes ? entrance.off_tokens : entrance.off_kernels) = std::move(shared);
}

// Without expert parallelism, rows that do not divide over their axes enter whole on all of them, as in MaxText: several devices compute
// the same rows.
void let_uneven_rows_enter_whole(const Context& context, Entrance& entrance) {
  if (context.mesh == nullptr || context.expert_shards > 1) return;
  const AxisList axes = context.spec_of(entrance.tokens).dims[0];
  if (context.rows % sharding::shards(axes, *context.mesh) == 0) return;
  for (const sharding::AxisIndex axis : axes) entrance.tokens.peeled.push_back(context.mesh->axis(axis).name);
}

// Weights enter whole except for the expert axis and tensor parallelism: dims that fsdp shards are gathered beforehand.
Entrance entrance_of(const Context& context, const Labels& token_labels, Tensor x_BSM, const Experts& e) {
  const char* of_experts = expert_label(context.settings);
  Entrance entrance{peeled(token_labels, {}),
                    of_weight(peeled({of_experts, labels::none, labels::mlp_no_fsdp}, {"fsdp"})),
                    of_weight(peeled({of_experts, labels::mlp_no_fsdp, labels::none}, {"fsdp"})),
                    {},
                    {}};
  let_uneven_rows_enter_whole(context, entrance);
  give_each_axis_to_tokens_or_width(context, entrance, x_BSM, e);
  return entrance;
}

ExpertAxes add_weights(const Context& context, const Entrance& entrance, std::vector<RegionOperand>& operands, const Experts& e) {
  operands.push_back(constrained(context, "w0_kernel", e.wi_0, entrance.in_kernels, entrance.off_kernels));
  const Spec& spec = operands.back().spec;
  const ExpertAxes axes{spec.dims[0], spec.dims[2]};
  operands.push_back(constrained(context, "w1_kernel", e.wi_1, entrance.in_kernels, entrance.off_kernels));
  operands.push_back(constrained(context, "wo_kernel", e.wo, entrance.out_kernel, entrance.off_kernels));
  if (!e.wo_bias) return axes;
  // Whatever the rules say about biases, here they are laid out like the values that they are added to.
  const auto bias = [&](const std::string& name, Tensor tensor, const char* label, const AxisList& width) {
    operands.push_back({constrain(name, tensor, of_weight({{expert_label(context.settings), label}})), Spec{{axes.experts, width}, {}}});
  };
  bias("w0_bias", e.wi_0_bias, labels::activation_mlp, axes.width);
  bias("w1_bias", e.wi_1_bias, labels::activation_mlp, axes.width);
  bias(entering("wo_bias"), e.wo_bias, labels::activation_embed, {});
  return axes;
}

Experts weights_in(const std::vector<Tensor>& shards, std::size_t first) {
  Experts e{shards[first], shards[first + 1], shards[first + 2], {}, {}, {}};
  if (shards.size() == first + 3) return e;
  e.wi_0_bias = shards[first + 3];
  e.wi_1_bias = shards[first + 4];
  e.wo_bias = shards[first + 5];
  return e;
}

Tensor multiply_grouped(const std::string& name, Tensor rows, Tensor weights, Tensor bias, Tensor sizes) {
  const Shape shape{rows.size(0), weights.size(2)};
  const Tensor out = rows.builder->add_one(graph::Op::grouped_matmul, name, {rows, weights, sizes}, graph::GroupedMatmulOf{},
                                           shape, rows.dtype());
  return bias ? rows.builder->add_one(graph::Op::grouped_bias, name, {out, bias, sizes}, {}, shape, rows.dtype()) : out;
}

// Applies the experts here to their rows. If the width is split into parts, one part is multiplied while the next is fetched.
Tensor run_experts(const Context& context, const Dispatched& dispatched, Tensor x_TM, const Experts& e) {
  const std::int64_t parts = context.model.moe.width_chunks;
  const std::int64_t part = x_TM.size(1) / parts;
  Tensor a_RF, b_RF;
  for (std::int64_t i = 0; i < parts; ++i) {
    const auto cut = [&](Tensor x) { return parts == 1 ? x : graph::slice(x, 1, i * part, part); };
    const bool is_last = i + 1 == parts;
    const Tensor rows = dispatched.fetch(cut(x_TM));
    const auto project = [&](const char* name, Tensor& sum, Tensor weights, Tensor bias) {
      const Tensor made = multiply_grouped(name, rows, cut(weights), is_last ? bias : Tensor{}, dispatched.sizes_E);
      sum = sum ? add(sum, made) : made;
    };
    project("wi_0", a_RF, e.wi_0, e.wi_0_bias);
    project("wi_1", b_RF, e.wi_1, e.wi_1_bias);
  }
  const Tensor hidden_RF = expert_gate(context, tag(a_RF, "moe_mlpwi_0"), tag(b_RF, "moe_mlpwi_1"));
  return tag(multiply_grouped("wo", hidden_RF, e.wo, e.wo_bias, dispatched.sizes_E), "moe_mlpwo");
}

void check_chunks(const Context& context, const std::string& path, std::int64_t length_here) {
  const config::MoeShape& moe = context.model.moe;
  if (context.trains() && length_here % moe.token_chunks != 0) {
    refuse(fmt::format("num_moe_token_chunks={} does not divide the {} positions that a device has", moe.token_chunks, length_here),
           path, "choose a divisor");
  }
  if (moe.input_dim % moe.width_chunks != 0) {
    refuse(fmt::format("num_moe_emb_chunks={} does not divide the width of {}", moe.width_chunks, moe.input_dim), path,
           "choose a divisor");
  }
}

}  // namespace

MoeResult sparse_moe(Builder& builder, const Context& context, Tensor x_BSM, Scores scores, const Experts& e) {
  // A single row cannot be sharded over the expert axis, so all devices of the axis have it whole.
  const char* batch = context.rows > 1 ? labels::activation_batch : labels::decode_batch_moe;
  const Labels token_labels{batch, labels::activation_norm_length, labels::none};
  const Entrance entrance = entrance_of(context, token_labels, x_BSM, e);
  std::vector<RegionOperand> operands{constrained(context, "inputs", x_BSM, entrance.tokens, entrance.off_tokens)};
  const Spec tokens = operands.front().spec;
  scores = constrain_scores(scores, token_labels);
  const Routed routed = route(builder, context, scores);
  operands.push_back({routed.ids, tokens});
  operands.push_back({routed.weights, tokens});
  const ExpertAxes axes = add_weights(context, entrance, operands, e);

  const mesh::Mesh one_device({});
  const mesh::Mesh& mesh = context.mesh == nullptr ? one_device : *context.mesh;
  const config::MoeShape& moe = context.model.moe;
  const AxisList token_axes = sharding::shared(axes.experts, sharding::distinct_axes(tokens));
  const Placement place{graph::group_of(axes.experts, mesh), graph::group_of(token_axes, mesh),
                        sharding::shard_shape({moe.experts}, {{axes.experts}, {}}, mesh)[0], moe};
  // Devices with the same tokens but different experts, or different parts of an expert's width, have partial sums of the result.
  AxisList partial = sharding::without(axes.experts, token_axes);
  partial.insert(partial.end(), axes.width.begin(), axes.width.end());
  std::sort(partial.begin(), partial.end());

  const auto build = [&](Builder& b, const std::vector<Tensor>& in) {
    Experts here = weights_in(in, 3);
    if (here.wo_bias) here.wo_bias = graph::own_once(here.wo_bias, graph::group_of(axes.width, mesh));
    const Shape shape = in[0].shape();
    check_chunks(context, builder.path("experts"), shape[1]);
    const std::int64_t chunks = std::gcd(moe.token_chunks, shape[1]);  // in decoding a row may have fewer tokens
    const std::int64_t length = shape[1] / chunks;
    const std::int64_t count = shape[0] * length;
    std::vector<Tensor> outs;
    Tensor dropped;
    for (std::int64_t c = 0; c < chunks; ++c) {
      const auto chunk = [&](Tensor x) {
        const Tensor cut = chunks == 1 ? x : graph::slice(x, 1, c * length, length);
        return reshape(cut, {count, x.size(2)});
      };
      const Dispatched dispatched = dispatch(b, place, chunk(in[1]), chunk(in[2]));
      const Tensor out_RM = run_experts(context, dispatched, chunk(in[0]), here);
      outs.push_back(reshape(dispatched.combine(out_RM), {shape[0], length, shape[2]}));
      const Tensor lost = cast(dispatched.dropped, DType::float32);
      dropped = dropped ? add(dropped, lost) : lost;
    }
    Spec out_spec = tokens;
    out_spec.partial = partial;
    const Spec count_spec{{}, b.own_axes(dropped.id)};
    return std::vector<graph::RegionResult>{{outs.size() == 1 ? outs[0] : graph::concat(outs, 1), x_BSM.shape(), out_spec},
                                            {dropped, {}, count_spec}};
  };
  const bool overlaps = moe.overlaps || (context.is_part && moe.token_chunks == 1);
  const std::vector<Tensor> made = graph::region(builder, "experts", {strategy_of(place), overlaps}, operands, mesh, build);
  const Tensor out = constrain("output", made[0], {batch, labels::activation_norm_length, labels::activation_embed});
  return result_of(builder, context, out, scores, routed, made[1]);
}

}  // namespace moesh::nn
