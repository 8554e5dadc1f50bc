// Shape suffixes: B rows, S length, M embedding, V vocabulary.
#include "models/vocabulary.h"

#include <cmath>

#include "nn/norm.h"
#include "sharding/labels.h"

namespace moesh::models {
namespace {

DType logits_dtype(const Context& context) {
  return context.settings.boolean("logits_dot_in_fp32") ? DType::float32 : context.model.compute_dtype;
}

// MaxText rounds a tied table to bfloat16 whatever the compute type.
bool rounds_tied_embedding(const Context& context) { return context.settings.boolean("round_tied_embedding"); }

// The type in which the embedding table is kept. The embedding reads it in the compute type; if tied logits read it in another type, it is
// kept in weight_dtype.
DType table_dtype(const Context& context) {
  const config::ModelShape& model = context.model;
  const bool is_read_alike = !model.tied_embedding || rounds_tied_embedding(context) || logits_dtype(context) == model.compute_dtype;
  return is_read_alike ? nn::kept_dtype(context, model.compute_dtype) : model.weight_dtype;
}

// Soft-capped logits: cap * tanh(x / cap).
Tensor capped(const Context& context, Tensor logits_BSV) {
  const double cap = context.model.logits_cap;
  return cap > 0 ? graph::scale(unary(graph::Unary::tanh, graph::scale(logits_BSV, 1 / cap)), cap) : logits_BSV;
}

}  // namespace

Tensor batch_input(Builder& builder, const Context& context, const std::string& name) {
  return builder.input(name, {context.rows, context.length}, DType::int32,
                       {labels::activation_embed_and_logits_batch, labels::activation_norm_length}, graph::InputOf::Kind::batch);
}

Tensor look_up(Builder& builder, const Context& context, Tensor table_NM, Tensor ids_BS) {
  const Shape shape{context.rows, context.length, context.model.emb_dim};
  return builder.add_one(graph::Op::embed, "embed", {cast(table_NM, context.model.compute_dtype), ids_BS}, {}, shape,
                         context.model.compute_dtype);
}

Tensor guesses(Builder& builder, Tensor logits_BSV) {
  const Shape shape{logits_BSV.size(0), logits_BSV.size(1), 1};
  const graph::TopKOf likeliest{.k = 1, .weights = graph::TopKOf::Weights::chosen};
  const Tensor ids =
      builder.add(graph::Op::top_k, "guess", {logits_BSV}, likeliest, {{shape, logits_BSV.dtype()}, {shape, DType::int32}})[1];
  return graph::reshape(ids, {shape[0], shape[1]});
}

Vocabulary::Vocabulary(Builder& builder, const Context& context) : builder_(builder), context_(context) {
  const graph::Scope scope(builder, "token_embedder");
  table_VM_ = builder.parameter("embedding", {context.model.vocab_size, context.model.emb_dim}, table_dtype(context),
                                {{labels::vocab, labels::embed_vocab}, {graph::Initializer::Kind::normal, 1, 1}, graph::Role::embedding});
}

Tensor Vocabulary::embed(Tensor tokens_BS) const {
  Tensor x = look_up(builder_, context_, table_VM_, tokens_BS);
  if (context_.model.scales_embedding) x = graph::scale(x, std::sqrt(static_cast<double>(context_.model.emb_dim)));
  return constrain("embedded", x,
                   {labels::activation_embed_and_logits_batch, labels::activation_length, labels::activation_embed});
}

// Only GPT-3 has a layer norm here.
Tensor Vocabulary::norm(Tensor x_BSM) {
  constexpr const char* kName = "decoder_norm";
  const config::ModelShape& model = context_.model;
  if (model.block == config::Block::gpt3) return nn::layer_norm(builder_, context_, kName, x_BSM);
  if (!norm_scale_) norm_scale_ = nn::norm_scale(builder_, context_, kName, model.emb_dim, /*has_label=*/true);
  return nn::rms_norm_with(builder_, kName, x_BSM, norm_scale_, model.norm_epsilon);
}

Tensor Vocabulary::project(Tensor x_BSM) {
  const config::ModelShape& model = context_.model;
  const DType dtype = logits_dtype(context_);
  if (model.tied_embedding) {
    const bool normalize = context_.settings.boolean("normalize_embedding_logits");
    if (!weight_) weight_ = cast(rounds_tied_embedding(context_) ? cast(table_VM_, DType::bfloat16) : table_VM_, dtype);
    const Tensor logits_BSV = einsum("logits", "bsm,vm->bsv", cast(x_BSM, dtype), weight_);
    return normalize ? graph::scale(logits_BSV, 1 / std::sqrt(static_cast<double>(model.emb_dim))) : logits_BSV;
  }
  const graph::Scope scope(builder_, "logits_dense");
  const graph::ParameterOf of{{labels::embed_vocab, labels::vocab}, nn::fan_in(model.emb_dim), graph::Role::output_projection};
  if (!weight_) weight_ = nn::parameter(builder_, context_, "kernel", {model.emb_dim, model.vocab_size}, of, dtype);
  return einsum("", "bsm,mv->bsv", cast(x_BSM, dtype), weight_);
}

Tensor Vocabulary::logits(Tensor x_BSM) {
  return constrain("logits", capped(context_, project(norm(x_BSM))),
                   {labels::activation_embed_and_logits_batch, labels::activation_length, labels::activation_vocab});
}

}  // namespace moesh::models
