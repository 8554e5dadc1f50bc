// Opens a request that was opened before, with changes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "session/session.h"

namespace moesh::session {

// As open or, with a stage, open_to_decode, but without the notices, which were logged before.
Session reopen(const std::vector<std::string>& request, Evenness evenness = Evenness::demanded, std::optional<DecodeStage> stage = {});

}  // namespace moesh::session
