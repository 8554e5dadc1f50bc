// Steps that a search may have found.
#pragma once

#include "search/front.h"

namespace moesh::search {

inline Found found(double seconds, std::int64_t peak) {
  Found made;
  made.offer = {{}, 1, 1, peak, 100, seconds, 1 / seconds};
  return made;
}

}  // namespace moesh::search
