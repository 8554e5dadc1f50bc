#include "partition/moments.h"

#include "graph/matrix_dims.h"

namespace moesh::partition {

Optimized::Optimized(const config::Settings& settings)
    : optimizer_(settings.text("opt_type")), trained_(settings, "trainable_parameters_mask") {}

int Optimized::moments(const std::string& path, sharding::Role role, const Shape& shape) const {
  if (optimizer_ == "sgd" || !is_trained(path)) return 0;
  return optimizer_ == "muon" && graph::matrix_dims(role, shape).is_matrix ? 1 : 2;
}

}  // namespace moesh::partition
