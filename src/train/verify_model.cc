#include "train/verify_model.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "train/batches.h"
#include "train/hugging_face.h"

namespace moesh::train {
namespace {

using run::Array;

constexpr double kLoss = 1e-5, kGradients = 1e-4;

// Copies of the recorded rows, whose loss is that of the originals. The last position of a row has no target.
Batch batch_of(const RecordedModel& recorded, std::int64_t rows, std::int64_t vocab_size, run::Pool& pool) {
  Rows made;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto begin = recorded.ids.begin() + row % recorded.rows * recorded.length;
    data::Tokens tokens(begin, begin + recorded.length);
    tokens.push_back(0);
    made.rows.push_back(data::one_segment(tokens));
    made.rows.back().target_segments.back() = 0;
  }
  return make_batch(made, vocab_size, pool);
}

Verdict compare_logits(const RecordedModel& recorded, const Array& made) {
  const store::StoredTensor& expected = recorded.expect.at("logits");
  std::vector<double> mine = values_of(made);
  const std::vector<double> theirs = expected.values();
  if (mine.size() < theirs.size())
    refuse(fmt::format("logits {}, {} were recorded", to_string(made.view.shape), to_string(expected.shape)),
           recorded.name);
  mine.resize(theirs.size());  // keeps the first copy of the rows
  return {"logits", largest_difference(mine, theirs), recorded.logits_tolerance, "the largest difference"};
}

// Gradients by the names that Hugging Face has for the weights.
class Gradients {
 public:
  Gradients(const Trainer& trainer, const StepResults& made, const store::HuggingFaceModel& model, run::Pool& pool)
      : model_(model),
        layers_(store::layer_names(model_tensors(trainer.parameters()))),
        tensors_(store::hugging_face_tensors(model_, store::shapes_alone(model_tensors(trainer.parameters())))) {
    for (std::size_t i = 0; i < trainer.parameters().size(); ++i)
      ours_.emplace(trainer.parameters()[i].path, gradient_of(trainer, made, i, pool));
  }

  const std::map<std::string, store::HuggingFaceTensor>& tensors() const { return tensors_; }

  std::vector<double> of(const std::string& name) const {
    const auto parts_of = [&](const std::string& alone) {
      const store::Layer& layer = *layers_.find(alone);
      const Array& whole = ours_.at(layer.tensor);
      const std::vector<store::Part> parts{
          store::dense_part(store::whole_block(whole.view.shape), DType::float32, whole.raw())};
      return store::of_layer(parts, layer);
    };
    const store::HuggingFaceTensor& tensor = tensors_.at(name);
    const std::vector<float> numbers = store::as_theirs(model_, tensor, parts_of);
    std::vector<double> all(numbers.begin(), numbers.end());
    if (tensor.places.front().row->is_query) {
      for (double& one : all) one *= model_.query_factor;
    }
    return all;
  }

 private:
  store::HuggingFaceModel model_;
  store::LayerNames layers_;
  std::map<std::string, store::HuggingFaceTensor> tensors_;
  std::map<std::string, Array> ours_;
};

double norm_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

void compare_gradients(const RecordedModel& recorded, const Gradients& gradients, std::vector<Verdict>& verdicts) {
  Worst all("gradients", kGradients), norms("norms of gradients", kGradients);
  const double whole = recorded.expect.at("grad_norm").values().front();
  for (const auto& [name, norm] : recorded.gradient_norms) {
    if (!gradients.tensors().contains(name))
      refuse("a gradient of it was recorded, the model has no such weight", name);
    const std::vector<double> mine = gradients.of(name);
    norms.see(std::abs(norm_of(mine) - norm) / std::max(norm, gradient_floor(whole)), name);
    if (!recorded.expect.has("grad." + name)) continue;
    const store::StoredTensor& stored = recorded.expect.at("grad." + name);
    if (stored.shape != gradients.tensors().at(name).shape) refuse("its gradient was recorded in another shape", name);
    all.see(gradient_distance(mine, stored.values(), whole), name);
  }
  verdicts.push_back(all.verdict());
  verdicts.push_back(norms.verdict());
}

// The layers of the routers whose choices were recorded, in order.
std::vector<std::int64_t> routed_layers(const RecordedModel& recorded) {
  constexpr std::string_view kBefore = "router_experts.";
  std::vector<std::int64_t> layers;
  for (const auto& [name, tensor] : recorded.expect.tensors) {
    if (name.starts_with(kBefore)) layers.push_back(parse_integer(name.substr(kBefore.size())).value_or(0));
  }
  std::sort(layers.begin(), layers.end());
  return layers;
}

// Compares how many tokens chose each expert. Which tokens these were is not a result of a step.
Verdict compare_choices(const RecordedModel& recorded, const ExpertLoad& load, std::int64_t copies) {
  Worst worst("tokens of each expert", 0);
  const std::vector<std::int64_t> layers = routed_layers(recorded);
  if (static_cast<std::int64_t>(layers.size()) != load.layers()) {
    refuse(fmt::format("choices of {} were recorded, the model has {}",
                       counted(static_cast<std::int64_t>(layers.size()), "router"), load.layers()),
           recorded.name);
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::vector<double> counts(static_cast<std::size_t>(load.experts));
    for (const double expert : recorded.expect.at(fmt::format("router_experts.{}", layers[i])).values())
      counts.at(static_cast<std::size_t>(expert)) += static_cast<double>(copies);
    const auto first = load.tokens.begin() + static_cast<std::ptrdiff_t>(i * counts.size());
    worst.see(
        largest_difference(std::vector<double>(first, first + static_cast<std::ptrdiff_t>(counts.size())), counts),
        fmt::format("layer {}", layers[i]));
  }
  return worst.verdict();
}

}  // namespace

Findings verify_model(const RecordedModel& recorded, const Subject& subject, backend::Workers& workers) {
  const std::int64_t rows = subject.batch.rows_to_train;
  if (rows % recorded.rows != 0) {
    refuse(fmt::format("{} of {} that were recorded", counted(rows, "row"), recorded.rows),
           subject.settings.origin("per_device_batch_size").where,
           "leave per_device_batch_size away, or take copies of them all");
  }
  Trainer trainer(step_program(subject.model, subject.settings, subject.where, {true, true}), subject.settings,
                  workers);
  const store::HuggingFaceModel model = hugging_face_model(subject.settings, config::model_shape(subject.settings));
  const TensorsRead read = restore(targets_in(trainer, Restored::parameters), model, recorded.path, workers);
  trainer.go_on_after(-1);
  const StepResults made = trainer.run_step(batch_of(recorded, rows, subject.settings.integer("vocab_size"), trainer.pool()));
  Findings findings;
  if (read.left_out.tensors > 0) findings.unheld.push_back({words_of(read.left_out), "only text is read"});
  std::vector<Verdict>& verdicts = findings.verdicts;
  verdicts.push_back(
      {"loss", relative(made.metrics.lm_loss, recorded.expect.at("loss").values().front()), kLoss, "the batch"});
  verdicts.push_back(compare_logits(recorded, trainer.logits(made)));
  compare_gradients(recorded, Gradients(trainer, made, store::named_as(model, recorded.gradient_norms), trainer.pool()), verdicts);
  if (recorded.expect.has("aux_loss"))
    findings.unheld.push_back({"the auxiliary loss", "moesh's load_balance_loss_weight is MaxText's loss"});
  if (routed_layers(recorded).empty()) return findings;
  verdicts.push_back(compare_choices(recorded, made.metrics.load, rows / recorded.rows));
  findings.unheld.push_back({"routers' scores", "a step does not hand them out"});
  return findings;
}

}  // namespace moesh::train
