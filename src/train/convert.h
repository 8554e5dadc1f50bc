// Converts models between Hugging Face folders and checkpoints that hold parameters only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backend/workers.h"
#include "config/settings.h"
#include "graph/graph.h"
#include "store/hugging_face_weights.h"
#include "store/hugging_face_writer.h"

namespace moesh::train {

struct Conversion {
  std::string from, to;
  std::optional<DType> dtype;  // type to write; none: as stored, but float16 numbers are float32 in a checkpoint
  std::int64_t most_of_shard = store::kMostOfShard;
};

struct Converted {
  std::int64_t tensors = 0, bytes = 0;
  store::LeftOut left_out = {};
  std::string architecture = {};  // of the text model that is written in place of one that also sees images
};

// Each function writes a folder beside `to` and renames it to `to` at the end; it takes memory for the largest tensor only, and
// refuses to overwrite anything. `model`: the model that `settings` describe, whose parameters the checkpoint will have.
Converted to_checkpoint(const Conversion& conversion, const config::Settings& settings, const graph::Graph& model,
                        backend::Workers& workers);
Converted to_hugging_face(const Conversion& conversion, backend::Workers& workers);  // from a checkpoint
Converted rewrite_hugging_face(const Conversion& conversion);

}  // namespace moesh::train
