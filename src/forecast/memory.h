// The memory that a device needs during a step, by component, and its peak.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "forecast/resident.h"
#include "plan/arena.h"
#include "sharding/layout.h"

namespace moesh::forecast {

enum class Component : std::uint8_t {
  parameters,
  optimizer_state,
  kv_cache,
  other_state,
  batch,              // and other inputs of a step, such as its learning rate
  weights_in_use,     // parameters in the dtype of the arithmetic, and gathered parameters
  saved_activations,  // made before the backward pass begins, and read in it
  gradients,          // made in the backward pass, and read by the update
  working_values,
  results,       // metrics and other outputs of a step
  tile_padding,  // what fills the tiles in which the chip stores arrays, see mesh/hardware.h
  gaps,          // unused memory between buffers
};
inline constexpr int kComponents = static_cast<int>(Component::gaps) + 1;
std::string_view name_of(Component component);

using Components = std::array<std::int64_t, kComponents>;  // bytes by component
std::int64_t total(const Components& components);

// A buffer that is live at the peak.
struct Held {
  Component component;
  std::string name;
  std::int64_t bytes = 0;
  plan::ViewId view = -1;  // the view that is written first, in a loop the part of one iteration; -1: nothing writes to the buffer
  plan::InstructionId first = 0, last = 0;
};

struct Memory {
  std::int64_t argument = 0;  // state and batch
  std::int64_t alias = 0;     // the part of `argument` that a step updates in place: the state
  std::int64_t output = 0;    // the outputs that are not aliased
  std::int64_t temp = 0;
  std::int64_t peak = 0;
  plan::InstructionId at = 0;            // the instruction at which the most is needed
  Components components{};               // at the peak, to which they add up
  std::vector<Held> held;                // at the peak, without state; the largest first

  std::int64_t of(Component component) const { return components[static_cast<std::size_t>(component)]; }
};

// `arena`: that of the resident plan.
Memory memory_of(const Resident& resident, const plan::Arena& arena, const sharding::Layout& layout);

// By instruction: the live bytes of each component, without gaps.
std::vector<Components> memory_course(const Resident& resident, const sharding::Layout& layout);

}  // namespace moesh::forecast
