// The program that runs the step of a request, and what it holds that a plan does not.
#pragma once

#include <cstdint>
#include <string>

namespace moesh::config {

// MaxText's steps, as XLA compiles them, unless the request is another program's.
struct Engine {
  std::string name = "XLA";
  std::int64_t bytes_of_logit = 4;  // with its gradients, as far as they are held at once; plans compute logits in pieces
  std::int64_t parts_of_loss = 1;   // in which logits are held one after the other

  bool is_xla() const { return name == "XLA"; }
};

}  // namespace moesh::config
