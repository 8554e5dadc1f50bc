// Shape suffixes: B rows, S length, M embedding, V vocabulary.
#include "models/vocabulary.h"

#include <cmath>

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

void Vocabulary::add_head() {
  const config::ModelShape& model = context_.model;
  const graph::Scope of_decoder(builder_, "decoder");
  const bool is_centred = model.block == config::Block::gpt3;
  norm_ = is_centred ? nn::layer_norm_parameters(builder_, context_, "decoder_norm", model.emb_dim)
                     : nn::rms_norm_parameters(builder_, context_, "decoder_norm", model.emb_dim);
  if (model.tied_embedding) {
    weight_ = table_VM_;
    return;
  }
  const graph::Scope scope(builder_, "logits_dense");
  const graph::ParameterOf of{{labels::embed_vocab, labels::vocab}, nn::fan_in(model.emb_dim), graph::Role::output_projection};
  weight_ = builder_.parameter("kernel", {model.emb_dim, model.vocab_size}, nn::kept_dtype(context_, logits_dtype(context_)), of);
}

Tensor Vocabulary::weight_read() {
  if (!weight_read_) {
    const bool rounds = context_.model.tied_embedding && rounds_tied_embedding(context_);
    weight_read_ = cast(rounds ? cast(weight_, DType::bfloat16) : weight_, logits_dtype(context_));
  }
  return weight_read_;
}

Tensor Vocabulary::project(Tensor x_BSM) {
  const Tensor cast_BSM = cast(x_BSM, logits_dtype(context_));
  if (context_.model.tied_embedding) {
    const bool normalize = context_.settings.boolean("normalize_embedding_logits");
    const Tensor logits_BSV = einsum("logits", "bsm,vm->bsv", cast_BSM, weight_read());
    return normalize ? graph::scale(logits_BSV, 1 / std::sqrt(static_cast<double>(context_.model.emb_dim))) : logits_BSV;
  }
  const graph::Scope scope(builder_, "logits_dense");
  return einsum("", "bsm,mv->bsv", cast_BSM, weight_read());
}

Tensor Vocabulary::logits(Tensor x_BSM) {
  x_BSM = nn::norm(builder_, "decoder_norm", x_BSM, norm_, context_.model.norm_epsilon);
  return constrain("logits", capped(context_, project(x_BSM)),
                   {labels::activation_embed_and_logits_batch, labels::activation_length, labels::activation_vocab});
}

}  // namespace moesh::models
