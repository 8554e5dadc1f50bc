// Reads the parameters of a model from a Hugging Face folder, into any layout and stacking of layers.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backend/workers.h"
#include "store/hugging_face_names.h"
#include "store/hugging_face_weights.h"
#include "store/model_tensors.h"

namespace moesh::store {

class HuggingFaceSource {
 public:
  // Refuses weights with missing, unknown or wrongly shaped tensors, and names them.
  HuggingFaceSource(const HuggingFaceModel& model, HuggingFaceWeights weights, const std::vector<ModelTensor>& ours);

  // Fills parts of one of our tensors, and reads only what they need from the files.
  void fill(const std::string& ours, const std::vector<Part>& parts, backend::Workers& workers);

  // The type that holds all numbers of one of our tensors exactly.
  DType dtype_of(const std::string& ours) const;
  // The types in the files for one of our tensors, one per layer: the widest one if a layer has several.
  std::vector<StoredType> types_of(const std::string& ours) const;

  std::int64_t tensors() const { return static_cast<std::int64_t>(weights_.shapes().size()); }
  const LeftOut& left_out() const { return weights_.left_out(); }

 private:
  struct Piece {
    std::string theirs;
    HuggingFacePlace place;
  };
  void check(const std::map<std::string, HuggingFaceTensor>& wanted) const;
  void check_head() const;
  void fill_layer(const Piece& piece, const std::vector<Part>& parts) const;

  HuggingFaceModel model_;
  HuggingFaceWeights weights_;
  LayerNames layers_;
  std::map<std::string, std::vector<Piece>> pieces_;  // by the name of each of our single-layer tensors
};

// Puts a tensor of theirs together from parts of ours, as float32 and row-major. `parts_of`: the parts of a single-layer tensor.
std::vector<float> as_theirs(const HuggingFaceModel& model, const HuggingFaceTensor& tensor,
                             const std::function<std::vector<Part>(const std::string& alone)>& parts_of);

// Multiplies an array of float32 or float64 numbers by a factor.
void multiply(std::byte* data, std::int64_t count, DType dtype, double factor);

}  // namespace moesh::store
