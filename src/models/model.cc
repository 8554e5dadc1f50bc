// Shape suffixes: B rows, S length, M embedding, V vocabulary.
#include "models/model.h"

#include <cassert>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "graph/rewrite.h"
#include "mesh/context_order.h"
#include "models/prediction.h"
#include "models/rounding.h"
#include "models/stack.h"
#include "models/vocabulary.h"
#include "nn/cache.h"
#include "nn/pooling.h"
#include "nn/streams.h"
#include "sharding/labels.h"

namespace moesh::models {
namespace {

struct Batch {
  Tensor tokens, targets, positions, order, segments, target_segments;
};

Batch batch_inputs(Builder& builder, const Context& context) {
  const auto add = [&](const char* name) { return batch_input(builder, context, name); };
  return {add(inputs::tokens), add(inputs::targets), add(inputs::positions), add(inputs::order), add(inputs::segments),
          add(inputs::target_segments)};
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
  const std::int64_t of_modules = context.trains() ? context.model.prediction_modules * context.model.layers_per_module() : 0;
  const std::int64_t layers = context.model.layers + of_modules;
  tokens.draw_keys = builder.input(inputs::draw_keys, {layers, 2}, DType::int32, {labels::none, labels::none},
                                   graph::InputOf::Kind::number);
}

// Summed over the positions that count. The part of it that the z-loss makes is absent without z_loss_multiplier.
struct Entropy {
  Tensor sum, of_z_loss;
};

Entropy cross_entropy(Builder& builder, const Context& context, Tensor logits_BSV, const Batch& batch) {
  const double z_loss = context.settings.real("z_loss_multiplier");
  const std::vector<Tensor> made =
      builder.add(graph::Op::cross_entropy, "cross_entropy", {logits_BSV, batch.targets, batch.target_segments},
                  graph::CrossEntropyOf{z_loss}, std::vector<std::pair<Shape, DType>>(z_loss == 0 ? 1 : 2, {{}, DType::float32}));
  return {made[0], z_loss == 0 ? Tensor{} : made[1]};
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

// What the layers and the modules behind them make.
struct Trunk {
  StackResult layers;
  Tensor logits_BSV;
  Tensor mtp_loss;  // absent without multi-token prediction
};

Trunk build_trunk(Builder& builder, const Context& context, Tensor ids_BS, const Tokens& tokens) {
  Vocabulary vocabulary(builder, context);
  Trunk trunk;
  Tensor& x = trunk.layers.x;
  x = vocabulary.embed(ids_BS);
  {
    const graph::Scope scope(builder, "decoder");
    if (context.model.position_rows > 0) x = add(x, embed_positions(builder, context, tokens));
    x = nn::to_streams(context, x);
    std::int64_t first = 0;
    for (const LayerGroup& group : layers_of(context)) {
      append(trunk.layers, stack_layers(builder, context, group, x, for_layers(tokens, first, group.count)));
      first += group.count;
    }
    x = nn::from_streams(builder, context, x);
  }
  {
    const graph::Scope scope(builder, "decoder");
    trunk.logits_BSV = vocabulary.logits(x);
  }
  if (context.trains() && context.model.prediction_modules > 0)
    trunk.mtp_loss = predict_ahead(builder, context, vocabulary, tokens, trunk.layers);
  return trunk;
}

// Absent if no layer has a part.
Tensor mean_of_layers(const std::vector<Tensor>& parts, std::int64_t layers) {
  Tensor sum;
  for (const Tensor& part : parts) sum = sum ? graph::add(sum, part) : part;
  return sum ? graph::scale(sum, 1 / static_cast<double>(layers)) : sum;
}

// With those of prediction modules.
std::int64_t layers_in_all(const config::ModelShape& model) {
  return model.layers_of_model() + model.prediction_modules * model.layers_per_module();
}

graph::Rounded rounded_of(const config::Settings& settings) {
  const std::string& word = settings.text("quantization");
  if (word.empty()) return graph::Rounded::none;
  return word == "int8" ? graph::Rounded::int8 : graph::Rounded::float8;
}

void check_decoding(const ModelRequest& request, const DecodeShape& shape) {
  assert(shape.new_tokens <= shape.most_new_tokens);
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
  if (request.shape.given_layers > 0) tokens.ids = batch.tokens;
  add_draws(builder, context, {labels::activation_embed_and_logits_batch, labels::activation_norm_length}, tokens);
  const Trunk trunk = build_trunk(builder, context, batch.tokens, tokens);
  const Entropy entropy = cross_entropy(builder, context, trunk.logits_BSV, batch);
  const Tensor positions = builder.add_one(graph::Op::positions, "positions", {batch.target_segments}, {}, {}, DType::float32);
  Tensor loss;
  const auto add_loss = [&](Tensor more) {
    if (more) loss = loss ? graph::add(loss, more) : more;
  };
  if (!config::leaves_out_entropy(request.settings)) {
    const Tensor counted = unary(graph::Unary::offset, positions, kPositionsOffset);
    add_loss(binary(graph::Binary::divide, entropy.sum, counted));
    if (entropy.of_z_loss) builder.mark_result(binary(graph::Binary::divide, entropy.of_z_loss, counted), results::z_loss);
  }
  const auto add_beside = [&](Tensor beside, const char* name) {
    add_loss(beside);
    if (beside) builder.mark_result(beside, name);
  };
  add_beside(mean_of_layers(trunk.layers.balance_losses, context.model.moe_layers() - context.model.given_layers), results::balance_loss);
  add_beside(trunk.mtp_loss, results::mtp_loss);
  add_beside(mean_of_layers(trunk.layers.index_losses, layers_in_all(context.model)), results::index_loss);
  builder.mark_result(loss, results::loss);
  builder.mark_result(entropy.sum, results::entropy_sum);
  builder.mark_result(positions, results::positions);
  mark_logits(builder, context, trunk.logits_BSV);
  if (request.settings.integer("mtp_eval_target_module") > 0) builder.mark_result(guesses(builder, trunk.logits_BSV), results::guesses);
  const auto mark_of_layers = [&](const std::vector<Tensor>& parts, const char* name) {
    if (!parts.empty()) builder.mark_result(parts.size() == 1 ? parts[0] : graph::concat(parts, 0), name);
  };
  mark_of_layers(trunk.layers.loads, results::expert_load);
  mark_of_layers(trunk.layers.highest, results::highest_scores);
  return with_rounded_products(builder.take(), rounded_of(request.settings));
}

graph::Graph build_decode_model(const ModelRequest& request, const DecodeShape& shape) {
  check_decoding(request, shape);
  const Context context{request.settings,      request.shape, request.rows,      shape.new_tokens,
                        request.expert_shards, request.mesh,  shape.cache_slots, 1,
                        shape.most_new_tokens};
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
  const auto cached = [&](const std::string& name, Tensor of_tokens, std::int64_t slots) {
    return nn::update_cache(builder, context, name, of_tokens, positions, slots, kept);
  };
  tokens.key_order = cached("positions", positions, context.cache_slots);
  tokens.key_segments = cached("segments", tokens.segments, context.cache_slots);
  if (const std::int64_t near = nn::near_slots(context); near < context.cache_slots) {
    tokens.near_key_order = cached("near_positions", positions, near);
    tokens.near_key_segments = cached("near_segments", tokens.segments, near);
  }
  tokens.windows = nn::windows_of_layers(builder, context, tokens);
  if (request.shape.given_layers > 0) tokens.ids = ids;
  add_draws(builder, context, {labels::none, labels::none}, tokens);
  const Tensor logits_BSV = build_trunk(builder, context, ids, tokens).logits_BSV;
  if (shape.gives_logits) mark_logits(builder, context, logits_BSV);
  return graph::without_dead_nodes(builder.take());
}

}  // namespace moesh::models
