// A layout as JSON, in the format of the reference's dumps: keys mesh, input, params, activations, optimizer.
// A layout of decoding has kv_cache instead of optimizer.
#pragma once

#include <string>

#include "sharding/layout.h"

namespace moesh::sharding {

// `extra` members come first, each a key and its value as JSON text.
std::string to_json(const Layout& layout, const std::vector<std::pair<std::string, std::string>>& extra = {});

}  // namespace moesh::sharding
