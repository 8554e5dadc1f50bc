// Settings as a request has them, in words.
#pragma once

#include <string>
#include <vector>

namespace moesh::config {

using Keys = std::vector<std::string>;  // "remat_policy=full"

// A request or keys, with more behind it, which win where they set the same.
inline Keys joined(Keys keys, const Keys& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

}  // namespace moesh::config
