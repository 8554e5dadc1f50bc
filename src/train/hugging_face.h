// Describes a model to the store of Hugging Face weights, and reads parameters from a Hugging Face folder.
#pragma once

#include <string>
#include <vector>

#include "backend/workers.h"
#include "config/model_shape.h"
#include "store/hugging_face_source.h"
#include "train/restore.h"
#include "train/trained.h"

namespace moesh::train {

store::HuggingFaceModel hugging_face_model(const config::Settings& settings, const config::ModelShape& shape);

std::vector<store::ModelTensor> model_tensors(const std::vector<Trained>& parameters);

store::HuggingFaceWeights hugging_face_weights(const std::string& folder);

struct TensorsRead {
  std::int64_t tensors = 0;
  store::LeftOut left_out;
};
std::string words_of(const TensorsRead& read);  // "12 tensors", with what was left out

// Fills parameters in place. If it fails midway, they are partly overwritten and must not be used.
TensorsRead restore(const std::vector<Target>& parameters, const store::HuggingFaceModel& model, const std::string& folder,
                     backend::Workers& workers);

}  // namespace moesh::train
