// Why a tensor lies where it does: the rules in order, what each did to it, and what stands around it.
#pragma once

#include <string>
#include <vector>

#include "sharding/layout.h"

namespace moesh::sharding {

// The tensors a name means: the one with that path, or all whose path holds it. Parameters before activations.
std::vector<const LaidTensor*> find_tensors(const Layout& layout, const std::string& name);

std::string why(const Layout& layout, const LaidTensor& tensor, int width = 0);  // of the terminal; 0: as wide as it gets
std::string why_json(const Layout& layout, const LaidTensor& tensor);

}  // namespace moesh::sharding
