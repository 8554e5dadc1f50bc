// What a model's tensors are called in Hugging Face's files and how they lie there, both ways, in one table a family.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/parts.h"

namespace moesh::store {

// A row of a family's table. Dims are letters: of ours one each, theirs are products of them, "hd,m" for a matrix whose
// rows are all heads' dims. A capital letter is turned by the rotary embedding; N is all heads' dims as one.
// 'e' is missing from theirs where each expert has a tensor of its own, '{}' in its name. '2' is where theirs
// interleaves two of ours, or has them one after the other, of which `half` is one. '1' is a dim that ours lack.
struct HuggingFaceRow {
  std::string_view ours, our_dims;  // a path within a layer, or a whole one
  std::string_view theirs, their_dims;
  int half = 0;
  bool is_query = false;
};

inline constexpr const char* kGlm = "deepseek without latent attention";

// What of a model its tensors' places depend on.
struct HuggingFaceModel {
  std::string family;  // decoder_block, or kGlm
  std::int64_t layers = 0;
  std::int64_t dense_layers = 0;  // those in a stack of their own before the others
  bool tied_embedding = false;
  std::int64_t turned = 0;   // dims of a head that turn
  bool turned_last = false;  // the last ones of a capital dim, rather than the first
  bool turns_pairs = false;  // the model turns neighbours
  double query_factor = 1;   // our query kernels are theirs times this
  std::int64_t head_dim = 0;  // of dims that are several heads long; 0: there are none
};

// Where a tensor of theirs is in one of ours, a layer alone.
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

// All tensors of a model, by their names; `ours`: by the name of each layer alone.
std::map<std::string, HuggingFaceTensor> hugging_face_tensors(const HuggingFaceModel& model,
                                                              const std::map<std::string, Shape>& ours);

// A tensor of theirs at `data`, as parts of ours. `strides`: of its dims, in bytes.
std::vector<Part> parts_of_ours(const HuggingFaceModel& model, const HuggingFacePlace& place, std::byte* data,
                                DType dtype, const std::vector<std::int64_t>& strides);

// Tensors that files may have besides: tables that follow from the settings, layers that only guess tokens ahead, the
// head of a tied model.
bool may_be_left_out(const HuggingFaceModel& model, const std::string& name);

// In a folder whose model sees images too: what a tensor of its text is called where that is alone; none of other tensors.
std::optional<std::string> name_in_text(std::string_view name);
// And the part that one belongs to which makes something of images, "vision_tower".
std::optional<std::string> part_of_images(std::string_view name);

}  // namespace moesh::store
