// What a family of models brings: its layers, in groups of equal ones.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nn/context.h"

namespace moesh::models {

using graph::Builder;
using graph::Tensor;
using nn::Context;
using nn::Tokens;

struct LayerResult {
  Tensor x;
  Tensor balance_loss;  // absent for a layer without one
  Tensor load;          // [E] of the layer's experts; absent where nothing follows it
};

// `position`: of the layer within its cycle.
using Layer = std::function<LayerResult(Builder&, const Context&, Tensor x, const Tokens&, std::int64_t position)>;

// Where a cycle's layers but the last are a stack within that of the cycles: what both are called, and the last layer.
struct NestedNames {
  std::string cycles, stack, last;
};

struct LayerGroup {
  std::string name;     // of the stack, and the label of the dim that stacking adds
  std::int64_t count = 0;
  std::int64_t cycle = 1;
  bool may_pipeline = true;
  Layer layer;
  std::optional<NestedNames> nested = {};
};

// The names of a layer's norms, in front of attention and of the MLP or the experts, and behind them; null where there is none.
struct NormNames {
  const char* before_attention = "pre_self_attention_layer_norm";
  const char* after_attention = nullptr;
  const char* before_mlp = "post_self_attention_layer_norm";
  const char* after_mlp = nullptr;
};

// Residual layer: x + norm(attention(norm(x))), then + norm(block(norm(x))).
struct Residual {
  std::function<Tensor(Tensor)> attention;
  std::function<LayerResult(Tensor)> block;
  NormNames norms = {};
  std::string suffix = {};  // of what activations are called, where a layer has two of these
  bool has_scalar = false;  // the layer's result is multiplied with a learned number
};
LayerResult residual_layer(Builder& builder, const Context& context, Tensor x, const Residual& parts);

// The same with heads of keys and values, and then an MLP or what `experts` makes, as this layer of the cycle has it.
LayerResult mixed_layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t position,
                        const std::function<LayerResult(Tensor)>& experts);

// The routed experts of a layer; `label`: of the router kernel's input dim.
LayerResult routed_experts(Builder& builder, const Context& context, const std::string& name, Tensor x, const Tokens& tokens,
                           const char* label);
// The same, and the shared ones where the model has some.
LayerResult all_experts(Builder& builder, const Context& context, const std::string& name, Tensor x, const Tokens& tokens,
                        const char* label);

// Layers of one kind, stacked.
std::vector<LayerGroup> one_group(const Context& context, Layer layer);

// One function a family, registered by decoder block in families.cc.
std::vector<LayerGroup> plain_layers(const Context& context);
std::vector<LayerGroup> llama_layers(const Context& context);
std::vector<LayerGroup> llama4_layers(const Context& context);
std::vector<LayerGroup> mixtral_layers(const Context& context);
std::vector<LayerGroup> deepseek_layers(const Context& context);
std::vector<LayerGroup> qwen2_moe_layers(const Context& context);
std::vector<LayerGroup> qwen3_layers(const Context& context);
std::vector<LayerGroup> gpt_oss_layers(const Context& context);
std::vector<LayerGroup> gemma_layers(const Context& context);
std::vector<LayerGroup> gemma4_layers(const Context& context);
std::vector<LayerGroup> gpt3_layers(const Context& context);
std::vector<LayerGroup> olmo3_layers(const Context& context);
std::vector<LayerGroup> envy_layers(const Context& context);
std::vector<LayerGroup> qwen3_custom_layers(const Context& context);

std::vector<LayerGroup> layers_of(const Context& context);

}  // namespace moesh::models
