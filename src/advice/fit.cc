#include "advice/fit.h"

#include <array>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "forecast/report.h"

namespace moesh::advice {

using forecast::Component;

bool has_target(const session::Session& session) { return !session.loaded.settings.text("compile_topology").empty(); }

std::string memory_words(const forecast::Memory& memory) {
  const std::array<std::pair<std::string_view, std::int64_t>, 5> parts{{
      {"state", memory.of(Component::parameters) + memory.of(Component::optimizer_state) + memory.of(Component::other_state)},
      {"gradients", memory.of(Component::gradients)},
      {"saved activations", memory.of(Component::saved_activations)},
      {"weights in use", memory.of(Component::weights_in_use)},
      {"working values and collective buffers", memory.of(Component::working_values)},
  }};
  std::vector<std::string> words;
  std::int64_t rest = memory.peak;
  const auto tell = [&](std::string_view name, std::int64_t bytes) {
    if (bytes * 100 < memory.peak) return;
    words.push_back(fmt::format("{} {}", name, human_bytes(bytes)));
    rest -= bytes;
  };
  for (const auto& [name, bytes] : parts) tell(name, bytes);
  tell("the rest", rest);
  return join(words, ", ");
}

std::string fit_words(const session::Session& session, const forecast::Forecast& forecast) {
  const std::string takes =
      fmt::format("A training step takes {} a device at the peak ({})", human_bytes(forecast.memory.peak), memory_words(forecast.memory));
  if (!has_target(session)) return takes + "; compile_topology= tells whether a machine has it.\n";
  const std::int64_t left = forecast.usable_memory - forecast.memory.peak;
  if (left < 0)
    return fmt::format("It does not fit: a{}; {} are there, {} are missing. `moesh lint` tells what makes it fit.\n", takes.substr(1),
                       human_bytes(forecast.usable_memory), human_bytes(-left));
  return fmt::format("{}: it fits{}, {} of {} are left; {} a step, as predicted.{}\n", takes, forecast.fits_narrowly() ? " narrowly" : "",
                     human_bytes(left), human_bytes(forecast.usable_memory), human_seconds(forecast.seconds),
                     forecast::engine_words(forecast));
}

std::string fit_words(const session::Session& session) {
  if (!plans_at_once(session))
    return "With so many layers apart planning takes a while: `moesh compile` tells what a training step takes.\n";
  try {
    return fit_words(session, plan_step(session).forecast);
  } catch (const Error& error) {
    return fmt::format("No training step is planned: {}.\n", error.parts().what);
  }
}

}  // namespace moesh::advice
