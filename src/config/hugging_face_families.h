// The architectures of Hugging Face, and what each reads from config.json besides the keys that all have.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "config/hugging_face_reader.h"

namespace moesh::config {

// A model that takes images too and has the family's text model as a part: its names in config.json.
struct HuggingFaceWhole {
  std::string_view model_type, architecture;  // empty if the family has no such model
  bool may_hear = false;                      // some models of its kind take audio too
};

struct HuggingFaceFamily {
  std::string_view model_type;    // "llama"
  std::string_view architecture;  // "LlamaForCausalLM"
  void (*read)(HuggingFaceReader& reader);
  HuggingFaceWhole whole = {};
};

std::span<const HuggingFaceFamily> hugging_face_families();

// What a key stands for where a file leaves it out, as JSON. Where it may be null, null means something else.
struct HuggingFaceUsual {
  std::string_view key, value;
  bool may_be_null = false;
};
std::span<const HuggingFaceUsual> hugging_face_usual(std::string_view model_type);

// The sizes that every model has, and the function of an MLP's gate.
void read_sizes(HuggingFaceReader& reader);
void read_activation(HuggingFaceReader& reader, std::string_view key);
std::string_view activation_of_theirs(std::string_view ours);

// One word per layer; set_every replaces the n-th, the 2n-th and so on.
std::vector<std::string> all_layers(HuggingFaceReader& reader, const std::string& word);
void set_every(std::vector<std::string>& words, std::int64_t n, const char* word);
// What the queries of each layer see: as layer_types says if it is there, otherwise the family's own.
std::vector<std::string> attention_of_layers(HuggingFaceReader& reader, std::vector<std::string> otherwise, bool has_chunks = false);

// The width of a head where keys and values are grouped.
std::int64_t head_dim_of(HuggingFaceReader& reader);
// The heads of attention with grouped keys and values, whose scores are scaled by their width; with the sizes, an MLP and rotary positions;
// and experts, whose number the key `count` says.
void read_heads(HuggingFaceReader& reader);
void read_plain(HuggingFaceReader& reader, double theta = 10000);
void read_experts(HuggingFaceReader& reader, std::string_view count);
// All layers have a window but each n-th, unless layer_types says otherwise.
void read_windows_but_each(HuggingFaceReader& reader, std::int64_t n);

void read_qwen2(HuggingFaceReader& reader);
void read_qwen2_moe(HuggingFaceReader& reader);
void read_qwen3(HuggingFaceReader& reader);
void read_qwen3_moe(HuggingFaceReader& reader);
void read_qwen3_next(HuggingFaceReader& reader);
void read_qwen3_5(HuggingFaceReader& reader);
void read_gemma1(HuggingFaceReader& reader);
void read_gemma2(HuggingFaceReader& reader);
void read_gemma3(HuggingFaceReader& reader);
void read_gemma4(HuggingFaceReader& reader);

// What a family's files mean if they say nothing else of rotary positions.
struct RopeUsual {
  double theta = 10000;
  std::optional<double> partial = std::nullopt;  // the share of a head that is rotated, unless whole heads always are
  std::string_view otherwise = "{}";             // as rope_parameters
  std::optional<std::int64_t> latent_dims = std::nullopt;  // that are rotated, where it is no share of a head
};

// Refuses an odd number of rotated dims, of which transformers makes an even one or nothing. `where` says how many there are.
void check_rotated(std::int64_t dims, double share, const std::string& where);

// Rotary positions, in any spelling of the file. `pairs`: whether neighbours are rotated rather than halves. Returns YaRN's correction, by
// which DeepSeek's scores are multiplied twice.
double read_rope(HuggingFaceReader& reader, const RopeUsual& usual, bool pairs);
// For families whose layers with a window are rotated differently from the others, and never with scaled frequencies. `local_theta` is used
// for layers with a window if the file has none; without it, the theta of the other layers.
void read_rope_by_kind(HuggingFaceReader& reader, double theta, std::optional<double> local_theta);

// For Gemma 4, whose layers with full attention rotate a part of each head.
void read_rope_of_gemma4(HuggingFaceReader& reader);

// The kind of each layer, one word per layer. give_layers gives them as the shortest cycle that repeats.
struct LayerWords {
  std::vector<std::string> attention;       // sliding, chunked or full
  std::vector<std::string> mlp;             // dense or moe
  std::vector<std::string> positions = {};  // rotary or none
  bool has_own = false;  // the family's own layers differ, so the usual words have to be given too
};
void give_layers(HuggingFaceReader& reader, const LayerWords& words);

}  // namespace moesh::config
