// Shape suffixes: B rows, S length, M embedding, V vocabulary.
#include "models/model.h"

#include <cmath>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "graph/rewrite.h"
#include "mesh/context_order.h"
#include "models/rounding.h"
#include "models/stack.h"
#include "nn/cache.h"
#include "nn/norm.h"
#include "sharding/labels.h"

namespace moesh::models {
namespace {

struct Batch {
  Tensor tokens, targets, positions, order, segments, target_segments;
};

Batch batch_inputs(Builder& builder, const Context& context) {
  const auto add = [&](const char* name) {
    return builder.input(name, {context.rows, context.length}, DType::int32,
                         {labels::activation_embed_and_logits_batch, labels::activation_norm_length},
                         graph::InputOf::Kind::batch);
  };
  return {add(inputs::tokens), add(inputs::targets), add(inputs::positions), add(inputs::order), add(inputs::segments),
          add(inputs::target_segments)};
}

Tensor look_up(Builder& builder, const Context& context, Tensor table_VM, Tensor ids_BS) {
  const Shape shape{context.rows, context.length, context.model.emb_dim};
  return builder.add_one(graph::Op::embed, "embed", {cast(table_VM, context.model.compute_dtype), ids_BS}, {}, shape,
                         context.model.compute_dtype);
}

Tensor embed(Builder& builder, const Context& context, Tensor table_VM, Tensor tokens_BS) {
  Tensor x = look_up(builder, context, table_VM, tokens_BS);
  if (context.model.scales_embedding) x = graph::scale(x, std::sqrt(static_cast<double>(context.model.emb_dim)));
  return constrain("embedded", x,
                   {labels::activation_embed_and_logits_batch, labels::activation_length, labels::activation_embed});
}

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

Tensor project_to_vocab(Builder& builder, const Context& context, Tensor x_BSM, Tensor table_VM) {
  const config::ModelShape& model = context.model;
  const DType dtype = logits_dtype(context);
  if (model.tied_embedding) {
    const bool normalize = context.settings.boolean("normalize_embedding_logits");
    const Tensor rounded_VM = cast(rounds_tied_embedding(context) ? cast(table_VM, DType::bfloat16) : table_VM, dtype);
    const Tensor logits = einsum("logits", "bsm,vm->bsv", cast(x_BSM, dtype), rounded_VM);
    return normalize ? graph::scale(logits, 1 / std::sqrt(static_cast<double>(model.emb_dim))) : logits;
  }
  const graph::Scope scope(builder, "logits_dense");
  const graph::ParameterOf of{{labels::embed_vocab, labels::vocab}, nn::fan_in(model.emb_dim), graph::Role::output_projection};
  const Tensor weight_MV = nn::parameter(builder, context, "kernel", {model.emb_dim, model.vocab_size}, of, dtype);
  return einsum("", "bsm,mv->bsv", cast(x_BSM, dtype), weight_MV);
}

// Soft-capped logits: cap * tanh(x / cap).
Tensor capped(const Context& context, Tensor logits_BSV) {
  const double cap = context.model.logits_cap;
  return cap > 0 ? graph::scale(unary(graph::Unary::tanh, graph::scale(logits_BSV, 1 / cap)), cap) : logits_BSV;
}

Tensor logits(Builder& builder, const Context& context, Tensor x_BSM, Tensor table_VM) {
  const graph::Scope scope(builder, "decoder");
  const bool is_centred = context.model.block == config::Block::gpt3;
  x_BSM = is_centred ? nn::layer_norm(builder, context, "decoder_norm", x_BSM) : nn::rms_norm(builder, context, "decoder_norm", x_BSM);
  return constrain("logits", capped(context, project_to_vocab(builder, context, x_BSM, table_VM)),
                   {labels::activation_embed_and_logits_batch, labels::activation_length, labels::activation_vocab});
}

// The loss takes the logits as they are and computes in float32; the result that the caller sees is cast as cast_logits_to_fp32 says.
void mark_logits(Builder& builder, const Context& context, Tensor logits_BSV) {
  const graph::Scope scope(builder, "decoder");
  const bool casts = context.settings.boolean("cast_logits_to_fp32");
  builder.mark_result(casts ? cast(logits_BSV, DType::float32) : logits_BSV, results::logits);
}

// Adds the inputs of random routing, if experts are drawn at random.
void add_draws(Builder& builder, const Context& context, const Labels& token_labels, Tokens& tokens) {
  if (!context.model.is_moe() || !config::routes_at_random(context.settings)) return;
  tokens.numbers = builder.input(inputs::numbers, {context.rows, context.length}, DType::int32, token_labels,
                                 graph::InputOf::Kind::batch);
  tokens.draw_keys = builder.input(inputs::draw_keys, {context.model.layers, 2}, DType::int32, {labels::none, labels::none},
                                   graph::InputOf::Kind::number);
}

// Summed over the positions that count.
Tensor cross_entropy(Builder& builder, const Context& context, Tensor logits_BSV, const Batch& batch) {
  return builder.add_one(graph::Op::cross_entropy, "cross_entropy", {logits_BSV, batch.targets, batch.target_segments},
                         graph::CrossEntropyOf{context.settings.real("z_loss_multiplier")}, {}, DType::float32);
}

// Looks up the position of each token in a learned table.
Tensor embed_positions(Builder& builder, const Context& context, const Tokens& tokens) {
  const config::ModelShape& model = context.model;
  const std::int64_t places = context.trains() ? context.length : context.cache_slots;
  if (places > model.position_rows) {
    refuse(fmt::format("rows of {}, and a table of {}", counted(places, "token"), counted(model.position_rows, "position")),
           context.settings.origin("trainable_position_size").where, fmt::format("trainable_position_size={}", places));
  }
  const graph::Scope scope(builder, "position_embedder");
  const Tensor table_PM =
      builder.parameter("embedding", {model.position_rows, model.emb_dim}, nn::kept_dtype(context, model.compute_dtype),
                        {{labels::vocab, labels::embed_vocab}, {graph::Initializer::Kind::normal, 1, 1}, graph::Role::position_embedding});
  return look_up(builder, context, table_PM, tokens.positions);
}

// The results of the layers: logits, and the layers' losses and loads.
struct Trunk {
  Tensor logits_BSV;
  std::vector<Tensor> balance_losses;
  std::vector<Tensor> loads;
};

Trunk build_trunk(Builder& builder, const Context& context, Tensor ids_BS, const Tokens& tokens) {
  Tensor table_VM;
  {
    const graph::Scope scope(builder, "token_embedder");
    table_VM = builder.parameter("embedding", {context.model.vocab_size, context.model.emb_dim},
                                 table_dtype(context),
                                 {{labels::vocab, labels::embed_vocab}, {graph::Initializer::Kind::normal, 1, 1},
                                  graph::Role::embedding});
  }
  Tensor x = embed(builder, context, table_VM, ids_BS);
  Trunk trunk;
  {
    const graph::Scope scope(builder, "decoder");
    if (context.model.position_rows > 0) x = add(x, embed_positions(builder, context, tokens));
    std::int64_t first = 0;
    for (const LayerGroup& group : layers_of(context)) {
      const StackResult made = stack_layers(builder, context, group, x, for_layers(tokens, first, group.count));
      first += group.count;
      x = made.x;
      trunk.loads.insert(trunk.loads.end(), made.loads.begin(), made.loads.end());
      trunk.balance_losses.insert(trunk.balance_losses.end(), made.balance_losses.begin(), made.balance_losses.end());
    }
  }
  trunk.logits_BSV = logits(builder, context, x, table_VM);
  return trunk;
}

graph::Rounded rounded_of(const config::Settings& settings) {
  const std::string& words = settings.text("quantization");
  if (words.empty()) return graph::Rounded::none;
  return words.find("fp8") != std::string::npos ? graph::Rounded::float8 : graph::Rounded::int8;
}

void check_decoding(const ModelRequest& request, const DecodeShape& shape) {
  if (shape.new_tokens < 1 || shape.new_tokens > shape.cache_slots) {
    refuse(fmt::format("{} new tokens a row with a cache for {} positions", shape.new_tokens, shape.cache_slots), "decoding",
           "choose at least one token, and a cache with room for the prompt and what follows it");
  }
  if (config::has_pipeline(request.settings)) {
    refuse("decoding does not run over pipeline stages", request.settings.origin("ici_pipeline_parallelism").where,
           "ici_pipeline_parallelism=1 dcn_pipeline_parallelism=1");
  }
}

}  // namespace

graph::Graph build_model(const ModelRequest& request) {
  const std::int64_t balanced_over = request.mesh == nullptr ? 1 : mesh::balanced_shards(request.settings, *request.mesh);
  const Context context{
      request.settings, request.shape, request.rows, request.settings.integer("max_target_length"), request.expert_shards, request.mesh, 0,
      balanced_over};
  Builder builder;
  const Batch batch = batch_inputs(builder, context);
  Tokens tokens{batch.positions, batch.order, batch.segments, {}, {}};
  add_draws(builder, context, {labels::activation_embed_and_logits_batch, labels::activation_norm_length}, tokens);
  const Trunk trunk = build_trunk(builder, context, batch.tokens, tokens);
  const Tensor entropy = cross_entropy(builder, context, trunk.logits_BSV, batch);
  const Tensor positions = builder.add_one(graph::Op::positions, "positions", {batch.target_segments}, {}, {}, DType::float32);
  Tensor loss = binary(graph::Binary::divide, entropy, unary(graph::Unary::offset, positions, kPositionsOffset));
  Tensor balance_loss;
  for (const Tensor& part : trunk.balance_losses) balance_loss = balance_loss ? graph::add(balance_loss, part) : part;
  if (balance_loss) {
    balance_loss = graph::scale(balance_loss, 1 / static_cast<double>(context.model.moe_layers()));
    loss = graph::add(loss, balance_loss);
  }
  const std::vector<Tensor>& loads = trunk.loads;
  builder.mark_result(loss, results::loss);
  builder.mark_result(entropy, results::entropy_sum);
  builder.mark_result(positions, results::positions);
  mark_logits(builder, context, trunk.logits_BSV);
  if (balance_loss) builder.mark_result(balance_loss, results::balance_loss);
  if (!loads.empty()) builder.mark_result(loads.size() == 1 ? loads[0] : graph::concat(loads, 0), results::expert_load);
  return with_rounded_products(builder.take(), rounded_of(request.settings));
}

graph::Graph build_decode_model(const ModelRequest& request, const DecodeShape& shape) {
  check_decoding(request, shape);
  const Context context{request.settings, request.shape, request.rows, shape.new_tokens,
                        request.expert_shards, request.mesh, shape.cache_slots};
  Builder builder;
  const auto add = [&](const char* name) {
    return builder.input(name, {context.rows, context.length}, DType::int32, {labels::none, labels::none},
                         graph::InputOf::Kind::batch);
  };
  const Tensor ids = add(inputs::tokens);
  const Tensor positions = add(inputs::positions);
  Tokens tokens{positions, positions, add(inputs::segments), {}, {}};
  // Slots without a token have a segment that no token has, so no query sees them.
  const Labels kept{labels::cache_batch, labels::cache_sequence};
  tokens.key_order = nn::update_cache(builder, context, "positions", positions, positions, kept);
  tokens.key_segments = nn::update_cache(builder, context, "segments", tokens.segments, positions, kept);
  add_draws(builder, context, {labels::none, labels::none}, tokens);
  const Tensor logits_BSV = build_trunk(builder, context, ids, tokens).logits_BSV;
  if (shape.gives_logits) mark_logits(builder, context, logits_BSV);
  return graph::without_dead_nodes(builder.take());
}

}  // namespace moesh::models
