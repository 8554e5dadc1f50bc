#include "partition/moments.h"

#include "config/block.h"
#include "graph/matrix_dims.h"

namespace moesh::partition {

Optimized::Optimized(const config::Settings& settings)
    : optimizer_(config::optimizer_of(settings)),
      has_biases_beside_(config::block_of(settings) == config::Block::deepseek4),
      trained_(settings, "trainable_parameters_mask") {}

bool Optimized::is_beside(sharding::Role role) const {
  return role == sharding::Role::expert_table || (has_biases_beside_ && role == sharding::Role::router_bias);
}

bool Optimized::is_trained(const std::string& path, sharding::Role role) const {
  return !is_beside(role) && (trained_.is_empty() || trained_.matches(path));
}

int Optimized::moments(const std::string& path, sharding::Role role, const Shape& shape) const {
  if (optimizer_ == config::Optimizer::sgd || !is_trained(path, role)) return 0;
  return optimizer_ == config::Optimizer::muon && graph::matrix_dims(role, shape).is_matrix ? 1 : 2;
}

}  // namespace moesh::partition
