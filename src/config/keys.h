// The settings of a request, as words.
#pragma once

#include <string>
#include <vector>

namespace moesh::config {

using Keys = std::vector<std::string>;  // "remat_policy=full"

// A request or keys, followed by more, which win if they set the same key.
inline Keys joined(Keys keys, const Keys& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

}  // namespace moesh::config
