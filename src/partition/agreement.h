// shard_mode=explicit: an op lies as its operands do, and operands that disagree are an error.
#pragma once

#include <vector>

#include "partition/assignment.h"

namespace moesh::partition {

// For each axis the factor that it goes to, or -1. As in JAX's explicit mode: operands give an index the same axes or one of them
// leaves it whole; an axis shards one index of the result; an axis on an index that is summed counts where all operands have
// it, else that operand is gathered. Parameters rest as their rules say and are gathered where activations use their axes.
std::vector<int> agreed_places(const Question& question, const mesh::Mesh& mesh);

// Ends a request in which an op cannot run on the blocks that its operands agree on: they differ in size.
[[noreturn]] void refuse_uneven_agreement(const Question& question, const mesh::Mesh& mesh);

}  // namespace moesh::partition
