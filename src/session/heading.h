// What a command prints about its request before anything else.
#pragma once

#include <string>

#include "session/session.h"

namespace moesh::session {

// The headline, and a line about a step's batch: "256 rows of 2,048 tokens a step, 4 a device".
std::string heading(const Session& session);

// The batch as a JSON object.
std::string batch_json(const Session& session);

}  // namespace moesh::session
