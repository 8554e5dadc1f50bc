// Files as sources of batches: a text, documents, token ids.
#pragma once

#include <memory>

#include "config/settings.h"
#include "train/data.h"

namespace moesh::train {

enum class Use { training, evaluation };

// dataset_type text, jsonl or tokens. Refuses what the settings ask of a file that moesh does not do.
std::unique_ptr<TokenSource> open_file(const config::Settings& settings, Use use);

}  // namespace moesh::train
