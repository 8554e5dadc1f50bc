#include "train/model_size.h"

#include <algorithm>

#include "graph/work.h"
#include "models/prediction.h"
#include "train/trained.h"

namespace moesh::train {
namespace {

using graph::Role;

// Whether a token is multiplied with such a parameter, which for some is not counted.
bool is_multiplied(Role role, const config::ModelShape& shape, std::int64_t length) {
  switch (role) {
    case Role::position_embedding: return false;
    case Role::embedding: return shape.tied_embedding;
    case Role::prediction_kernel: return false;  // MaxText counts nothing but the layers of prediction modules
    case Role::stream_gate:
    case Role::expert_table:
    case Role::pool_bias: return false;
    case Role::stream_kernel: return shape.block == config::Block::deepseek4;  // nor what other models' hyper-connections take
    case Role::index_kernel:
    case Role::index_down_kernel:
    case Role::index_norm:  // nor latent attention's indexer if it leaves nothing out
      return shape.block == config::Block::deepseek4 || shape.attention.index_keys < length;
    default: return true;
  }
}

// What reading, writing and mixing several streams takes, twice a layer.
double stream_multiplications(const config::ModelShape& shape, double tokens) {
  const auto count = static_cast<double>(shape.streams.count);
  return 2 * tokens * static_cast<double>(shape.emb_dim) * count * (1.5 + count);
}

// Of queries with pools, from which an indexer may choose.
double pool_multiplications(const config::AttentionShape& attention, const config::LayerShape& layer, double widths, double tokens) {
  if (layer.pooled == 0) return 0;
  const double pools = tokens / static_cast<double>(layer.pooled);
  if (!layer.chooses_pools()) return widths * tokens * pools / 2;
  const double chosen = std::min(static_cast<double>(attention.index_keys), pools);
  const double scored = static_cast<double>(attention.index_heads * (attention.index_dim + 1)) * tokens * pools / 2;
  return widths * tokens * (chosen - chosen * chosen / (2 * pools)) + scored;
}

// Multiplications of a row of tokens besides those with parameters: of queries with keys and of their probabilities with values, of an
// indexer's, or of tokens with the memory of linear attention.
double row_multiplications(const config::ModelShape& shape, const config::LayerShape& layer, std::int64_t length) {
  const auto tokens = static_cast<double>(length);
  if (layer.is_linear) {
    constexpr double kMemoryPasses = 4;  // a token decays the memory, compares it with its value, changes it and reads it
    return kMemoryPasses * tokens * static_cast<double>(shape.delta.value_heads * shape.delta.key_dim * shape.delta.value_dim);
  }
  const config::AttentionShape attention = shape.attention_of(layer);
  const auto widths = static_cast<double>(attention.query_heads * (attention.qk_head_dim() + attention.value_head_dim()));
  constexpr double kOwnKey = 0.5;  // half of a query's own key counts, so that a causal row of n tokens has n^2 / 2 pairs
  const std::int64_t window = shape.block == config::Block::olmo3 ? 0 : layer.window;  // MaxText counts OLMo 3's layers as if they saw all
  const double near = widths * graph::pairs_seen(length, {.window = window, .chunk = layer.chunk}, kOwnKey);
  if (attention.gates_out)  // MaxText does not count the kernels that make these gates
    return near - tokens * static_cast<double>(shape.emb_dim * attention.query_heads * attention.head_dim);
  if (shape.block == config::Block::deepseek4)
    return near + stream_multiplications(shape, tokens) + pool_multiplications(attention, layer, widths, tokens);
  if (attention.index_heads > 0 && attention.index_keys < length) {
    const auto chosen = static_cast<double>(attention.index_keys), of_indexer = static_cast<double>(attention.index_heads);
    const double scored = of_indexer * static_cast<double>(attention.index_dim + 1) * tokens * tokens / 2;
    return widths * (tokens * chosen - chosen * chosen / 2) + scored;
  }
  return near;
}

}  // namespace

ModelSize model_size(const graph::Graph& model, const config::ModelShape& shape, std::int64_t tokens, std::int64_t length) {
  ModelSize size;
  std::int64_t multiplied = 0, multiplied_by_modules = 0;
  for (const graph::Node& node : model.nodes) {
    if (node.op != graph::Op::parameter) continue;
    const std::int64_t count = elements(model.value(node.results.front()).shape);
    const Role role = std::get<graph::ParameterOf>(node.attributes).role;
    const std::int64_t active = is_of_an_expert(role) ? count / shape.moe.experts * shape.moe.experts_per_token : count;
    size.parameters += count;
    size.active += active;
    if (is_multiplied(role, shape, length)) (models::is_of_module_layer(node.path) ? multiplied_by_modules : multiplied) += active;
  }
  // Of a prediction module MaxText counts one layer, whose queries see all keys before them, though it has a whole cycle.
  config::LayerShape of_module = shape.layer(shape.layers_per_cycle() - 1);
  of_module.window = 0;
  double of_row = static_cast<double>(shape.prediction_modules) * row_multiplications(shape, of_module, length);
  for (std::int64_t i = 0; i < shape.layers_of_model(); ++i)
    of_row += row_multiplications(shape, shape.layer(i % shape.layers_per_cycle()), length);
  const double rows = static_cast<double>(tokens) / static_cast<double>(std::max<std::int64_t>(1, length));
  const double of_token =
      static_cast<double>(multiplied) + static_cast<double>(multiplied_by_modules) / static_cast<double>(shape.layers_per_module());
  size.step_flops = 6.0 * (static_cast<double>(tokens) * of_token + rows * of_row);
  return size;
}

}  // namespace moesh::train
