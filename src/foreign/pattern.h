// Parses the Python list expressions with which Megatron-LM marks layers: "[0]*3+[1]*58".
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace moesh::foreign {

// The list's elements, 0 or 1; nothing if the text is anything else or the list has more than `most` elements.
std::optional<std::vector<int>> parse_pattern(std::string_view text, std::size_t most);

}  // namespace moesh::foreign
