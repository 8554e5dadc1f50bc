// What a translated command gives a key.
#pragma once

#include <string>

#include "foreign/translation.h"

namespace moesh::foreign {

// "key=value" of a key, or "KEY is not given".
inline std::string given(const Imported& made, const std::string& key) {
  for (const std::string& word : made.keys) {
    if (word.starts_with(key + "=")) return word;
  }
  return key + " is not given";
}

}  // namespace moesh::foreign
