// Parts of a batch that go through the same nodes, so that one can be on its way while another is multiplied (see plan/alternate.h).
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "graph/builder.h"

namespace moesh::graph {

// Builds the nodes of the first part, and for each other part those of them once more that depend on what it is given. What depends on
// nothing that the parts are given, such as a weight in another type, is shared. `given`: by part, tensors of the same shapes and types.
std::vector<std::vector<Tensor>> in_parts(Builder& builder, const std::vector<std::vector<Tensor>>& given,
                                          const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& build);

// The part of the node with that path: behind the first part it is in the path, "decoder/layers/part_1/mlp". 0 for what parts share.
int part_of(std::string_view path);

}  // namespace moesh::graph
