// The running means that an optimizer keeps of a parameter's gradients (mu) and of their squares (nu).
#pragma once

#include <string>
#include <string_view>

#include "base/shape.h"
#include "config/optimizer.h"
#include "config/path_mask.h"
#include "config/settings.h"
#include "sharding/role.h"

namespace moesh::partition {

inline std::string mu_of(const std::string& parameter) { return "mu/" + parameter; }
inline std::string nu_of(const std::string& parameter) { return "nu/" + parameter; }

// Whether a name is that of a moment rather than of a parameter.
inline bool is_moment(std::string_view name) { return name.starts_with("mu/") || name.starts_with("nu/"); }

// Which parameters are trained, and how many moments are kept of each.
class Optimized {
 public:
  explicit Optimized(const config::Settings& settings);

  // Whether the parameter is none of the model's weights in MaxText, but a value beside them, which no optimizer sees and no norm counts.
  bool is_beside(sharding::Role role) const;
  // Whether the optimizer updates the parameter (trainable_parameters_mask).
  bool is_trained(const std::string& path, sharding::Role role) const;
  // None, mu, or mu and nu. Muon keeps one for matrices, and two for all other parameters.
  int moments(const std::string& path, sharding::Role role, const Shape& shape) const;

 private:
  config::Optimizer optimizer_;
  bool has_biases_beside_;
  config::PathMask trained_;
};

}  // namespace moesh::partition
