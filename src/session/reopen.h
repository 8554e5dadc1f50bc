// Opens requests without notices.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "session/session.h"

namespace moesh::session {

// As open or, with a stage, open_to_decode, but without the notices: they were logged before, or say nothing that the user asked for.
Session reopen(const std::vector<std::string>& request, Evenness evenness = Evenness::demanded, std::optional<DecodeStage> stage = {});

}  // namespace moesh::session
