// Shape suffixes: B rows, S length, M embedding, V vocabulary.
#include "models/prediction.h"

#include <fmt/core.h>

#include "models/ahead.h"
#include "models/model.h"
#include "sharding/labels.h"

namespace moesh::models {
namespace {

// What a module is given of the batch.
struct ModuleBatch {
  Tensor tokens, targets, target_segments;
};

std::vector<ModuleBatch> batches_of_modules(Builder& builder, const Context& context) {
  std::vector<ModuleBatch> made;
  for (std::int64_t module = 1; module <= context.model.prediction_modules; ++module) {
    const auto add = [&](const char* input) {
      return builder.input(InputAhead{input, module}.name(), {context.rows, context.length}, DType::int32,
                           {labels::activation_embed_and_logits_batch, labels::activation_norm_length}, graph::InputOf::Kind::batch);
    };
    made.push_back({add(inputs::tokens), add(inputs::targets), add(inputs::target_segments)});
  }
  return made;
}

// The embeddings of the tokens ahead and the hidden states before them, each normed, projected to the width of one.
Tensor joined(Builder& builder, const Context& context, const std::string& prefix, Tensor embedded_BSM, Tensor x_BSM) {
  const std::int64_t width = context.model.emb_dim;
  embedded_BSM = constrain("embedded", embedded_BSM, {labels::activation_batch, labels::activation_length, labels::activation_embed});
  const Tensor both = graph::concat({nn::rms_norm(builder, context, prefix + "embedding_norm", embedded_BSM),
                                     nn::rms_norm(builder, context, prefix + "hidden_state_norm", x_BSM)},
                                    2);
  const graph::Scope scope(builder, prefix + "projection");
  const graph::ParameterOf of{{labels::embed, labels::none}, nn::fan_in(2 * width), graph::Role::prediction_kernel};
  return einsum("", "bsk,km->bsm", both, nn::parameter(builder, context, "kernel", {2 * width, width}, of));
}

}  // namespace

Predicted predict_ahead(Builder& builder, const Context& context, const Vocabulary& vocabulary, Tensor x_BSM, const Tokens& tokens) {
  const LayerGroup last = layers_of(context).back();
  const std::vector<ModuleBatch> batches = batches_of_modules(builder, context);
  const graph::Scope of_block(builder, "mtp_block");
  Predicted made;
  Tensor entropy, positions;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const ModuleBatch& batch = batches[i];
    const graph::Scope scope(builder, fmt::format("mtp_layer_{}", i + 1));
    const std::string prefix = fmt::format("mtp_{}_", i + 1);
    const Tensor joined_BSM = joined(builder, context, prefix, vocabulary.embed(batch.tokens), x_BSM);
    const StackResult layer = single_cycle(builder, context, last, prefix + "transformer_layer", joined_BSM,
                                           for_layers(tokens, context.model.layers + static_cast<std::int64_t>(i) * last.cycle, last.cycle));
    x_BSM = layer.x;
    made.balance_losses.insert(made.balance_losses.end(), layer.balance_losses.begin(), layer.balance_losses.end());
    made.loads.insert(made.loads.end(), layer.loads.begin(), layer.loads.end());
    const Tensor own_entropy =
        builder.add_one(graph::Op::cross_entropy, "cross_entropy", {vocabulary.logits(x_BSM), batch.targets, batch.target_segments},
                        graph::CrossEntropyOf{}, {}, DType::float32);
    const Tensor own_positions = builder.add_one(graph::Op::positions, "positions", {batch.target_segments}, {}, {}, DType::float32);
    entropy = entropy ? graph::add(entropy, own_entropy) : own_entropy;
    positions = positions ? graph::add(positions, own_positions) : own_positions;
  }
  const Tensor mean = binary(graph::Binary::divide, entropy, unary(graph::Unary::offset, positions, kPositionsOffset));
  made.loss = graph::scale(mean, context.settings.real("mtp_loss_scaling_factor"));
  return made;
}

}  // namespace moesh::models
