// Brings models from one kind of folder into another: Hugging Face's, and checkpoints with parameters only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backend/workers.h"
#include "config/settings.h"
#include "graph/graph.h"
#include "store/hugging_face_weights.h"

namespace moesh::train {

struct Conversion {
  std::string from, to;
  std::optional<DType> dtype;  // of what is written; as it is where none is asked for, a checkpoint of float16 numbers in float32
  std::int64_t most_of_shard = std::int64_t{5} << 30;
};

struct Converted {
  std::int64_t tensors = 0, bytes = 0;
  store::LeftOut left_out = {};
  std::string architecture = {};  // that is written in place of one that sees images too
};

// Each writes beside `to` and gives it its name at the end; memory is taken for the largest tensor only. Refuses to
// write over anything. `model`: as `settings` ask for it, whose parameters the checkpoint will have.
Converted to_checkpoint(const Conversion& conversion, const config::Settings& settings, const graph::Graph& model,
                        backend::Workers& workers);
Converted to_hugging_face(const Conversion& conversion, backend::Workers& workers);  // of a checkpoint
Converted rewrite_hugging_face(const Conversion& conversion);

}  // namespace moesh::train
