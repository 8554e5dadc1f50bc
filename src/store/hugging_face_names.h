// The names and layouts of a model's tensors in Hugging Face's files, in one table per family that serves both directions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/parts.h"

namespace moesh::store {

// A row of a family's table. Each dim of ours is a letter; theirs are products of letters, so that "hd,m" is a matrix whose rows
// are the dims of all heads. A capital letter is rotated by the rotary embedding; N is the dims of all heads as one. 'e' is missing
// from theirs if each expert has a tensor of its own, with '{}' in its name. With '2', theirs holds two of ours, interleaved ("f2")
// or one after the other ("2f"), and `half` says which of the two this is. '1' is a dim that ours lacks.
// A kernel of ours may make several projections side by side for each key head of linear attention; theirs holds those that `held` names,
// one after the other, each for all heads.
struct HuggingFaceRow {
  std::string_view ours, our_dims;  // path within a layer, or a whole path
  std::string_view theirs, their_dims;
  int half = 0;
  bool is_query = false;
  std::string_view projections = {}, held = {};  // a letter each
};

inline constexpr const char* kGlm = "deepseek without latent attention";
inline constexpr const char* kQwen35 = "qwen3_5";
inline constexpr const char* kQwen35OfStacks = "qwen3_5 with all experts of a layer in one tensor";

// The facts about a model that decide where its tensors are.
struct HuggingFaceModel {
  std::string family;  // decoder_block, or one of the constants above
  std::int64_t layers = 0;
  std::int64_t dense_layers = 0;  // leading layers, which are a stack of their own
  bool tied_embedding = false;
  std::int64_t rotary_dim = 0;       // dims of a head that are rotated
  bool rotates_last_dims = false;    // the last dims of a capital letter are rotated, rather than the first
  bool rope_is_interleaved = false;  // the model rotates neighbouring dims rather than halves
  double query_factor = 1;   // our query kernels are theirs times this
  std::int64_t head_dim = 0;  // for dims that are several heads long; 0: there are none
  std::int64_t key_heads = 0;                     // of linear attention
  std::map<char, std::int64_t> projections = {};  // their widths for a key head
};

// The model, whose experts have a tensor each or lie in one, as do those of the tensors that are named.
template <typename Tensor>
HuggingFaceModel named_as(HuggingFaceModel model, const std::map<std::string, Tensor>& tensors) {
  const auto is_stack = [](const auto& tensor) { return tensor.first.ends_with(".mlp.experts.gate_up_proj"); };
  if (model.family == kQwen35 && std::any_of(tensors.begin(), tensors.end(), is_stack)) model.family = kQwen35OfStacks;
  return model;
}

// Where a tensor of theirs lies in one of our single-layer tensors.
struct HuggingFacePlace {
  const HuggingFaceRow* row = nullptr;
  std::string ours;
  Shape our_shape;
  std::int64_t expert = 0;
};

struct HuggingFaceTensor {
  Shape shape;
  std::vector<HuggingFacePlace> places;
};

// All tensors of a model, by their names. `ours`: the shapes of our single-layer tensors, by name.
std::map<std::string, HuggingFaceTensor> hugging_face_tensors(const HuggingFaceModel& model,
                                                              const std::map<std::string, Shape>& ours);

// A tensor of theirs at `data`, as parts of ours. `strides`: of its dims, in bytes.
std::vector<Part> parts_of_ours(const HuggingFaceModel& model, const HuggingFacePlace& place, std::byte* data,
                                DType dtype, const std::vector<std::int64_t>& strides);

// Tensors that files may have in addition: tables that follow from the settings, layers that only predict tokens further ahead, and
// the head of a tied model.
bool may_be_left_out(const HuggingFaceModel& model, const std::string& name);

// In a folder whose model also sees images: the name that a tensor of the text model has in a text-only folder; none for other tensors.
std::optional<std::string> name_in_text(std::string_view name);
// The part of the model that a tensor for images belongs to, such as "vision_tower"; none for other tensors.
std::optional<std::string> part_of_images(std::string_view name);

}  // namespace moesh::store
