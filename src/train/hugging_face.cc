#include "train/hugging_face.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "base/error.h"
#include "base/progress.h"
#include "base/text.h"
#include "config/hugging_face.h"

namespace moesh::train {

namespace {

// Heads are rearranged for one way of rotation in all layers.
void check_rotation(const config::Settings& settings, const config::ModelShape& shape) {
  const bool has_window =
      std::any_of(shape.of_cycle.begin(), shape.of_cycle.end(), [](const config::LayerShape& layer) { return layer.window > 0; });
  if (!has_window || !config::rope_is_interleaved(settings) || !config::rotation_of_windows(settings)) return;
  refuse("layers with a window rotate halves of a head, and the others neighbours: Hugging Face's models have one way",
         settings.origin("local_rope_type").where, "rope_interleave=false with rope_type=yarn, or local_rope_type=as_others");
}

}  // namespace

store::HuggingFaceModel hugging_face_model(const config::Settings& settings, const config::ModelShape& shape) {
  check_rotation(settings, shape);
  store::HuggingFaceModel model;
  const bool latent = shape.attention.latent;
  model.family = shape.block == config::Block::deepseek && !latent ? store::kGlm : settings.text("decoder_block");
  model.layers = shape.layers;
  model.dense_layers = shape.dense_layers;
  model.tied_embedding = shape.tied_embedding;
  model.rope_is_interleaved = config::rope_is_interleaved(settings);
  model.rotary_dim = latent ? shape.attention.qk_rope_head_dim : shape.attention.rotary_dim;
  model.rotates_last_dims = latent;
  model.head_dim = shape.attention.head_dim;
  if (const config::DeltaShape& delta = shape.delta; delta.key_heads > 0) {
    model.key_heads = delta.key_heads;
    const std::int64_t values = delta.value_heads / delta.key_heads;  // heads of values for a key head
    model.projections = {{'q', delta.key_dim}, {'k', delta.key_dim}, {'v', values * delta.value_dim}, {'z', values * delta.value_dim},
                         {'b', values},        {'a', values}};
  }
  // If attention does not scale its queries, the query kernel contains the factor.
  if (!shape.attention.scales_query) model.query_factor = 1 / std::sqrt(static_cast<double>(shape.attention.head_dim));
  return model;
}

std::vector<store::ModelTensor> model_tensors(const std::vector<Trained>& parameters) {
  std::vector<store::ModelTensor> all;
  for (const Trained& trained : parameters) all.push_back({trained.path, trained.shape, trained.layers_dim});
  return all;
}

store::HuggingFaceWeights hugging_face_weights(const std::string& folder) {
  const bool is_part = config::hugging_face_part(folder).has_value();
  return store::HuggingFaceWeights(config::hugging_face_folder(folder),
                                   is_part ? store::HuggingFaceKind::text_and_images : store::HuggingFaceKind::text,
                                   config::hugging_face_scaled_block(folder));
}

std::string words_of(const TensorsRead& read) {
  const std::string tensors = counted(read.tensors, "tensor");
  return read.left_out.tensors == 0 ? tensors : fmt::format("{} ({} left out)", tensors, words_of(read.left_out));
}

TensorsRead restore(const std::vector<Target>& parameters, const store::HuggingFaceModel& model, const std::string& folder,
                     backend::Workers& workers) {
  store::HuggingFaceSource source(model, hugging_face_weights(folder), tensors_of(parameters));
  Progress progress("reading weights, tensor", static_cast<std::int64_t>(parameters.size()));
  std::int64_t done = 0;
  for (const Target& of : parameters) {
    progress.advance(done++, of.tensor.name);
    source.fill(of.tensor.name, of.parts, workers);
  }
  return {source.tensors(), source.left_out()};
}

}  // namespace moesh::train
