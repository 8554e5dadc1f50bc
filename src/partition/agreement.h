// shard_mode=explicit: an op takes its layout from its operands, and operands that disagree are an error.
#pragma once

#include <vector>

#include "partition/assignment.h"

namespace moesh::partition {

// For each axis the factor that it shards, or -1. The rules are those of JAX's explicit mode: all operands that shard an index have
// the same axes on it; an axis shards at most one index of the result; the axes of a contracted index are kept if all operands have
// the same ones, else the operands are gathered. Parameters are stored as their rules say, and are gathered where the activations
// use their axes.
std::vector<int> agreed_places(const Question& question, const mesh::Mesh& mesh);

// Refuses a request in which an op cannot run on the blocks that its operands agree on, because they differ in size.
[[noreturn]] void refuse_uneven_agreement(const Question& question, const mesh::Mesh& mesh);

}  // namespace moesh::partition
