#include "train/restore.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "base/error.h"
#include "base/progress.h"
#include "base/text.h"
#include "models/prediction.h"
#include "store/model_tensors.h"

namespace moesh::train {
namespace {

using store::Layer;
using store::LayerNames;
using store::Part;

// Finds the tensors of a run in a checkpoint, layer by layer if one of the two stacks its layers and the other does not.
class Names {
 public:
  Names(const std::vector<Target>& targets, const store::Index& index)
      : index_(index), ours_(store::layer_names(tensors_of(targets))), theirs_(store::layer_names(tensors_of(index))) {}

  // Where each layer of our tensor is in the checkpoint; null for layers that are not there.
  std::vector<const Layer*> layers(const Target& of) const {
    std::vector<const Layer*> found;
    for (const std::string& alone : ours_.alone(of.tensor.name)) found.push_back(theirs_.find(alone));
    return found;
  }
  const LayerNames& theirs() const { return theirs_; }
  std::vector<std::string> ours(const Target& of) const { return ours_.alone(of.tensor.name); }
  const Layer& layer_of_ours(const std::string& alone) const { return *ours_.find(alone); }
  bool is_same(const Target& of) const {
    const auto found = index_.tensors.find(of.tensor.name);
    return found != index_.tensors.end() && found->second.shape == of.tensor.shape && found->second.layers_dim == of.tensor.layers_dim;
  }

 private:
  const store::Index& index_;
  LayerNames ours_, theirs_;
};

// Reads parts of one of our layers from the checkpoint's tensor that holds it.
void read_layer(store::Checkpoint& checkpoint, const Layer& layer, const std::vector<Part>& parts, backend::Workers& workers) {
  checkpoint.read(layer.tensor, store::as_layer(parts, layer), workers);
}

// What does not fit, found before anything is read.
struct Fit {
  std::vector<std::string> missing;  // tensors that the checkpoint lacks
  std::vector<std::string> other;    // tensors of other shapes, in words
  std::vector<std::string> unused;   // parameters of the checkpoint, layer by layer, that the run does not have
};

Fit fit_of(const std::vector<Target>& targets, const store::Index& index) {
  const Names names(targets, index);
  Fit fit;
  std::set<std::string> used;  // names of layers
  for (const Target& of : targets) {
    const Shape shape = store::layer_shape(of.tensor);
    for (const std::string& alone : names.ours(of)) used.insert(alone);
    for (const Layer* layer : names.layers(of)) {
      if (layer == nullptr) {
        fit.missing.push_back(of.tensor.name);
        break;
      }
      const store::Tensor& there = index.tensors.at(layer->tensor);
      if (store::layer_shape({layer->tensor, there.shape, there.layers_dim}) != shape) {
        fit.other.push_back(fmt::format("{} is {} there and {} here", of.tensor.name, to_string(there.shape), to_string(of.tensor.shape)));
        break;
      }
    }
  }
  for (const auto& [alone, layer] : names.theirs().all()) {
    if (!partition::is_moment(alone) && !used.contains(alone)) fit.unused.push_back(alone);
  }
  return fit;
}

}  // namespace

std::vector<store::ModelTensor> tensors_of(const std::vector<Target>& targets) {
  std::vector<store::ModelTensor> tensors;
  for (const Target& of : targets) tensors.push_back(of.tensor);
  return tensors;
}

std::vector<store::ModelTensor> tensors_of(const store::Index& index) {
  std::vector<store::ModelTensor> tensors;
  for (const auto& [name, tensor] : index.tensors) tensors.push_back({name, tensor.shape, tensor.layers_dim});
  return tensors;
}

std::vector<Target> targets_in(const Trainer& trainer, Restored what) {
  std::vector<Target> all;
  for (const Trained& trained : trainer.parameters()) {
    std::vector<std::string> names{trained.path};
    if (what == Restored::all && trained.moments > 0) names.push_back(trained.mu());
    if (what == Restored::all && trained.moments > 1) names.push_back(trained.nu());
    for (const std::string& name : names) {
      all.push_back({{name, trainer.state(name).seen_shape(), trained.layers_dim}, trainer.state_parts(name)});
    }
  }
  return all;
}

void check_fit(const std::vector<Target>& targets, const store::Checkpoint& checkpoint, Unread may_be_left) {
  Fit fit = fit_of(targets, checkpoint.index());
  if (may_be_left == Unread::prediction_modules) std::erase_if(fit.unused, models::is_of_module);
  const std::string& where = checkpoint.folder();
  constexpr const char* kGoOn = "go on with the model that it was saved from: `moesh checkpoint show PATH` tells its settings";
  if (!fit.other.empty()) refuse("the checkpoint is of another model: " + few_of(fit.other), where, kGoOn);
  if (!fit.unused.empty()) refuse("the checkpoint has parameters that this model has not: " + few_of(fit.unused), where, kGoOn);
  if (fit.missing.empty()) return;
  const bool lacks_moments_alone = std::all_of(fit.missing.begin(), fit.missing.end(), partition::is_moment);
  refuse("the checkpoint lacks " + few_of(fit.missing), where,
         lacks_moments_alone ? "train what it was saved with (opt_type, trainable_parameters_mask), or begin a run with its parameters: "
                               "load_parameters_path"
                             : kGoOn);
}

void restore(const std::vector<Target>& targets, store::Checkpoint& checkpoint, backend::Workers& workers) {
  const Names names(targets, checkpoint.index());
  Progress progress("restoring, tensor", static_cast<std::int64_t>(targets.size()));
  std::int64_t done = 0;
  for (const Target& of : targets) {
    progress.advance(done++);
    if (names.is_same(of)) {
      checkpoint.read(of.tensor.name, of.parts, workers);
      continue;
    }
    for (const std::string& alone : names.ours(of))
      read_layer(checkpoint, *names.theirs().find(alone), store::of_layer(of.parts, names.layer_of_ours(alone)), workers);
  }
}

}  // namespace moesh::train
