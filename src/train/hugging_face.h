// What of a Hugging Face folder goes into a trainer's parameters.
#pragma once

#include <string>
#include <vector>

#include "backend/workers.h"
#include "config/model_shape.h"
#include "store/hugging_face_source.h"
#include "train/trainer.h"

namespace moesh::train {

store::HuggingFaceModel hugging_face_model(const config::Settings& settings, const config::ModelShape& shape);

std::vector<store::ModelTensor> model_tensors(const std::vector<Trained>& parameters);

// Each device's part is written where it lies. When that fails on the way, the trainer is not as it should be. A line
// on what was read.
std::string restore_hugging_face(Trainer& trainer, const config::Settings& settings, const std::string& folder,
                                 backend::Workers& workers);

}  // namespace moesh::train
