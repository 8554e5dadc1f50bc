// Replaces slot masks by copies of rows. A layer with a fixed capacity is written with a mask: a one-hot [B, S, E, C] by which tokens are
// multiplied on the way to the experts and back. A program that runs knows the slot of each choice and copies rows.
#pragma once

#include "graph/graph.h"

namespace moesh::graph {

// The same graph with products of slot masks rewritten as fill_slots and empty_slots. A layout asked of a mask is asked of its slots
// instead.
Graph without_slot_masks(const Graph& graph);

}  // namespace moesh::graph
