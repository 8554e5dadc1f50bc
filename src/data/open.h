// Opens the data that the settings name, as rows.
#pragma once

#include <cstdint>
#include <memory>

#include "config/settings.h"
#include "data/source.h"

namespace moesh::data {

// dataset_type: synthetic (one fixed batch), text or jsonl (bytes as tokens, or the tokens of tokenizer_path), tokens (ids of two or four
// bytes) or megatron; all but the first are files, or folders of them. `threads`: how many may read ahead, for all sources together.
std::unique_ptr<TokenSource> open_source(const config::Settings& settings, std::int64_t rows_to_load, int threads);

// The validation set: synthetic data is its own; otherwise what eval_dataset_path holds, or what eval_fraction keeps from training. Its
// rows are in the order of the data, and after the last of them there is only padding.
std::unique_ptr<TokenSource> open_validation(const config::Settings& settings, std::int64_t rows_to_load, int threads);

}  // namespace moesh::data
