// What would make a training step fit a device of its target.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "advice/planned.h"

namespace moesh::advice {

// A change of a request, with the planner's figures for it.
struct Offer {
  Keys keys;
  std::int64_t devices = 1;
  std::int64_t tokens = 0;  // per step
  std::int64_t peak = 0;
  std::int64_t usable = 0;
  double seconds = 0;  // per step
  double tokens_per_second_per_device = 0;
  bool is_narrow = false;  // fits, but XLA's step would not
  bool rounds = false;     // keeps weights or moments in another type, so that the losses differ

  bool fits() const { return peak <= usable; }
  bool fits_well() const { return fits() && !is_narrow; }
};

Offer offer_of(const Keys& keys, const session::Session& session, const forecast::Forecast& forecast);
inline Offer offer_of(const Keys& keys, const Planned& planned) { return offer_of(keys, planned.session, planned.step.forecast); }
std::string speed_words(const Offer& offer);  // "12,345" tokens/s a device
std::string change_words(const Offer& offer);  // the keys as words to paste, with what has to be known of the change in brackets

// What was tried for a step that does not fit, or hardly.
struct Remedies {
  // The best of each kind that fits: those that keep devices, tokens and numbers come first, narrow ones last. None is slower and larger
  // than another.
  std::vector<Offer> offers;
  std::optional<Offer> nearest;  // the smallest on as many devices, if none of these fits; nothing if all are larger than the request's
  bool fits_here = false;        // whether an offer fits on as many devices
  int tried = 0;
};

// Tries rules, remat policies, chunks, axis sizes, batches and machines, and the best of them together. `forecast`: the request's.
Remedies remedies_of(const Request& request, const session::Session& session, const forecast::Forecast& forecast);

// The change that comes nearest if nothing fits on as many devices.
std::string nearest_words(const Remedies& remedies);

// A table of the offers, and what comes nearest if nothing fits on as many devices.
std::string to_text(const Remedies& remedies, int width);

// The keys for the same batch in fewer passes.
std::vector<Keys> fewer_passes(const config::Settings& settings);

}  // namespace moesh::advice
