// Token ids in the format of Megatron-LM's tools: a .bin file of ids, and an .idx file that says where its documents begin.
#pragma once

#include <memory>
#include <string>

#include "config/settings.h"
#include "data/reader.h"
#include "data/rows.h"

namespace moesh::data {

// `path`: either file, or what both names begin with. The form of the index, and that it fits the size of the other file, is checked before
// anything is read by it. Ids that the vocabulary does not have are refused when they are met.
std::unique_ptr<DocumentReader> read_megatron(const std::string& path, const Split& split, const config::Settings& settings);

}  // namespace moesh::data
