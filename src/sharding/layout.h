// Where every value of a model lies on a mesh: what the tables, dumps, explanations and findings are made from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "sharding/constraint.h"
#include "sharding/role.h"

namespace moesh::sharding {

struct LaidTensor {
  std::string path;
  Shape shape;  // global
  DType dtype = DType::float32;
  Constraint constraint;
  Spec spec;                    // axes of size 1 included
  std::int64_t iterations = 1;  // activations: how often a step makes it
  std::string made_by;          // activations: the op that makes it
  std::vector<int> sources;     // activations: the nearest laid-out activations it is made from
  std::vector<int> users;       // the nearest laid-out activations made from it
  Role role = Role::none;       // parameters and their moments
  std::string moment_of = {};   // moments: the parameter's path
  std::vector<int> weights = {};  // activations: the parameters met on the way from its sources

  const Labels& labels() const { return constraint.labels; }
};

// Experts that work on the rows of their own tokens only, and how tokens get to them.
struct LaidRegion {
  std::string path;
  std::string strategy;         // "ring", "all-to-all", "local"
  AxisList axes;                // that share out the experts
  std::int64_t devices = 1;     // along them
  double tokens = 0;            // that a device has in a pass
  double choices = 0;           // experts of a token
  double token_bytes = 0;
  double sent_bytes = 0;        // by a device, a pass forward, with an even router
};

struct Layout {
  mesh::Mesh mesh;
  std::string rule_set;  // empty: the default
  std::vector<config::AxisRule> rules;
  bool explicit_mode = false;
  LaidTensor input;
  std::vector<LaidTensor> parameters;
  std::vector<LaidTensor> activations;
  std::vector<LaidRegion> regions;
  std::vector<LaidTensor> moments;  // of the optimizer: "mu/...", "nu/..."
  std::vector<LaidTensor> states = {};  // of decoding: ".../cache/key"
};

// Bytes of a tensor's largest shard, and on how many devices each shard stands.
std::int64_t bytes_per_device(const LaidTensor& tensor, const mesh::Mesh& mesh);
std::int64_t replicas(const LaidTensor& tensor, const mesh::Mesh& mesh);

// The moments' spec under shard_optimizer_over_data: `data` goes before the first dim whose shard it divides and that has
// no `tensor`.
Spec over_data(const Shape& shape, const Spec& spec, const mesh::Mesh& mesh);

// Parameters, inputs and regions lie evenly: refuses a dim that its axes do not divide.
void check_even(const LaidTensor& tensor, const std::vector<config::AxisRule>& rules, const mesh::Mesh& mesh);

}  // namespace moesh::sharding
