// Small models of each family that decode, given by their command lines.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "backend/element.h"
#include "decode/decoder.h"
#include "models/draws.h"
#include "tests/paths.h"
#include "tests/support.h"
#include "train/initialize.h"

namespace moesh::test {

struct SmallModel {
  std::string family;
  std::string request;
};

inline void PrintTo(const SmallModel& model, std::ostream* out) { *out << model.family; }

inline const std::string kSmallWidths =
    "dtype=float32 weight_dtype=float32 override_model_config=true base_emb_dim=64 base_num_query_heads=8 base_num_kv_heads=8 "
    "head_dim=16 base_mlp_dim=64 base_moe_mlp_dim=32 vocab_size=128 max_target_length=20 per_device_batch_size=1 ";

inline const std::vector<SmallModel>& small_models() {
  static const std::vector<SmallModel> all{
      {"llama2", "model_name=llama2-7b base_num_decoder_layers=2 "},
      {"mixtral", "model_name=mixtral-8x7b base_mlp_dim=32 base_num_decoder_layers=2 num_experts=8 num_experts_per_tok=2 "},
      {"deepseek3",
       "model_name=deepseek3-tiny base_num_decoder_layers=3 first_num_dense_layers=1 q_lora_rank=32 kv_lora_rank=16 "
       "qk_nope_head_dim=16 qk_rope_head_dim=8 v_head_dim=16 num_experts=16 num_experts_per_tok=4 shared_experts=1 "
       "n_routing_groups=4 topk_routing_group=2 "},
      {"streams",
       "model_name=deepseek3-tiny base_num_decoder_layers=2 first_num_dense_layers=1 q_lora_rank=32 kv_lora_rank=16 "
       "qk_nope_head_dim=16 qk_rope_head_dim=8 v_head_dim=16 num_experts=8 num_experts_per_tok=2 mhc_expansion_rate=3 "},
      {"deepseek32",
       "model_name=deepseek3-tiny base_num_decoder_layers=2 first_num_dense_layers=1 q_lora_rank=32 kv_lora_rank=16 qk_nope_head_dim=16 "
       "qk_rope_head_dim=8 v_head_dim=16 num_experts=8 num_experts_per_tok=2 use_indexer=true indexer_n_heads=8 indexer_head_dim=12 "
       "indexer_topk=5 "},
      {"qwen3_moe", "model_name=qwen3-30b-a3b base_num_decoder_layers=2 num_experts=8 num_experts_per_tok=3 "},
      {"qwen3_next",
       "model_name=qwen3-next-80b-a3b base_num_decoder_layers=4 num_experts=8 num_experts_per_tok=3 base_mlp_dim=32 gdn_num_key_heads=8 "
       "gdn_num_value_heads=16 gdn_key_head_dim=8 gdn_value_head_dim=12 "},
      {"gpt_oss", "model_name=gpt-oss-20b base_num_decoder_layers=4 num_experts=8 num_experts_per_tok=2 sliding_window_size=8 "},
      {"llama4",
       "model_name=llama4-17b-128e base_num_decoder_layers=4 num_experts=8 use_qk_norm=true chunk_attn_window_size=6 "
       "temperature_tuning_floor=4 "},
      {"gpt3", "model_name=gpt3-52k base_num_decoder_layers=2 attention=autoselected "},
      {"gemma2", "model_name=gemma2-2b base_num_decoder_layers=2 sliding_window_size=8 "},
      {"gemma3", "model_name=gemma3-4b base_num_decoder_layers=7 sliding_window_size=8 "},
      {"gemma4",
       "model_name=gemma4-26b base_num_decoder_layers=8 sliding_window_size=8 global_head_dim=32 global_num_kv_heads=8 num_experts=8 "
       "num_experts_per_tok=2 "},
      {"olmo3", "model_name=olmo3-7b base_num_decoder_layers=4 sliding_window_size=8 "},
      {"deepseek4",
       "model_name=deepseek4-tiny base_mlp_dim=32 base_num_decoder_layers=4 base_num_kv_heads=1 first_num_hash_layers=2 "
       "compress_ratios=[0,4,128,4] sliding_window_size=8 q_lora_rank=32 qk_rope_head_dim=8 o_groups=8 o_lora_rank=8 indexer_n_heads=8 "
       "indexer_head_dim=16 indexer_topk=2 num_experts=8 num_experts_per_tok=2 logical_axis_rules=[[kv_heads,[]]] "},
      {"deepseek4_pools",
       "model_name=deepseek4-tiny base_mlp_dim=32 base_num_decoder_layers=4 base_num_kv_heads=1 first_num_hash_layers=1 "
       "compress_ratios=[4,8,0,5] scan_layers=false sliding_window_size=8 q_lora_rank=32 qk_rope_head_dim=16 o_groups=8 o_lora_rank=8 "
       "indexer_n_heads=8 indexer_head_dim=16 indexer_topk=32 num_experts=8 num_experts_per_tok=2 logical_axis_rules=[[kv_heads,[]]] "},
      {"default", "model_name=default decoder_block=default fused_qkv=true mlp_activations=[gelu] base_num_decoder_layers=2 "},
  };
  return all;
}

inline const SmallModel& small_model(const std::string& family) {
  for (const SmallModel& model : small_models()) {
    if (model.family == family) return model;
  }
  throw std::runtime_error("no family " + family);
}

// The request with rules by which every device has the key head, if that is the model's only one: most rules shard key heads.
inline std::string with_whole_key_head(std::string request) {
  if (request.find("base_num_kv_heads=1 ") == std::string::npos) return request;
  const std::string rules_key = " logical_axis_rules=[[";
  if (const std::size_t at = request.rfind(rules_key); at != std::string::npos)
    request.insert(at + rules_key.size() - 1, "[kv_heads,[]],");
  const std::string set_key = "custom_mesh_and_rule=";
  const std::size_t at = request.find(set_key);
  if (at == std::string::npos) return request;
  const std::size_t begin = at + set_key.size(), end = std::min(request.find(' ', begin), request.size());
  static const TemporaryFolder folder;
  std::string rules = read_text(source_folder() / "configs/rules" / (request.substr(begin, end - begin) + ".yml"));
  if (const std::size_t line = rules.find("- [kv_heads, ["); line != std::string::npos)
    rules.replace(line, rules.find('\n', line) - line, "- [kv_heads, []]");
  return request.replace(begin, end - begin, folder.write("one-key-head.yml", rules));
}

// Random values for the parameters of any graph. None is constant: norms, biases and sinks differ from the
// constants where training starts.
inline run::Array parameter_value(const graph::Graph& graph, const graph::Node& node, run::Pool& pool, backend::Workers& workers) {
  const graph::Value& value = graph.value(node.results.front());
  const graph::Initializer& initial = std::get<graph::ParameterOf>(node.attributes).initializer;
  using Kind = graph::Initializer::Kind;
  const bool is_rate = initial.kind == Kind::log_uniform;  // as it starts, most memories would be gone after a token
  const bool is_constant = initial.kind == Kind::zeros || initial.kind == Kind::ones || is_rate;
  const bool is_float = is_floating(value.dtype);
  run::Array made = train::initial_value(node.path, value.shape, is_float ? DType::float32 : value.dtype,
                                         is_constant ? graph::Initializer{Kind::normal, 1, 1} : initial, 7, pool,
                                         workers);
  const float base = initial.kind == Kind::ones ? 1 : is_rate ? -2 : 0;
  for (std::int64_t i = 0; is_constant && i < made.view.count(); ++i) made.as<float>()[i] = base + 0.2f * made.as<float>()[i];
  if (value.dtype != DType::bfloat16) return made;
  run::Array rounded = pool.allocate(value.shape, value.dtype);
  for (std::int64_t i = 0; i < made.view.count(); ++i) rounded.as<bfloat16>()[i] = backend::store<bfloat16>(made.as<float>()[i]);
  return rounded;
}

// Random tokens, [rows, length].
inline std::vector<std::int32_t> some_tokens(std::int64_t rows, std::int64_t length, std::int64_t vocabulary) {
  std::mt19937 random(11);
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < rows * length; ++i) ids.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(vocabulary)));
  return ids;
}

// A model that decodes on the mesh that its request names.
class Decoding {
 public:
  Decoding(const std::string& request, std::int64_t rows_, std::int64_t slots_, std::int64_t most_new_tokens_ = 512)
      : session(test::session(request)),
        rows(rows_),
        slots(slots_),
        most_new_tokens(most_new_tokens_),
        workers(2),
        decoder(workers),
        step_(program(1)) {
    const graph::Graph graph = graph_program(1).graph;
    for (const graph::Node& node : graph.nodes) {
      if (node.op == graph::Op::parameter) {
        decoder.set_parameter(node.path, parameter_value(graph, node, decoder.pool(), workers));
      }
    }
  }

  decode::Program graph_program(std::int64_t new_tokens) const {
    return decode::make_program({session.loaded.settings, session.shape, rows, 1, &session.mesh},
                                {new_tokens, slots, true, most_new_tokens}, session.target);
  }
  decode::Ready program(std::int64_t new_tokens) { return decoder.prepare(graph_program(new_tokens)); }
  decode::Ready& step() { return step_; }

  // The logits of the new tokens, [rows, new tokens, V].
  std::vector<float> logits(decode::Ready&& of, const decode::NewTokens& tokens) { return logits(of, tokens); }
  std::vector<float> logits(decode::Ready& of, const decode::NewTokens& tokens) {
    const run::Array made = decoder.run(of, tokens);
    return {made.as<float>(), made.as<float>() + made.view.count()};
  }

  session::Session session;
  std::int64_t rows, slots, most_new_tokens;
  backend::Workers workers;
  decode::Decoder decoder;

 private:
  decode::Ready step_;
};

// The logits that the training graph gives these tokens, [rows, length, V], in rows of max_target_length.
inline std::vector<float> trained_logits(const Decoding& decoding, const std::vector<std::int32_t>& ids, std::int64_t length) {
  const config::Settings& settings = decoding.session.loaded.settings;
  const std::int64_t rows = decoding.rows;
  const graph::Graph graph = models::build_model({settings, decoding.session.shape, rows, 1, nullptr});
  backend::Workers workers(2);
  const auto pool = run::Pool::create();
  std::vector<run::Array> feeds;
  for (const graph::Node& node : graph.nodes) {
    if (!graph::is_root(node)) continue;
    if (node.op == graph::Op::parameter) {
      feeds.push_back(parameter_value(graph, node, *pool, workers));
      continue;
    }
    feeds.push_back(pool->allocate(graph.value(node.results.front()).shape, DType::int32));
    if (node.path == models::inputs::draw_keys || node.path == models::inputs::numbers) {
      const std::vector<std::int32_t> numbers =
          node.path == models::inputs::numbers
              ? models::token_numbers(rows, length)
              : models::draw_keys(settings.integer("init_weights_seed"), 0, decoding.session.shape.layers);
      std::copy(numbers.begin(), numbers.end(), feeds.back().as<std::int32_t>());
      continue;
    }
    for (std::int64_t i = 0; i < rows * length; ++i) {
      const bool is_position = node.path == models::inputs::positions || node.path == models::inputs::order;
      const bool is_token = node.path == models::inputs::tokens;
      feeds.back().as<std::int32_t>()[i] =
          is_token ? ids[static_cast<std::size_t>(i)] : is_position ? static_cast<std::int32_t>(i % length) : 1;
    }
  }
  const std::vector<run::Array> made = run::evaluate(graph, feeds, workers);
  const run::Array& logits = made[static_cast<std::size_t>(graph::find_result(graph, models::results::logits))];
  return {logits.as<float>(), logits.as<float>() + logits.view.count()};
}

// The most likely token of each row, from logits [rows, length, V] at index `at` of the length.
inline std::vector<std::int32_t> likeliest(const std::vector<float>& logits, std::int64_t rows, std::int64_t length, std::int64_t at) {
  const std::int64_t vocabulary = static_cast<std::int64_t>(logits.size()) / (rows * length);
  std::vector<std::int32_t> ids;
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* first = logits.data() + (row * length + at) * vocabulary;
    ids.push_back(static_cast<std::int32_t>(std::max_element(first, first + vocabulary) - first));
  }
  return ids;
}

}  // namespace moesh::test
