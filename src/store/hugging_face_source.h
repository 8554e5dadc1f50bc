// Takes the parameters of a model out of a Hugging Face folder, whatever layout and kind of stacks they are wanted in.
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
  // Refuses weights that lack a tensor of the model's, have others besides, or of another shape, naming them.
  HuggingFaceSource(const HuggingFaceModel& model, HuggingFaceWeights weights, const std::vector<ModelTensor>& ours);

  // Fills parts of one of ours. What they need of the files is read, and no more.
  void fill(const std::string& ours, const std::vector<Part>& parts, backend::Workers& workers);

  // That all of one of ours can be kept in as it is.
  DType dtype_of(const std::string& ours) const;
  // That theirs are written in, for each layer of ours: the widest where those of a layer differ.
  std::vector<StoredType> types_of(const std::string& ours) const;

  std::int64_t tensors() const { return static_cast<std::int64_t>(weights_.shapes().size()); }
  const LeftOut& left_out() const { return weights_.left_out(); }

 private:
  struct Piece {
    std::string theirs;
    HuggingFacePlace place;
  };
  void check(const std::map<std::string, HuggingFaceTensor>& wanted) const;
  void fill_layer(const Piece& piece, const std::vector<Part>& parts) const;

  HuggingFaceModel model_;
  HuggingFaceWeights weights_;
  LayerNames layers_;
  std::map<std::string, std::vector<Piece>> pieces_;  // of each of our layers alone
};

// A tensor of theirs put together from parts of ours, as float32 and row by row. `parts_of`: of a layer alone.
std::vector<float> as_theirs(const HuggingFaceModel& model, const HuggingFaceTensor& tensor,
                             const std::function<std::vector<Part>(const std::string& alone)>& parts_of);

// The numbers of one dense row of elements times a factor; they are float32 or float64.
void multiply(std::byte* data, std::int64_t count, DType dtype, double factor);

}  // namespace moesh::store
