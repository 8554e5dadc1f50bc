// What a device holds during a step, of what kind it is, and when it is most.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/arena.h"
#include "plan/plan.h"
#include "sharding/layout.h"

namespace moesh::forecast {

enum class Component : std::uint8_t {
  parameters,
  optimizer_state,
  other_state,
  batch,              // and the numbers of a step
  weights_in_use,     // parameters in the type of the arithmetic, and gathered ones
  saved_activations,  // made before the backward pass begins, and read in it
  gradients,          // made in the backward pass, and read by the update
  working_values,
  results,  // metrics, and what is kept of a step
  gaps,     // between buffers
};
inline constexpr int kComponents = static_cast<int>(Component::gaps) + 1;
std::string_view name_of(Component component);

// A buffer that is needed at the peak.
struct Held {
  Component component;
  std::string name;
  std::int64_t bytes = 0;
  plan::ViewId view = -1;  // as it is first written, in a loop an iteration's part; -1 where it is given
  plan::InstructionId first = 0, last = 0;
};

struct Memory {
  std::int64_t argument = 0;  // state and batch
  std::int64_t alias = 0;     // of these what a step writes in place
  std::int64_t output = 0;    // besides
  std::int64_t temp = 0;
  std::int64_t peak = 0;
  plan::InstructionId at = 0;            // where the most is needed
  std::vector<std::int64_t> components;  // then; they add up to the peak
  std::vector<Held> held;                // then, without state; the largest first
};

// `arena`: a device's.
Memory memory_of(const plan::Plan& plan, const plan::Arena& arena, const sharding::Layout& layout);

// By instruction: the bytes of each component that are held then, without gaps.
using Components = std::array<std::int64_t, kComponents>;
std::int64_t total(const Components& components);
std::vector<Components> memory_course(const plan::Plan& plan, const sharding::Layout& layout);

}  // namespace moesh::forecast
