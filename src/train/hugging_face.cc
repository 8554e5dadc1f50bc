#include "train/hugging_face.h"

#include <cmath>

#include "base/progress.h"
#include "config/hugging_face.h"

namespace moesh::train {

store::HuggingFaceModel hugging_face_model(const config::Settings& settings, const config::ModelShape& shape) {
  store::HuggingFaceModel model;
  const bool latent = shape.block == config::Block::deepseek && shape.attention.latent;
  model.family = shape.block == config::Block::deepseek && !latent ? store::kGlm : settings.text("decoder_block");
  model.layers = shape.layers;
  model.dense_layers = shape.dense_layers;
  model.tied_embedding = shape.tied_embedding;
  model.turns_pairs = config::turns_neighbours(settings);
  model.turned = latent ? shape.attention.qk_rope_head_dim : shape.attention.turned_dim;
  model.turned_last = latent;
  model.head_dim = shape.attention.head_dim;
  // Where the model does not scale its queries, their kernel does.
  if (!shape.attention.scales_query) model.query_factor = 1 / std::sqrt(static_cast<double>(shape.attention.head_dim));
  return model;
}

std::vector<store::ModelTensor> model_tensors(const std::vector<Trained>& parameters) {
  std::vector<store::ModelTensor> all;
  for (const Trained& trained : parameters) all.push_back({trained.path, trained.shape, trained.layers_dim});
  return all;
}

std::int64_t restore(const std::vector<Target>& parameters, const store::HuggingFaceModel& model, const std::string& folder,
                     backend::Workers& workers) {
  store::HuggingFaceSource source(model, config::hugging_face_folder(folder), tensors_of(parameters));
  Progress progress("reading weights, tensor", static_cast<std::int64_t>(parameters.size()));
  std::int64_t done = 0;
  for (const Target& of : parameters) {
    progress.advance(done++, of.tensor.name);
    source.fill(of.tensor.name, of.parts, workers);
  }
  return source.tensors();
}

}  // namespace moesh::train
