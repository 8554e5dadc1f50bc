// Lets parts of a batch take turns, so that the rows of one are on their way while another is multiplied.
#pragma once

#include "plan/plan.h"

namespace moesh::plan {

// Before: the parts (graph::part_of) stand one after another. After: where the next instruction of a part waits for rows that a collective
// of a region brings, the next part goes on; where all of them wait, a product that does not is next. The instructions are the same, and
// so are their results: of two that use the same buffer and of which one writes it, the first stays first.
Plan with_parts_alternating(Plan plan);

}  // namespace moesh::plan
