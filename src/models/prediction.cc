// Shape suffixes: B rows, S length, M embedding, V vocabulary.
#include "models/prediction.h"

#include <fmt/core.h>

#include "models/ahead.h"
#include "models/model.h"
#include "nn/norm.h"
#include "sharding/labels.h"

namespace moesh::models {
namespace {

constexpr const char* kPredictionScope = "mtp_block";      // of all that modules have
constexpr const char* kModuleLayer = "transformer_layer";  // of a module's layers, behind its prefix

// What a module is given of the batch.
struct ModuleBatch {
  Tensor tokens, targets, target_segments;
};

std::vector<ModuleBatch> batches_of_modules(Builder& builder, const Context& context) {
  std::vector<ModuleBatch> made;
  for (std::int64_t module = 1; module <= context.model.prediction_modules; ++module) {
    const auto [tokens, targets, target_segments] = inputs_of_module(module);
    const auto add = [&](const InputAhead& input) { return batch_input(builder, context, input.name()); };
    made.push_back({add(tokens), add(targets), add(target_segments)});
  }
  return made;
}

// The embeddings of the tokens ahead and the hidden states before them, each normed, projected to the width of one.
Tensor joined(Builder& builder, const Context& context, const std::string& prefix, Tensor embedded_BSM, Tensor x_BSM) {
  const std::int64_t width = context.model.emb_dim;
  embedded_BSM = constrain("embedded_ahead", embedded_BSM, {labels::activation_batch, labels::activation_length, labels::activation_embed});
  const Tensor both = graph::concat({nn::rms_norm(builder, context, prefix + "embedding_norm", embedded_BSM),
                                     nn::rms_norm(builder, context, prefix + "hidden_state_norm", x_BSM)},
                                    2);
  const graph::Scope scope(builder, prefix + "projection");
  const graph::ParameterOf of{{labels::embed, labels::none}, nn::fan_in(2 * width), graph::Role::prediction_kernel};
  return einsum("", "bsk,km->bsm", both, nn::parameter(builder, context, "kernel", {2 * width, width}, of));
}

// Sums over the modules so far.
struct Sums {
  Tensor entropy, positions;
};

void add_entropy(Builder& builder, Sums& sums, Tensor logits_BSV, const ModuleBatch& batch) {
  // As the losses of the tokens lie in MaxText.
  const Tensor targets = constrain("targets", batch.targets, {labels::activation_embed_and_logits_batch, labels::activation_length});
  const Tensor entropy = builder.add_one(graph::Op::cross_entropy, "cross_entropy", {logits_BSV, targets, batch.target_segments},
                                         graph::CrossEntropyOf{}, {}, DType::float32);
  const Tensor positions = builder.add_one(graph::Op::positions, "positions", {batch.target_segments}, {}, {}, DType::float32);
  sums.entropy = sums.entropy ? graph::add(sums.entropy, entropy) : entropy;
  sums.positions = sums.positions ? graph::add(sums.positions, positions) : positions;
}

}  // namespace

bool is_of_module(std::string_view path) { return path.starts_with(fmt::format("{}/", kPredictionScope)); }

bool is_of_module_layer(std::string_view path) { return is_of_module(path) && path.find(kModuleLayer) != std::string_view::npos; }

Tensor predict_ahead(Builder& builder, const Context& context, Vocabulary& vocabulary, const Tokens& tokens, StackResult& layers) {
  const LayerGroup last = layers_of(context).back();
  const std::vector<ModuleBatch> batches = batches_of_modules(builder, context);
  const graph::Scope of_block(builder, kPredictionScope);
  Sums sums;
  const std::int64_t examined = context.settings.integer("mtp_eval_target_module");
  std::int64_t first = context.model.layers;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const graph::Scope scope(builder, fmt::format("mtp_layer_{}", i + 1));
    const std::string prefix = fmt::format("mtp_{}_", i + 1);
    const Tensor joined_BSM = joined(builder, context, prefix, vocabulary.embed(batches[i].tokens), layers.x);
    append(layers, single_cycle(builder, context, last, prefix + kModuleLayer, joined_BSM, for_layers(tokens, first, last.cycle)));
    first += last.cycle;
    const Tensor logits_BSV = vocabulary.logits(layers.x);
    add_entropy(builder, sums, logits_BSV, batches[i]);
    if (static_cast<std::int64_t>(i) + 1 == examined) builder.mark_result(guesses(builder, logits_BSV), results::guesses_ahead);
  }
  const Tensor mean = binary(graph::Binary::divide, sums.entropy, unary(graph::Unary::offset, sums.positions, kPositionsOffset));
  return graph::scale(mean, context.settings.real("mtp_loss_scaling_factor"));
}

}  // namespace moesh::models
