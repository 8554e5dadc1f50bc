// Opens a request that was opened before, with changes.
#pragma once

#include <string>
#include <vector>

#include "session/session.h"

namespace moesh::session {

// As open, but without the notices, which were logged before.
Session reopen(const std::vector<std::string>& request, Evenness evenness = Evenness::demanded);

}  // namespace moesh::session
