// What defines a family of models: its layers, in groups of equal layers.
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
  Tensor load;          // [E + 1], see nn::MoeResult; absent for a layer without experts and outside training
  Tensor highest = {};     // [heads], see nn::Attended
  Tensor index_loss = {};  // a scalar, see nn::Attended
};

// `position`: the layer's position in its cycle.
using Layer = std::function<LayerResult(Builder&, const Context&, Tensor x, const Tokens&, std::int64_t position)>;

// Names for nested stacks, where a cycle is a stack of all its layers but the last, and then the last: of the stack of cycles, of the stack
// within it, and of the last layer.
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
  bool is_written_out = false;   // is not stacked, even if other groups are
  bool has_experts = true;       // that is, some of its layers, in a model with experts
  const char* member = nullptr;  // the names of the layers of a cycle begin with it; null: with layers_, if a cycle has several

  std::string member_prefix(std::int64_t layers) const { return member != nullptr ? member : layers > 1 ? "layers_" : ""; }
};

// The names of a layer's norms, before and after attention, and before and after the MLP or the experts; null for a norm that it lacks.
struct NormNames {
  const char* before_attention = "pre_self_attention_layer_norm";
  const char* after_attention = nullptr;
  const char* before_mlp = "post_self_attention_layer_norm";
  const char* after_mlp = nullptr;
};

// A residual layer: x + norm(attention(norm(x))), then + norm(block(norm(x))).
struct Residual {
  std::function<Tensor(Tensor)> attention;
  std::function<LayerResult(Tensor)> block;
  NormNames norms = {};
  std::string suffix = {};  // appended to the names of activations, if a layer is made of two of these
  bool has_scalar = false;  // multiplies the layer's result by a learned scalar
};
LayerResult residual_layer(Builder& builder, const Context& context, Tensor x, const Residual& parts);

// A residual layer of multi-head attention and an MLP or what `experts` computes, whichever this layer of the cycle has.
LayerResult mixed_layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t position,
                        const std::function<LayerResult(Tensor)>& experts);

// The routed experts of a layer; `label`: of the input dim of the router's kernel. `is_given`: a table gives each token's experts.
LayerResult routed_experts(Builder& builder, const Context& context, const std::string& name, Tensor x, const Tokens& tokens,
                           const char* label, bool is_given = false);
// The routed experts and, if the model has any, the shared ones.
LayerResult all_experts(Builder& builder, const Context& context, const std::string& name, Tensor x, const Tokens& tokens,
                        const char* label, bool is_given = false);

// How much a shared expert counts for each token: a gate that makes one number of h, [B, S, M], broadcast to its shape.
Tensor share_of_token(Tensor h, Tensor weight);

// All layers as one stacked group.
std::vector<LayerGroup> one_group(const Context& context, Layer layer);

// One function per family, registered by decoder block in families.cc.
std::vector<LayerGroup> plain_layers(const Context& context);
std::vector<LayerGroup> llama_layers(const Context& context);
std::vector<LayerGroup> llama4_layers(const Context& context);
std::vector<LayerGroup> mixtral_layers(const Context& context);
std::vector<LayerGroup> deepseek_layers(const Context& context);
std::vector<LayerGroup> deepseek4_layers(const Context& context);
std::vector<LayerGroup> qwen2_moe_layers(const Context& context);
std::vector<LayerGroup> qwen3_layers(const Context& context);
std::vector<LayerGroup> gpt_oss_layers(const Context& context);
std::vector<LayerGroup> gemma_layers(const Context& context);
std::vector<LayerGroup> gemma4_layers(const Context& context);
std::vector<LayerGroup> qwen3_next_layers(const Context& context);
std::vector<LayerGroup> gpt3_layers(const Context& context);
std::vector<LayerGroup> olmo3_layers(const Context& context);
std::vector<LayerGroup> envy_layers(const Context& context);
std::vector<LayerGroup> qwen3_custom_layers(const Context& context);

std::vector<LayerGroup> layers_of(const Context& context);

}  // namespace moesh::models
