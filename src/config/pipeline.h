// How layers are divided among pipeline stages. Such layouts are planned, but not run yet.
#pragma once

#include <cstdint>

#include "config/model_shape.h"
#include "config/settings.h"

namespace moesh::config {

struct PipelineShape {
  std::int64_t stages = 1;
  std::int64_t layers_per_stage = 1;
  std::int64_t repeats = 1;  // how often a batch goes round the stages
  std::int64_t microbatches = 1;
  bool scan_stage = false;   // layers of a stage are stacked

  std::int64_t layers() const { return stages * layers_per_stage * repeats; }
};

// With pipeline stages, puts the stage axis before data: in the mesh, and in the rule for the batch of embeddings and logits.
void arrange_for_pipeline(Settings& settings);

bool has_pipeline(const Settings& settings);

// `layers`: how many may be pipelined; `rows`: the rows of one pass.
PipelineShape pipeline_shape(const Settings& settings, std::int64_t layers, std::int64_t rows);

}  // namespace moesh::config
