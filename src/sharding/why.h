// Explains why a tensor has its layout: the rules in order, what each did to it, and its neighbours in the graph.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sharding/layout.h"

namespace moesh::sharding {

// The tensors that a name means: those with that path or, if there are none, all whose path contains it. Parameters come first.
std::vector<const LaidTensor*> find_tensors(const Layout& layout, const std::string& name);

// What one rule did to the tensor, in words.
struct Verdict {
  std::string rule;   // "exp -> expert"
  std::string where;  // file:line
  std::size_t dim;
  Outcome outcome;
  std::string words;  // "takes dim 0 (exp): 8 shards"
};

// One verdict for each rule that applies to the tensor, in the order of the rules.
std::vector<Verdict> verdicts(const Layout& layout, const LaidTensor& tensor);

// What the rules alone do not tell, a line each: further changes of the spec, labels without a rule, bytes per device, and copies.
std::string remarks(const Layout& layout, const LaidTensor& tensor);

std::string why(const Layout& layout, const LaidTensor& tensor, int width = 0);  // `width` of the terminal; 0: unlimited
// `members`: texts that are added to the object, by name.
std::string why_json(const Layout& layout, const LaidTensor& tensor, const std::vector<std::pair<std::string, std::string>>& members = {});

}  // namespace moesh::sharding
