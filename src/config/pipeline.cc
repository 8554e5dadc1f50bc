#include "config/pipeline.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"

namespace moesh::config {
namespace {

void put_stage_first(std::vector<std::string>& axes) {
  const auto stage = std::find(axes.begin(), axes.end(), "stage");
  const auto data = std::find(axes.begin(), axes.end(), "data");
  if (stage != axes.end() && data != axes.end() && data < stage) std::iter_swap(stage, data);
}

// The number that was asked for, otherwise as many repeats as use all layers.
std::int64_t repeats_of(const Settings& settings, std::int64_t layers, std::int64_t per_round) {
  const std::int64_t asked = settings.integer("num_pipeline_repeats");
  const std::int64_t repeats = asked > 0 ? asked : layers / per_round;
  if (repeats < 1 || repeats * per_round != layers) {
    refuse(fmt::format("{} to pipeline, but stages x layers per stage x repeats = {}", counted(layers, "layer"),
                       std::max<std::int64_t>(repeats, 1) * per_round),
           settings.origin("num_layers_per_pipeline_stage").where,
           "choose num_layers_per_pipeline_stage or pipeline_parallel_layers so that it divides");
  }
  return repeats;
}

std::int64_t microbatches_of(const Settings& settings, std::int64_t stages, std::int64_t rows) {
  const std::int64_t asked = settings.integer("num_pipeline_microbatches");
  const std::int64_t least = settings.boolean("pipeline_delay_activation_forwarding") ? 2 * stages : stages;
  const std::int64_t microbatches = asked > 0 ? asked : least;
  if (microbatches % stages != 0 || microbatches < least || rows % microbatches != 0) {
    refuse(fmt::format("num_pipeline_microbatches={} for {} and {}: a multiple of the stages, at least {}, "
                       "that divides the rows was expected",
                       microbatches, counted(stages, "stage"), counted(rows, "row"), least),
           settings.origin("num_pipeline_microbatches").where);
  }
  return microbatches;
}

}  // namespace

bool has_pipeline(const Settings& settings) {
  return settings.integer("ici_pipeline_parallelism") > 1 || settings.integer("dcn_pipeline_parallelism") > 1;
}

void arrange_for_pipeline(Settings& settings) {
  if (!has_pipeline(settings)) return;
  std::vector<std::string> axes = settings.texts("mesh_axes");
  put_stage_first(axes);
  settings.set("mesh_axes", std::move(axes), settings.origin("mesh_axes"));
  std::vector<AxisRule> rules = settings.rules("logical_axis_rules");
  const auto batch = std::find_if(rules.begin(), rules.end(), [](const AxisRule& rule) {
    return rule.label == "activation_embed_and_logits_batch";
  });
  if (batch != rules.end()) batch->axes = {"stage", "data", "fsdp", "fsdp_transpose", "expert"};
  settings.set("logical_axis_rules", std::move(rules), settings.origin("logical_axis_rules"));
}

PipelineShape pipeline_shape(const Settings& settings, std::int64_t layers, std::int64_t rows) {
  PipelineShape shape;
  shape.stages = std::max<std::int64_t>(1, settings.integer("ici_pipeline_parallelism")) *
                 std::max<std::int64_t>(1, settings.integer("dcn_pipeline_parallelism"));
  shape.layers_per_stage = settings.integer("num_layers_per_pipeline_stage");
  shape.scan_stage = settings.boolean("scan_layers_per_stage");
  if (!shape.scan_stage && shape.layers_per_stage > kMostWrittenLayers) {
    refuse(fmt::format("{} of a stage one by one, at most {} are written out", counted(shape.layers_per_stage, "layer"),
                       kMostWrittenLayers),
           settings.origin("num_layers_per_pipeline_stage").where, "scan_layers_per_stage=true");
  }
  const std::int64_t asked = settings.integer("pipeline_parallel_layers");
  if (asked > layers) {
    refuse(fmt::format("pipeline_parallel_layers={} of {}", asked, counted(layers, "layer")),
           settings.origin("pipeline_parallel_layers").where);
  }
  shape.repeats = repeats_of(settings, asked > 0 ? asked : layers, shape.stages * shape.layers_per_stage);
  shape.microbatches = microbatches_of(settings, shape.stages, rows);
  return shape;
}

}  // namespace moesh::config
