// Whether a training step fits a device of its target, and what would make it fit.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "advice/planned.h"

namespace moesh::advice {

// Whether the target was asked for. The devices that a machine plays share its memory, so that a step fits no one of them.
bool has_target(const session::Session& session);

// "state 65.2 GiB, gradients 21.7 GiB, saved activations 3.00 GiB, ...": of what the peak is made, in the order in which it can be
// helped.
std::string memory_words(const forecast::Memory& memory);

// A sentence on the memory that a step takes and what is there, with its time where it fits.
std::string fit_words(const session::Session& session, const forecast::Forecast& forecast);
// The same, planned for it; where no step can be planned, why.
std::string fit_words(const session::Session& session);

// A change of a request, as the planner says that it goes.
struct Offer {
  Keys keys;
  std::int64_t devices = 1;
  std::int64_t tokens = 0;  // of a step
  std::int64_t peak = 0;
  std::int64_t usable = 0;
  double seconds = 0;  // of a step
  double tokens_per_second_per_device = 0;

  bool fits() const { return peak <= usable; }
};

Offer offer_of(const Keys& keys, const Planned& planned);
std::string speed_words(const Offer& offer);  // "12,345" tokens/s a device

// What was tried for a step that does not fit.
struct Remedies {
  std::vector<Offer> offers;     // that fit; first those that keep devices and tokens, of each the fastest
  std::optional<Offer> nearest;  // the smallest on as many devices, where none of them fits; none where all are larger
  bool fits_here = false;        // on as many devices
  int tried = 0;
};

// Rules, remat policies, chunks, axis sizes, batches and machines, and the best of them together. `step` is what the request takes.
Remedies remedies_of(const std::vector<std::string>& request, const session::Session& session, const forecast::Forecast& forecast);

// What came nearest where nothing fits on as many devices.
std::string nearest_words(const Remedies& remedies);

// A table of the offers, or what came nearest.
std::string to_text(const Remedies& remedies, int width);

}  // namespace moesh::advice
