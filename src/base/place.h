// Where the thing with a number stands in a vector of all.
#pragma once

#include <cstddef>
#include <cstdint>

namespace moesh {

constexpr std::size_t at(std::int64_t number) { return static_cast<std::size_t>(number); }

}  // namespace moesh
