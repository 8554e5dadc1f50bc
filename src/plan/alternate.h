// Lets parts of a batch take turns, so that the rows of one are on their way while another is multiplied.
#pragma once

#include "plan/plan.h"

namespace moesh::plan {

// Before: the parts (graph::part_of) stand one after another. After: where the next instruction of a part waits for rows that a collective
// of a region brings, the next part goes on; where no part waits for rows that could come, or all do, any product that can run is next.
// Rows count as there once the turn is over in which a product of another part stands behind them. What gathers weights for products beside
// the rows goes before these, which would hold it up on the wire. The instructions are the same, and so are their results: of two that use
// the same buffer and of which one writes it, the first stays first.
Plan with_parts_alternating(Plan plan);

}  // namespace moesh::plan
