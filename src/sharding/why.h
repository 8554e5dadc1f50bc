// Why a tensor lies where it does: the rules in order, what each did to it, and what stands around it.
#pragma once

#include <string>
#include <vector>

#include "sharding/layout.h"

namespace moesh::sharding {

// The tensors a name means: the one with that path, or all whose path holds it. Parameters before activations.
std::vector<const LaidTensor*> find_tensors(const Layout& layout, const std::string& name);

// One rule that concerns the tensor, in words.
struct Verdict {
  std::string rule;     // "exp -> expert"
  std::string where;    // file:line
  std::size_t dim;
  std::string outcome;  // "taken", "settled", "dim_assigned", "axis_taken"
  std::string words;    // "takes dim 0 (exp): 8 shards"
};

// In the rules' order.
std::vector<Verdict> verdicts(const Layout& layout, const LaidTensor& tensor);

// What rules alone do not tell: how the value was laid out besides, labels without a rule, what it costs, and its copies; a line each.
std::string remarks(const Layout& layout, const LaidTensor& tensor);

std::string why(const Layout& layout, const LaidTensor& tensor, int width = 0);  // of the terminal; 0: as wide as it gets
std::string why_json(const Layout& layout, const LaidTensor& tensor);

}  // namespace moesh::sharding
