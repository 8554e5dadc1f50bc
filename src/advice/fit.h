// Whether a training step fits a device of its target.
#pragma once

#include <string>

#include "advice/planned.h"

namespace moesh::advice {

// Whether the request names a target. Otherwise its devices are virtual ones that share the memory of this machine, so the question whether
// a step fits one of them does not arise.
bool has_target(const session::Session& session);

// The parts of the peak, in the order in which something can be done about them: "state 65.2 GiB, gradients 21.7 GiB, saved activations
// 3.00 GiB, ...".
std::string memory_words(const forecast::Memory& memory);

// A sentence on the memory that a step takes and that is available, with the step's time if it fits.
std::string fit_words(const session::Session& session, const forecast::Forecast& forecast);
// The same for a step that is planned for this purpose. If that cannot be done, or would take long, the sentence says so.
std::string fit_words(const session::Session& session);

}  // namespace moesh::advice
