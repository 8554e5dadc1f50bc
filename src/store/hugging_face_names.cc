#include "store/hugging_face_names.h"

#include <array>
#include <cassert>
#include <cctype>
#include <optional>
#include <span>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"

namespace moesh::store {
namespace {

using Row = HuggingFaceRow;

constexpr Row kWhole[] = {
    {"token_embedder/embedding", "vm", "model.embed_tokens.weight", "v,m"},
    {"decoder/decoder_norm/scale", "m", "model.norm.weight", "m"},
    {"decoder/logits_dense/kernel", "mv", "lm_head.weight", "v,m"},
};

constexpr Row kNorms[] = {
    {"pre_self_attention_layer_norm/scale", "m", "input_layernorm.weight", "m"},
    {"post_self_attention_layer_norm/scale", "m", "post_attention_layernorm.weight", "m"},
};

constexpr Row kAttention[] = {
    {"self_attention/query/kernel", "mhD", "self_attn.q_proj.weight", "hD,m", 0, true},
    {"self_attention/query/bias", "hD", "self_attn.q_proj.bias", "hD", 0, true},
    {"self_attention/key/kernel", "mhD", "self_attn.k_proj.weight", "hD,m"},
    {"self_attention/key/bias", "hD", "self_attn.k_proj.bias", "hD"},
    {"self_attention/value/kernel", "mhd", "self_attn.v_proj.weight", "hd,m"},
    {"self_attention/value/bias", "hd", "self_attn.v_proj.bias", "hd"},
    {"self_attention/out/kernel", "hdm", "self_attn.o_proj.weight", "m,hd"},
    {"self_attention/out/bias", "m", "self_attn.o_proj.bias", "m"},
    {"self_attention/query_norm/scale", "D", "self_attn.q_norm.weight", "D"},
    {"self_attention/key_norm/scale", "D", "self_attn.k_norm.weight", "D"},
};

constexpr Row kLatentAttention[] = {
    {"self_attention/query/kernel", "mhD", "self_attn.q_proj.weight", "hD,m", 0, false},
    {"self_attention/wq_a/kernel", "mq", "self_attn.q_a_proj.weight", "q,m"},
    {"self_attention/q_norm/scale", "q", "self_attn.q_a_layernorm.weight", "q"},
    {"self_attention/wq_b/kernel", "qhD", "self_attn.q_b_proj.weight", "hD,q"},
    {"self_attention/wkv_a/kernel", "mR", "self_attn.kv_a_proj_with_mqa.weight", "R,m"},
    {"self_attention/kv_norm/scale", "r", "self_attn.kv_a_layernorm.weight", "r"},
    {"self_attention/wkv_b/kernel", "rhd", "self_attn.kv_b_proj.weight", "hd,r"},
    {"self_attention/out/kernel", "hdm", "self_attn.o_proj.weight", "m,hd"},
    {"self_attention/indexer/wq_b/kernel", "qij", "self_attn.indexer.wq_b.weight", "ij,q"},
    {"self_attention/indexer/wk/kernel", "mj", "self_attn.indexer.wk.weight", "j,m"},
    {"self_attention/indexer/k_norm/scale", "j", "self_attn.indexer.k_norm.weight", "j"},
    {"self_attention/indexer/k_norm/bias", "j", "self_attn.indexer.k_norm.bias", "j"},
    {"self_attention/indexer/weights_proj/kernel", "mi", "self_attn.indexer.weights_proj.weight", "i,m"},
};

constexpr Row kMlp[] = {
    {"mlp/wi_0/kernel", "mf", "mlp.gate_proj.weight", "f,m"},
    {"mlp/wi_1/kernel", "mf", "mlp.up_proj.weight", "f,m"},
    {"mlp/wo/kernel", "fm", "mlp.down_proj.weight", "m,f"},
};

constexpr Row kMixtralExperts[] = {
    {"MoeBlock_0/gate/kernel", "me", "block_sparse_moe.gate.weight", "e,m"},
    {"MoeBlock_0/wi_0", "emf", "block_sparse_moe.experts.{}.w1.weight", "f,m"},
    {"MoeBlock_0/wi_1", "emf", "block_sparse_moe.experts.{}.w3.weight", "f,m"},
    {"MoeBlock_0/wo", "efm", "block_sparse_moe.experts.{}.w2.weight", "m,f"},
};

constexpr Row kQwenExperts[] = {
    {"moe_block/gate/kernel", "me", "mlp.gate.weight", "e,m"},
    {"moe_block/wi_0", "emf", "mlp.experts.{}.gate_proj.weight", "f,m"},
    {"moe_block/wi_1", "emf", "mlp.experts.{}.up_proj.weight", "f,m"},
    {"moe_block/wo", "efm", "mlp.experts.{}.down_proj.weight", "m,f"},
};

constexpr Row kGatedSharedExpert[] = {
    {"shared_experts/wi_0/kernel", "mf", "mlp.shared_expert.gate_proj.weight", "f,m"},
    {"shared_experts/wi_1/kernel", "mf", "mlp.shared_expert.up_proj.weight", "f,m"},
    {"shared_experts/wo/kernel", "fm", "mlp.shared_expert.down_proj.weight", "m,f"},
    {"shared_expert_gate/kernel", "m", "mlp.shared_expert_gate.weight", "1,m"},
};

constexpr Row kQwen3Next[] = {
    {"input_layernorm/scale", "m", "input_layernorm.weight", "m"},
    {"post_attention_layernorm/scale", "m", "post_attention_layernorm.weight", "m"},
    {"attention/attention/query/kernel", "mhd", "self_attn.q_proj.weight", "hd,m"},
    {"attention/attention/key/kernel", "mhd", "self_attn.k_proj.weight", "hd,m"},
    {"attention/attention/value/kernel", "mhd", "self_attn.v_proj.weight", "hd,m"},
    {"attention/attention/out/kernel", "fm", "self_attn.o_proj.weight", "m,f"},
    {"attention/attention/query_norm/scale", "d", "self_attn.q_norm.weight", "d"},
    {"attention/attention/key_norm/scale", "d", "self_attn.k_norm.weight", "d"},
    {"attention/conv1d/kernel", "wuc", "linear_attn.conv1d.weight", "c,u,w"},
    {"attention/A_log", "h", "linear_attn.A_log", "h"},
    {"attention/dt_bias", "h", "linear_attn.dt_bias", "h"},
    {"attention/norm/rms_norm/scale", "d", "linear_attn.norm.weight", "d"},
    {"attention/out_proj/kernel", "fm", "linear_attn.out_proj.weight", "m,f"},
    {"mlp/routed_experts/gate/kernel", "me", "mlp.gate.weight", "e,m"},
    {"mlp/shared_expert/wi_0/kernel", "mf", "mlp.shared_expert.gate_proj.weight", "f,m"},
    {"mlp/shared_expert/wi_1/kernel", "mf", "mlp.shared_expert.up_proj.weight", "f,m"},
    {"mlp/shared_expert/wo/kernel", "fm", "mlp.shared_expert.down_proj.weight", "m,f"},
    {"mlp/shared_expert_gate/kernel", "mu", "mlp.shared_expert_gate.weight", "u,m"},
};

constexpr Row kQwen3NextProjections[] = {
    {"attention/in_proj_qkvz/kernel", "mf", "linear_attn.in_proj_qkvz.weight", "f,m"},
    {"attention/in_proj_ba/kernel", "mf", "linear_attn.in_proj_ba.weight", "f,m"},
};

constexpr Row kQwen35Projections[] = {
    {"attention/in_proj_qkvz/kernel", "mf", "linear_attn.in_proj_qkv.weight", "f,m", 0, false, "qkvz", "qkv"},
    {"attention/in_proj_qkvz/kernel", "mf", "linear_attn.in_proj_z.weight", "f,m", 0, false, "qkvz", "z"},
    {"attention/in_proj_ba/kernel", "mf", "linear_attn.in_proj_b.weight", "f,m", 0, false, "ba", "b"},
    {"attention/in_proj_ba/kernel", "mf", "linear_attn.in_proj_a.weight", "f,m", 0, false, "ba", "a"},
};

constexpr Row kQwen3NextExperts[] = {
    {"mlp/routed_experts/wi_0", "emf", "mlp.experts.{}.gate_proj.weight", "f,m"},
    {"mlp/routed_experts/wi_1", "emf", "mlp.experts.{}.up_proj.weight", "f,m"},
    {"mlp/routed_experts/wo", "efm", "mlp.experts.{}.down_proj.weight", "m,f"},
};

constexpr Row kQwen35Stacks[] = {
    {"mlp/routed_experts/wi_0", "emf", "mlp.experts.gate_up_proj", "e,2f,m", 0},
    {"mlp/routed_experts/wi_1", "emf", "mlp.experts.gate_up_proj", "e,2f,m", 1},
    {"mlp/routed_experts/wo", "efm", "mlp.experts.down_proj", "e,m,f"},
};

constexpr Row kNormsAround[] = {
    {"pre_self_attention_norm/scale", "m", "input_layernorm.weight", "m"},
    {"post_self_attention_norm/scale", "m", "post_attention_layernorm.weight", "m"},
    {"pre_ffw_norm/scale", "m", "pre_feedforward_layernorm.weight", "m"},
    {"post_ffw_norm/scale", "m", "post_feedforward_layernorm.weight", "m"},
};

constexpr Row kDeepseekExperts[] = {
    {"DeepSeekMoeBlock_0/MoeBlock_0/gate/kernel", "me", "mlp.gate.weight", "e,m"},
    {"DeepSeekMoeBlock_0/MoeBlock_0/gate/bias", "e", "mlp.gate.e_score_correction_bias", "e"},
    {"DeepSeekMoeBlock_0/MoeBlock_0/wi_0", "emf", "mlp.experts.{}.gate_proj.weight", "f,m"},
    {"DeepSeekMoeBlock_0/MoeBlock_0/wi_1", "emf", "mlp.experts.{}.up_proj.weight", "f,m"},
    {"DeepSeekMoeBlock_0/MoeBlock_0/wo", "efm", "mlp.experts.{}.down_proj.weight", "m,f"},
    {"DeepSeekMoeBlock_0/shared_experts/wi_0/kernel", "mf", "mlp.shared_experts.gate_proj.weight", "f,m"},
    {"DeepSeekMoeBlock_0/shared_experts/wi_1/kernel", "mf", "mlp.shared_experts.up_proj.weight", "f,m"},
    {"DeepSeekMoeBlock_0/shared_experts/wo/kernel", "fm", "mlp.shared_experts.down_proj.weight", "m,f"},
};

// Of a module of multi-token prediction, besides its layer.
constexpr Row kModule[] = {
    {"embedding_norm/scale", "m", "enorm.weight", "m"},
    {"hidden_state_norm/scale", "m", "hnorm.weight", "m"},
    {"projection/kernel", "jm", "eh_proj.weight", "m,j"},
};

constexpr Row kLlama4Mlp[] = {
    {"mlp/wi_0/kernel", "mf", "feed_forward.gate_proj.weight", "f,m"},
    {"mlp/wi_1/kernel", "mf", "feed_forward.up_proj.weight", "f,m"},
    {"mlp/wo/kernel", "fm", "feed_forward.down_proj.weight", "m,f"},
};

constexpr Row kLlama4Experts[] = {
    {"Llama4MoEBlock_0/MoeBlock_0/gate/kernel", "me", "feed_forward.router.weight", "e,m"},
    {"Llama4MoEBlock_0/MoeBlock_0/wi_0", "emf", "feed_forward.experts.gate_up_proj", "e,m,2f", 0},
    {"Llama4MoEBlock_0/MoeBlock_0/wi_1", "emf", "feed_forward.experts.gate_up_proj", "e,m,2f", 1},
    {"Llama4MoEBlock_0/MoeBlock_0/wo", "efm", "feed_forward.experts.down_proj", "e,f,m"},
    {"Llama4MoEBlock_0/shared_experts/wi_0/kernel", "mf", "feed_forward.shared_expert.gate_proj.weight", "f,m"},
    {"Llama4MoEBlock_0/shared_experts/wi_1/kernel", "mf", "feed_forward.shared_expert.up_proj.weight", "f,m"},
    {"Llama4MoEBlock_0/shared_experts/wo/kernel", "fm", "feed_forward.shared_expert.down_proj.weight", "m,f"},
};

constexpr Row kNormsBefore[] = {
    {"pre_self_attention_norm/scale", "m", "input_layernorm.weight", "m"},
    {"pre_ffw_norm/scale", "m", "post_attention_layernorm.weight", "m"},
};

constexpr Row kGemma4[] = {
    {"layer_scalar", "s", "layer_scalar", "s"},
    {"mlp/pre_forward_scale_2", "m", "router.scale", "m"},
    {"mlp/pre_feedforward_layernorm_2/scale", "m", "pre_feedforward_layernorm_2.weight", "m"},
    {"mlp/post_feedforward_layernorm_1/scale", "m", "post_feedforward_layernorm_1.weight", "m"},
    {"mlp/post_feedforward_layernorm_2/scale", "m", "post_feedforward_layernorm_2.weight", "m"},
    {"mlp/moe_block/MoeBlock_0/gate/kernel", "me", "router.proj.weight", "e,m"},
    {"mlp/moe_block/MoeBlock_0/per_expert_scale", "e", "router.per_expert_scale", "e"},
    {"mlp/moe_block/MoeBlock_0/wi_0", "emf", "experts.gate_up_proj", "e,2f,m", 0},
    {"mlp/moe_block/MoeBlock_0/wi_1", "emf", "experts.gate_up_proj", "e,2f,m", 1},
    {"mlp/moe_block/MoeBlock_0/wo", "efm", "experts.down_proj", "e,m,f"},
    {"mlp/moe_block/shared_experts/wi_0/kernel", "mf", "mlp.gate_proj.weight", "f,m"},
    {"mlp/moe_block/shared_experts/wi_1/kernel", "mf", "mlp.up_proj.weight", "f,m"},
    {"mlp/moe_block/shared_experts/wo/kernel", "fm", "mlp.down_proj.weight", "m,f"},
};

constexpr Row kOlmo3[] = {
    {"post_self_attention_layer_norm/scale", "m", "post_attention_layernorm.weight", "m"},
    {"post_mlp_layer_norm/scale", "m", "post_feedforward_layernorm.weight", "m"},
    {"attention/query/kernel", "mhD", "self_attn.q_proj.weight", "hD,m", 0, true},
    {"attention/query/bias", "hD", "self_attn.q_proj.bias", "hD", 0, true},
    {"attention/key/kernel", "mhD", "self_attn.k_proj.weight", "hD,m"},
    {"attention/key/bias", "hD", "self_attn.k_proj.bias", "hD"},
    {"attention/value/kernel", "mhd", "self_attn.v_proj.weight", "hd,m"},
    {"attention/value/bias", "hd", "self_attn.v_proj.bias", "hd"},
    {"attention/out/kernel", "hdm", "self_attn.o_proj.weight", "m,hd"},
    {"attention/out/bias", "m", "self_attn.o_proj.bias", "m"},
    {"attention/query_norm/scale", "N", "self_attn.q_norm.weight", "N"},
    {"attention/key_norm/scale", "N", "self_attn.k_norm.weight", "N"},
};

constexpr Row kGptOss[] = {
    {"GptOssAttention/query/kernel", "mhD", "self_attn.q_proj.weight", "hD,m"},
    {"GptOssAttention/query/bias", "hD", "self_attn.q_proj.bias", "hD"},
    {"GptOssAttention/key/kernel", "mhD", "self_attn.k_proj.weight", "hD,m"},
    {"GptOssAttention/key/bias", "hD", "self_attn.k_proj.bias", "hD"},
    {"GptOssAttention/value/kernel", "mhd", "self_attn.v_proj.weight", "hd,m"},
    {"GptOssAttention/value/bias", "hd", "self_attn.v_proj.bias", "hd"},
    {"GptOssAttention/out/kernel", "hdm", "self_attn.o_proj.weight", "m,hd"},
    {"GptOssAttention/out/bias", "m", "self_attn.o_proj.bias", "m"},
    {"GptOssAttention/sinks", "h", "self_attn.sinks", "h"},
    {"GptOssMlp/gate/kernel", "me", "mlp.router.weight", "e,m"},
    {"GptOssMlp/gate/bias", "e", "mlp.router.bias", "e"},
    {"GptOssMlp/wi_0", "emf", "mlp.experts.gate_up_proj", "e,m,f2", 0},
    {"GptOssMlp/wi_1", "emf", "mlp.experts.gate_up_proj", "e,m,f2", 1},
    {"GptOssMlp/wi_0_bias", "ef", "mlp.experts.gate_up_proj_bias", "e,f2", 0},
    {"GptOssMlp/wi_1_bias", "ef", "mlp.experts.gate_up_proj_bias", "e,f2", 1},
    {"GptOssMlp/wo", "efm", "mlp.experts.down_proj", "e,f,m"},
    {"GptOssMlp/wo_bias", "em", "mlp.experts.down_proj_bias", "e,m"},
};

using Rows = std::span<const Row>;

// How a family's own files rotate heads; as_model if that depends on its settings.
enum class RopeStyle { halves, as_model };

struct Family {
  std::string_view block;
  RopeStyle rope_style;
  std::array<Rows, 5> layer;
};

constexpr Family kFamilies[] = {
    {"llama2", RopeStyle::halves, {kNorms, kAttention, kMlp}},
    {"llama4", RopeStyle::as_model, {kNorms, kAttention, kLlama4Mlp, kLlama4Experts}},
    {"mistral", RopeStyle::halves, {kNorms, kAttention, kMlp}},
    {"mixtral", RopeStyle::halves, {kNorms, kAttention, kMixtralExperts}},
    {"qwen2", RopeStyle::halves, {kNorms, kAttention, kMlp}},
    {"qwen2_moe", RopeStyle::halves, {kNorms, kAttention, kMlp, kQwenExperts, kGatedSharedExpert}},
    {"qwen3", RopeStyle::halves, {kNorms, kAttention, kMlp}},
    {"qwen3_moe", RopeStyle::halves, {kNorms, kAttention, kMlp, kQwenExperts}},
    {"qwen3_next", RopeStyle::halves, {kQwen3Next, kQwen3NextProjections, kQwen3NextExperts}},
    {kQwen35, RopeStyle::halves, {kQwen3Next, kQwen35Projections, kQwen3NextExperts}},
    {kQwen35OfStacks, RopeStyle::halves, {kQwen3Next, kQwen35Projections, kQwen35Stacks}},
    {"deepseek", RopeStyle::as_model, {kNorms, kLatentAttention, kMlp, kDeepseekExperts, kModule}},
    {kGlm, RopeStyle::halves, {kNorms, kAttention, kMlp, kDeepseekExperts, kModule}},
    {"gpt_oss", RopeStyle::halves, {kNorms, kGptOss}},
    {"gemma", RopeStyle::halves, {kNormsBefore, kAttention, kMlp}},
    {"gemma2", RopeStyle::halves, {kNormsAround, kAttention, kMlp}},
    {"gemma3", RopeStyle::halves, {kNormsAround, kAttention, kMlp}},
    {"gemma4", RopeStyle::halves, {kNormsAround, kAttention, kMlp, kGemma4}},
    {"olmo3", RopeStyle::halves, {kOlmo3, kMlp}},
};

const Family& family_of(const std::string& block) {
  for (const Family& family : kFamilies) {
    if (family.block == block) return family;
  }
  refuse(fmt::format("Hugging Face has no models of decoder_block={}", block), "decoder_block", "weights of its own: a checkpoint's");
}

// One, or one for each tensor of theirs that a kernel of ours is cut into.
std::vector<const Row*> find(Rows rows, std::string_view path) {
  std::vector<const Row*> found;
  for (const Row& row : rows) {
    if (row.ours == path) found.push_back(&row);
  }
  return found;
}

// "decoder/moe_layers_3/mlp/wo/kernel": layer 3 of those in "moe_layers", and the rest.
struct LayerPath {
  std::int64_t layer = 0;
  std::string rest;
};

// "mtp_block/mtp_layer_1/mtp_1_projection/kernel": of the first layer behind the model's own. A module's transformer layer has the names of
// a layer, its other parts names of their own.
std::optional<LayerPath> module_path(const HuggingFaceModel& model, const std::string& path) {
  constexpr std::string_view kAbove = "mtp_block/mtp_layer_", kLayer = "transformer_layer/";
  if (!path.starts_with(kAbove)) return std::nullopt;
  const std::size_t end = path.find('/', kAbove.size());
  if (end == std::string::npos) return std::nullopt;
  const auto module = parse_integer(path.substr(kAbove.size(), end - kAbove.size()));
  const std::string prefix = fmt::format("/mtp_{}_", module.value_or(0));
  if (!module || path.compare(end, prefix.size(), prefix) != 0) return std::nullopt;
  const std::string rest = path.substr(end + prefix.size());
  return LayerPath{model.layers + *module - 1, rest.starts_with(kLayer) ? rest.substr(kLayer.size()) : rest};
}

std::optional<LayerPath> layer_path(const HuggingFaceModel& model, const std::string& path) {
  if (const auto module = module_path(model, path)) return module;
  constexpr std::string_view kAbove = "decoder/";
  const std::size_t end = path.find('/', kAbove.size());
  const std::size_t number = path.rfind('_', end);
  if (!path.starts_with(kAbove) || end == std::string::npos || number == std::string::npos || number < kAbove.size())
    return std::nullopt;
  const std::string group = path.substr(kAbove.size(), number - kAbove.size());
  const auto layer = parse_integer(path.substr(number + 1, end - number - 1));
  if (!layer || (group != "layers" && group != "dense_layers" && group != "moe_layers")) return std::nullopt;
  return LayerPath{*layer + (group == "moe_layers" ? model.dense_layers : 0), path.substr(end + 1)};
}

std::int64_t size_of_letter(const HuggingFacePlace& place, char letter) {
  if (letter == '2') return 2;
  if (letter == '1') return 1;
  const std::size_t dim = place.row->our_dims.find(letter);
  assert(dim != std::string_view::npos && "a letter of theirs that ours lack");
  return place.our_shape[dim];
}

std::int64_t width_of(const HuggingFaceModel& model, std::string_view projections) {
  std::int64_t width = 0;
  for (const char letter : projections) width += model.projections.at(letter);
  return width;
}

Shape shape_of_theirs(const HuggingFaceModel& model, const HuggingFacePlace& place) {
  Shape shape;
  for (const std::string& dim : split(std::string(place.row->their_dims), ',')) {
    std::int64_t size = 1;
    for (const char letter : dim) size *= size_of_letter(place, letter);
    shape.push_back(size);
  }
  if (!place.row->held.empty()) shape.front() = model.key_heads * width_of(model, place.row->held);
  return shape;
}

// The bytes from one index of a letter to the next.
std::map<char, std::int64_t> strides_of_letters(const HuggingFacePlace& place,
                                                const std::vector<std::int64_t>& strides) {
  std::map<char, std::int64_t> made;
  const std::vector<std::string> dims = split(std::string(place.row->their_dims), ',');
  for (std::size_t dim = 0; dim < dims.size(); ++dim) {
    std::int64_t stride = strides[dim];
    for (std::size_t i = dims[dim].size(); i-- > 0;) {
      made[dims[dim][i]] = stride;
      stride *= size_of_letter(place, dims[dim][i]);
    }
  }
  return made;
}

// Where index `i` of a rotated dim is in theirs, if the model rotates neighbours and theirs halves. The dim may span several heads.
std::int64_t index_of_theirs(const HuggingFaceModel& model, std::int64_t size, std::int64_t i) {
  const std::int64_t of_head = model.head_dim > 0 ? i / model.head_dim * model.head_dim : 0;
  const std::int64_t first = model.rotates_last_dims ? size - model.rotary_dim : of_head;
  const std::int64_t at = i - first;
  if (at < 0 || at >= model.rotary_dim) return i;
  return first + at % 2 * (model.rotary_dim / 2) + at / 2;
}

// The part with that dim reordered, as one part for each index of the dim.
std::vector<Part> reordered(const HuggingFaceModel& model, const Part& part, std::size_t dim) {
  std::vector<Part> made;
  const std::int64_t size = part.block[dim].size();
  for (std::int64_t i = 0; i < size; ++i) {
    Part one = part;
    one.block[dim] = {i, i + 1};
    one.data += index_of_theirs(model, size, i) * part.strides[dim];
    made.push_back(std::move(one));
  }
  return made;
}

// The part of a kernel that makes several projections for each head, as one part for each projection and head that theirs holds.
std::vector<Part> cut(const HuggingFaceModel& model, const Row& row, const Part& part) {
  std::vector<Part> made;
  const std::size_t dim = row.our_dims.find('f');
  const std::int64_t of_head = width_of(model, row.projections);
  std::int64_t theirs = 0;
  for (const char letter : row.held) {
    const std::int64_t width = width_of(model, {&letter, 1});
    const std::int64_t before = width_of(model, row.projections.substr(0, row.projections.find(letter)));
    for (std::int64_t head = 0; head < model.key_heads; ++head, theirs += width) {
      Part one = part;
      const std::int64_t begin = head * of_head + before;
      one.block[dim] = {begin, begin + width};
      one.data += theirs * part.strides[dim];
      made.push_back(std::move(one));
    }
  }
  return made;
}

std::string numbered(std::string_view name, std::int64_t expert) {
  std::string made(name);
  if (const std::size_t hole = made.find("{}"); hole != std::string::npos)
    made.replace(hole, 2, std::to_string(expert));
  return made;
}

std::int64_t experts_of(const HuggingFacePlace& place) {
  const bool has_own = place.row->theirs.find("{}") != std::string_view::npos;
  return has_own ? size_of_letter(place, 'e') : 1;
}

}  // namespace

std::map<std::string, HuggingFaceTensor> hugging_face_tensors(const HuggingFaceModel& model,
                                                              const std::map<std::string, Shape>& ours) {
  const Family& family = family_of(model.family);
  std::map<std::string, HuggingFaceTensor> all;
  for (const auto& [name, shape] : ours) {
    const std::optional<LayerPath> layer = layer_path(model, name);
    std::vector<const Row*> found = layer ? std::vector<const Row*>() : find(kWhole, name);
    for (const Rows rows : family.layer) {
      if (layer && found.empty()) found = find(rows, layer->rest);
    }
    if (found.empty()) refuse("Hugging Face's files have no name for it", name, "convert a model as its family has it");
    const std::string name_of_layer = layer ? fmt::format("model.layers.{}.", layer->layer) : "";
    for (const Row* row : found) {
      HuggingFacePlace place{row, name, shape, 0};
      for (place.expert = 0; place.expert < experts_of(place); ++place.expert) {
        HuggingFaceTensor& tensor = all[name_of_layer + numbered(row->theirs, place.expert)];
        tensor.shape = shape_of_theirs(model, place);
        tensor.places.push_back(place);
      }
    }
  }
  return all;
}

std::vector<Part> parts_of_ours(const HuggingFaceModel& model, const HuggingFacePlace& place, std::byte* data,
                                DType dtype, const std::vector<std::int64_t>& strides) {
  std::map<char, std::int64_t> letters = strides_of_letters(place, strides);
  Part part{whole_block(place.our_shape), dtype, data + place.row->half * letters['2'], {}};
  std::size_t rotated = place.our_shape.size();
  for (std::size_t dim = 0; dim < place.our_shape.size(); ++dim) {
    const char letter = place.row->our_dims[dim];
    const auto found = letters.find(letter);
    if (found == letters.end()) part.block[dim] = {place.expert, place.expert + 1};
    part.strides.push_back(found == letters.end() ? 0 : found->second);
    if (std::isupper(static_cast<unsigned char>(letter)) != 0) rotated = dim;
  }
  if (!place.row->held.empty()) return cut(model, *place.row, part);
  const bool differs = model.rope_is_interleaved && family_of(model.family).rope_style == RopeStyle::halves;
  if (!differs || rotated == place.our_shape.size()) return {part};
  return reordered(model, part, rotated);
}

bool may_be_left_out(const HuggingFaceModel& model, const std::string& name) {
  if (model.tied_embedding && name == "lm_head.weight") return true;
  if (name.ends_with(".rotary_emb.inv_freq")) return true;
  const bool is_of_qwen = model.family == "qwen3_next" || model.family == kQwen35 || model.family == kQwen35OfStacks;
  if (is_of_qwen && name.starts_with("mtp.")) return true;
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) return false;
  const std::size_t end = name.find('.', kLayers.size());
  const auto layer = parse_integer(name.substr(kLayers.size(), end - kLayers.size()));
  return layer && *layer >= model.layers && (model.family == "deepseek" || model.family == kGlm);
}

std::optional<std::string> name_in_text(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kBeginnings[] = {{"language_model.model.", "model."},
                                                                           {"model.language_model.", "model."},
                                                                           {"language_model.lm_head.", "lm_head."},
                                                                           {"lm_head.", "lm_head."},
                                                                           {"mtp.", "mtp."}};
  for (const auto& [theirs, alone] : kBeginnings) {
    if (name.starts_with(theirs)) return std::string(alone) + std::string(name.substr(theirs.size()));
  }
  return std::nullopt;
}

std::optional<std::string> part_of_images(std::string_view name) {
  constexpr std::string_view kAround = "model.";
  if (name.starts_with(kAround)) name.remove_prefix(kAround.size());
  for (const std::string_view part : {"vision_tower", "vision_model", "multi_modal_projector", "embed_vision", "visual"}) {
    if (name.starts_with(part) && name.substr(part.size()).starts_with('.')) return std::string(part);
  }
  return std::nullopt;
}

}  // namespace moesh::store
