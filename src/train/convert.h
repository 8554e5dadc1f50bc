// Brings models from one kind of folder into another: Hugging Face's, and checkpoints with parameters only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backend/workers.h"
#include "config/settings.h"
#include "graph/graph.h"

namespace moesh::train {

struct Conversion {
  std::string from, to;
  std::optional<DType> dtype;  // of what is written; as it is where none is asked for
  std::int64_t most_of_shard = std::int64_t{5} << 30;
};

struct Converted {
  std::int64_t tensors = 0, bytes = 0;
};

// Each writes beside `to` and gives it its name at the end; memory is taken for the largest tensor only. Refuses to
// write over anything. `model`: as `settings` ask for it, whose parameters the checkpoint will have.
Converted to_checkpoint(const Conversion& conversion, const config::Settings& settings, const graph::Graph& model,
                        backend::Workers& workers);
Converted to_hugging_face(const Conversion& conversion, backend::Workers& workers);  // of a checkpoint
Converted rewrite_hugging_face(const Conversion& conversion);

}  // namespace moesh::train
