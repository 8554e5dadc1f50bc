// What each architecture of Hugging Face reads from its config.json beside what all of them have.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "config/hugging_face_reader.h"

namespace moesh::config {

// A model that sees images too, and has the family's as a part: what its file calls it.
struct HuggingFaceWhole {
  std::string_view model_type, architecture;  // none where the family has no such model
  bool may_hear = false;                      // others of its kind make something of sounds
};

struct HuggingFaceFamily {
  std::string_view model_type;    // "llama"
  std::string_view architecture;  // "LlamaForCausalLM"
  void (*read)(HuggingFaceReader& reader);
  HuggingFaceWhole whole = {};
  std::span<const std::pair<std::string_view, std::int64_t>> usual = {};  // sizes that its files may leave out
};

std::span<const HuggingFaceFamily> hugging_face_families();

// What every model has, and the function of an MLP's gate.
void read_sizes(HuggingFaceReader& reader);
void read_activation(HuggingFaceReader& reader, std::string_view key);

// A word for each layer; in place of those of the n-th, the 2n-th and so on another one.
std::vector<std::string> all_layers(HuggingFaceReader& reader, const std::string& word);
void set_every(std::vector<std::string>& words, std::int64_t n, const char* word);
// What each layer sees by layer_types, where it is there; otherwise what the family has.
std::vector<std::string> attention_of_layers(HuggingFaceReader& reader, std::vector<std::string> otherwise, bool has_chunks = false);

void read_gemma4(HuggingFaceReader& reader);

// Rotary positions, however the file spells them. `theta`: where the file has none; `pairs`: whether neighbours turn,
// not halves. Returns by what YaRN would have DeepSeek's scores multiplied, twice. `partial`: the share of a head that
// turns, where the file has none.
double read_rope(HuggingFaceReader& reader, double theta, bool pairs, double partial = 1);
// Neighbours turn, however they are stretched.
void read_rope_in_pairs(HuggingFaceReader& reader, double theta);
// Where layers with a window turn otherwise than the others, and never stretched. `local_theta`: where the file has none; absent
// for that of the others.
void read_rope_by_kind(HuggingFaceReader& reader, double theta, std::optional<double> local_theta);

// Of Gemma 4, whose layers that see all before them turn a part of each head.
void read_rope_of_gemma4(HuggingFaceReader& reader);

// What a layer of each kind is, the first `layers` of which the file describes; given as the shortest cycle that
// repeats.
struct LayerWords {
  std::vector<std::string> attention;       // sliding, chunked or full
  std::vector<std::string> mlp;             // dense or moe
  std::vector<std::string> positions = {};  // rotary or none
  bool has_own = false;  // the family has ways of its own, so that what is usual has to be said too
};
void give_layers(HuggingFaceReader& reader, const LayerWords& words);

}  // namespace moesh::config
