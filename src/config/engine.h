// The program that runs the step of a request, and what it holds that a plan does not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace moesh::config {

struct Engine {
  std::optional<std::string> program;  // its name; none for MaxText, whose steps XLA compiles
  std::int64_t bytes_of_logit = 4;  // with its gradients, as far as they are held at once; plans compute logits in pieces
  std::int64_t parts_of_loss = 1;   // in which logits are held one after the other

  bool is_xla() const { return !program; }
};

}  // namespace moesh::config
