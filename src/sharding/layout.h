// The layout of a model: the spec of every value on a mesh. Tables, dumps, explanations and findings are made from it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "sharding/constraint.h"
#include "sharding/dispatch.h"
#include "sharding/role.h"

namespace moesh::sharding {

// A tensor with its spec.
struct LaidTensor {
  std::string path;
  Shape shape = {};  // global
  DType dtype = DType::float32;
  Constraint constraint = {};
  Spec spec = {};               // with axes of size 1
  std::string made_by = {};     // activations: the op that makes it, in words
  std::vector<int> sources = {};  // activations: the nearest laid-out activations that it is made from
  std::vector<int> users = {};    // the nearest laid-out activations that are made from it
  Role role = Role::none;       // parameters and their moments
  std::string moment_of = {};   // moments: the parameter's path
  std::vector<int> weights = {};  // activations: the parameters used on the way from its sources
  bool must_divide = false;       // activations: whether a region takes it, whose operands must divide evenly

  const Labels& labels() const { return constraint.labels; }
};

// A region of experts, each of which works only on the rows of its own tokens, and how tokens get to them.
struct LaidRegion {
  std::string path;
  Dispatch strategy = Dispatch::local;
  AxisList axes;                // the mesh axes that shard the experts
  std::int64_t devices = 1;     // devices along these axes
  double tokens = 0;            // tokens that a device has in a pass
  double experts = 0;           // of all devices
  double choices = 0;           // experts per token (top-k)
  double token_bytes = 0;
};

struct Layout {
  mesh::Mesh mesh;
  std::string rule_set;  // empty: the default rules
  std::vector<config::AxisRule> rules = {};
  bool explicit_mode = false;
  LaidTensor input = {};
  std::vector<LaidTensor> parameters = {};
  std::vector<LaidTensor> activations = {};
  std::vector<LaidRegion> regions = {};
  std::vector<LaidTensor> moments = {};  // of the optimizer: "mu/...", "nu/..."
  std::vector<LaidTensor> states = {};  // for decoding: ".../cache/key"
};

// The bytes of a whole tensor and of its largest shard, and the number of devices that hold a copy of each shard.
std::int64_t whole_bytes(const LaidTensor& tensor);
std::int64_t bytes_per_device(const LaidTensor& tensor, const mesh::Mesh& mesh);
std::int64_t replicas(const LaidTensor& tensor, const mesh::Mesh& mesh);
// The bytes of all parameters and moments on one device.
std::int64_t state_bytes(const Layout& layout);

// The moments with another spec than their parameters.
std::vector<const LaidTensor*> moved_moments(const Layout& layout);

// The spec of moments under shard_optimizer_over_data: `data` becomes the first axis of the first dim whose shard it divides and which
// is not sharded over `tensor`.
Spec over_data(const Shape& shape, const Spec& spec, const mesh::Mesh& mesh);

// Refuses a tensor with a dim that its axes do not divide evenly. Parameters, inputs and operands of regions must pass.
void check_even(const LaidTensor& tensor, const Layout& layout);

}  // namespace moesh::sharding
