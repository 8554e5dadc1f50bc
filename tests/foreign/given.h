// Looks up the keys that a translated command gives.
#pragma once

#include <string>

#include "foreign/translation.h"

namespace moesh::foreign {

// The word "key=value" for a key, or "KEY is not given".
inline std::string given(const Imported& made, const std::string& key) {
  for (const std::string& word : made.keys) {
    if (word.starts_with(key + "=")) return word;
  }
  return key + " is not given";
}

}  // namespace moesh::foreign
