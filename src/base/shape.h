// Shapes of values: sizes of dims, outermost first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moesh {

using Shape = std::vector<std::int64_t>;

std::int64_t elements(const Shape& shape);
std::string to_string(const Shape& shape);  // "[8, 2048, 64]"

}  // namespace moesh
