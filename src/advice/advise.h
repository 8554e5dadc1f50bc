// All findings about a request: its layout, and the memory and time of its step; with changes that were found to fix them.
#pragma once

#include <optional>
#include <vector>

#include "advice/planned.h"
#include "sharding/finding.h"

namespace moesh::advice {

struct Advice {
  std::vector<sharding::Finding> findings;
  std::optional<forecast::Forecast> forecast;  // if a step could be planned
};

// `session` is the request's, opened with Evenness::reported. Each change that is offered was tried: it removes its finding, adds no error
// (unless no step could be planned before: then one that does not fit is no worse), and, if the finding is about speed or memory, makes the
// step faster or smaller. A finding of that kind is left out if no change helps, except a slow link that makes most of the step wait, which
// stays a remark.
Advice advise(const Request& request, const session::Session& session);

}  // namespace moesh::advice
