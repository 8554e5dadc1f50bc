// How tokens get to experts that are sharded over devices.
#pragma once

#include <cstdint>

namespace moesh::sharding {

enum class Dispatch : std::uint8_t {
  local,       // nothing is sent: each device has all tokens of its experts
  ring,        // a device gathers the tokens of all others, and sums go back
  all_to_all,  // a row goes to the device of its expert and back
};

}  // namespace moesh::sharding
