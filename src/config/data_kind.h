// Which kind of data the settings name.
#pragma once

#include "config/settings.h"

namespace moesh::config {

bool is_synthetic(const Settings& settings);
bool reads_files(const Settings& settings);  // text, jsonl, tokens or megatron

// Whether the data has document boundaries; other kinds are one stream without them.
bool has_documents(const Settings& settings);

// Whether texts are read, for training or for evaluation, and tokenizer_path names the tokenizer for them.
bool has_tokenizer(const Settings& settings);

}  // namespace moesh::config
