// What kind of data the settings name.
#pragma once

#include "config/settings.h"

namespace moesh::config {

bool is_synthetic(const Settings& settings);
bool reads_files(const Settings& settings);  // text, jsonl, tokens or megatron

// Others are one stream, which knows no documents.
bool has_documents(const Settings& settings);

// Texts are read, for training or for evaluation, and tokenizer_path says how.
bool has_tokenizer(const Settings& settings);

}  // namespace moesh::config
