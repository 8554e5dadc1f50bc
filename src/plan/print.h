// A plan as text: its ports, its instructions with loops indented, and its buffers with their offsets on a device.
#pragma once

#include <string>

#include "plan/plan.h"

namespace moesh::plan {

std::string to_text(const Plan& plan);

}  // namespace moesh::plan
