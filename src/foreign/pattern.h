// Which layers are of a kind, as Megatron-LM takes a list in Python: "[0]*3+[1]*58".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace moesh::foreign {

// The list's elements, 0 or 1; nothing where the text is anything else, or makes more than `most`.
std::optional<std::vector<int>> parse_pattern(std::string_view text, std::size_t most);

}  // namespace moesh::foreign
