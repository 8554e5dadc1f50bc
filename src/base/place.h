// A signed number as an index into a vector.
#pragma once

#include <cstddef>
#include <cstdint>

namespace moesh {

constexpr std::size_t at(std::int64_t number) { return static_cast<std::size_t>(number); }

}  // namespace moesh
