// What a command says of its request before anything else.
#pragma once

#include <string>

#include "session/session.h"

namespace moesh::session {

// The headline, and a line on a step's batch: "256 rows of 2,048 tokens a step, 4 a device".
std::string heading(const Session& session);

// The batch as an object of JSON.
std::string batch_json(const Session& session);

}  // namespace moesh::session
