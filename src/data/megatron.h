// Token ids as Megatron-LM's tools leave them: a .bin file of ids, and an .idx file of where its documents begin.
#pragma once

#include <memory>
#include <string>

#include "config/settings.h"
#include "data/reader.h"
#include "data/rows.h"

namespace moesh::data {

// `path`: of either file, or what both names begin with. The index is held to its form, and to the size of the other file, before anything
// is read by it. Ids that the vocabulary lacks are refused when they are met.
std::unique_ptr<DocumentReader> read_megatron(const std::string& path, const Split& split, const config::Settings& settings);

}  // namespace moesh::data
