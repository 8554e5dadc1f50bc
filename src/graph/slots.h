// Masks of slots are how a layer with a fixed capacity is written: a one-hot [B, S, E, C] that tokens are multiplied with on the
// way to the experts and back. What runs knows each choice's slot and copies rows.
#pragma once

#include "graph/graph.h"

namespace moesh::graph {

// The same graph with products of slot masks written as fill_slots and empty_slots. The layout asked of a mask is asked of the
// slots.
Graph without_slot_masks(const Graph& graph);

}  // namespace moesh::graph
