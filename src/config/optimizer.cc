#include "config/optimizer.h"

namespace moesh::config {

Optimizer optimizer_of(const Settings& settings) {
  const std::string& word = settings.text("opt_type");
  if (word == "sgd") return Optimizer::sgd;
  if (word == "muon") return Optimizer::muon;
  return word == "adam_pax" ? Optimizer::adam_pax : Optimizer::adamw;
}

}  // namespace moesh::config
