// Rows sorted by expert and multiplied in groups, in a region whose collectives are spelled out: tokens are gathered over
// the expert axis (ring) or exchanged (all-to-all).
// Shape suffixes: B rows, S length, M embedding, T tokens here, K experts a token, R rows sorted by expert, E experts, F width.
#include "nn/moe/moe.h"
#include "sharding/labels.h"

namespace moesh::nn {
namespace {

// An operand of the region with the layout it comes in.
struct Operand {
  Tensor tensor;
  Shape local;
};

class Operands {
 public:
  explicit Operands(const Context& context) : context_(context) {}

  std::size_t add(const std::string& name, Tensor tensor, graph::ConstraintOf constraint) {
    all_.push_back({constrain(name, tensor, constraint), context_.local(tensor.shape(), constraint)});
    return all_.size() - 1;
  }
  std::vector<Tensor> tensors() const {
    std::vector<Tensor> made;
    for (const Operand& operand : all_) made.push_back(operand.tensor);
    return made;
  }
  std::vector<Shape> locals() const {
    std::vector<Shape> made;
    for (const Operand& operand : all_) made.push_back(operand.local);
    return made;
  }

 private:
  const Context& context_;
  std::vector<Operand> all_;
};

graph::ConstraintOf labelled(Labels labels) { return {std::move(labels), false, {}, {}, false}; }

// Weights enter whole but for the experts' own axis and tensor parallelism: what fsdp shards is gathered before.
graph::ConstraintOf without_fsdp(Labels labels) { return {std::move(labels), false, {"fsdp"}, {}, false}; }

void add_weights(Operands& operands, const Experts& e) {
  const Labels in_labels{labels::exp, labels::none, labels::mlp_no_fsdp};
  const Labels out_labels{labels::exp, labels::mlp_no_fsdp, labels::none};
  operands.add("w0_kernel", e.wi_0, without_fsdp(in_labels));
  operands.add("w1_kernel", e.wi_1, without_fsdp(in_labels));
  operands.add("wo_kernel", e.wo, without_fsdp(out_labels));
  if (!e.wo_bias) return;
  operands.add("w0_bias", e.wi_0_bias, labelled({labels::exp, labels::activation_mlp}));
  operands.add("w1_bias", e.wi_1_bias, labelled({labels::exp, labels::activation_mlp}));
  operands.add("wo_bias", e.wo_bias, labelled({labels::exp, labels::activation_embed}));
}

struct Grouped {
  Tensor rows_RM, order_R, sizes_E;
};

Grouped group(Builder& b, Tensor x_TM, Tensor ids_TK, std::int64_t experts) {
  const std::int64_t rows = ids_TK.size(0) * ids_TK.size(1);
  const std::vector<Tensor> made =
      b.add(graph::Op::group_rows, "group", {x_TM, ids_TK}, {},
            {{{rows, x_TM.size(1)}, x_TM.dtype()}, {{rows}, DType::int32}, {{experts}, DType::int32}});
  return {made[0], made[1], made[2]};
}

Tensor multiply_grouped(Builder& b, const std::string& name, Tensor rows, Tensor weights, Tensor bias, Tensor sizes) {
  const Shape shape{rows.size(0), weights.size(2)};
  const Tensor out = b.add_one(graph::Op::grouped_matmul, name, {rows, weights, sizes}, graph::GroupedMatmulOf{}, shape,
                               rows.dtype());
  return bias ? b.add_one(graph::Op::grouped_bias, name, {out, bias, sizes}, {}, shape, rows.dtype()) : out;
}

// The local experts on the local rows.
Tensor run_experts(Builder& b, const Context& context, const Grouped& grouped, const Experts& e) {
  const Tensor a_RF = multiply_grouped(b, "wi_0", grouped.rows_RM, e.wi_0, e.wi_0_bias, grouped.sizes_E);
  const Tensor b_RF = multiply_grouped(b, "wi_1", grouped.rows_RM, e.wi_1, e.wi_1_bias, grouped.sizes_E);
  return multiply_grouped(b, "wo", expert_gate(context, a_RF, b_RF), e.wo, e.wo_bias, grouped.sizes_E);
}

}  // namespace

MoeResult sparse_moe(Builder& builder, const Context& context, Tensor x_BSM, Scores scores, const Experts& e) {
  // A lone row cannot be shared out over the expert axis, so it is whole on all its devices.
  const char* batch = context.rows > 1 ? labels::activation_batch : "decode_batch_moe";
  const Labels token_labels{batch, labels::activation_norm_length, labels::none};
  const bool one_score = scores.choosing.id == scores.weighing.id;
  Operands operands(context);
  operands.add("inputs", x_BSM, labelled(token_labels));
  operands.add("gate_logits", scores.choosing, labelled(token_labels));
  if (!one_score) operands.add("pre_bias_logits", scores.weighing, labelled(token_labels));
  add_weights(operands, e);

  const bool has_loss = context.settings.real("load_balance_loss_weight") > 0;
  const bool has_load = context.model.moe.routed_bias && context.settings.real("routed_bias_update_rate") > 0;
  std::vector<std::pair<Shape, DType>> results{{x_BSM.shape(), context.model.compute_dtype}};
  if (has_loss) results.emplace_back(Shape{}, DType::float32);
  if (has_load) results.emplace_back(Shape{context.model.moe.experts}, DType::float32);

  const auto build = [&](Builder& b, const std::vector<Tensor>& in) {
    std::size_t next = 0;
    const Tensor x = in[next++];
    const Tensor choosing = in[next++];
    const Tensor weighing = one_score ? choosing : in[next++];
    Experts local{in[next], in[next + 1], in[next + 2], {}, {}, {}};
    if (e.wo_bias) {
      local.wi_0_bias = in[next + 3];
      local.wi_1_bias = in[next + 4];
      local.wo_bias = in[next + 5];
    }
    Context here = context;
    here.rows = x.size(0);
    here.length = x.size(1);
    const Routed routed = route(b, here, {choosing, weighing});
    const std::int64_t tokens = here.rows * here.length;
    const std::int64_t k = context.model.moe.experts_per_token;
    const Grouped grouped = group(b, reshape(x, {tokens, x.size(2)}), reshape(routed.ids, {tokens, k}),
                                  context.model.moe.experts);
    const Tensor out_RM = run_experts(b, here, grouped, local);
    const Tensor out_TM = b.add_one(graph::Op::ungroup_rows, "combine",
                                    {out_RM, reshape(routed.weights, {tokens, k}), grouped.order_R}, {},
                                    {tokens, x.size(2)}, out_RM.dtype());
    std::vector<Tensor> made{reshape(out_TM, x.shape())};
    if (has_loss) made.push_back(balance_loss(b, here, {choosing, weighing}, routed));
    if (has_load) made.push_back(expert_load(b, here, routed));
    return made;
  };
  const std::vector<Tensor> made = graph::region(builder, "experts", context.model.moe.ring ? "ring" : "all-to-all",
                                                 operands.tensors(), operands.locals(), results, build);
  MoeResult result{constrain("output", made[0], {batch, labels::activation_norm_length, labels::activation_embed}), {}, {}};
  if (has_loss) result.balance_loss = made[1];
  if (has_load) result.load = made.back();
  return result;
}

}  // namespace moesh::nn
