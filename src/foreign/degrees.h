// Translates torch's degrees of parallelism into moesh's mesh axes. The axes' sizes multiply to the number of devices, whereas torch's
// experts lie within the devices of data, context and tensor parallelism.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "foreign/model_facts.h"
#include "foreign/translation.h"

namespace moesh::foreign {

struct Degrees {
  enum class Data {
    copied,           // every device has all parameters and their moments
    sharded_moments,  // ZeRO-1 and 2: only the moments are sharded
    sharded,          // ZeRO-3 and FSDP: parameters are sharded too
  };
  std::int64_t replicas = 1;         // number of groups of devices within each of which parameters are sharded
  std::optional<std::int64_t> data;  // data-parallel devices within a replica; if absent, those that the other degrees leave
  std::int64_t tensor = 1;
  std::int64_t context = 1;
  std::int64_t stages = 1;
  std::int64_t experts = 1;
  std::int64_t tensor_in_experts = 1;
  bool has_slots = false;        // experts have as many slots each, whose widths the rules name as those of dense MLPs
  bool shards_sequence = false;  // whether norms have the sequence sharded over the tensor-parallel devices
  Data kind = Data::sharded;
  ModelFacts model;
};

// The number of devices, from the user's compile_topology or else from the command.
struct Devices {
  std::int64_t count = 1;
  std::int64_t data = 1;    // data-parallel devices, replicas included
  std::int64_t stages = 1;  // of the mesh
  bool is_own = false;      // the user gives sizes of mesh axes, which come before the degrees
};

// Sets the sizes of the mesh axes and the rules that they need. `told`: the number of devices that the command itself names. If the user
// names sizes of mesh axes, these and the number of devices come before the degrees, and nothing is refused for its product.
Devices give_mesh(const Degrees& degrees, std::optional<std::int64_t> told, const std::string& where, Translation& translation);

struct Batch {
  double rows = 1;                 // rows of a microbatch per data-parallel device
  std::optional<double> all_rows;  // rows of a step on all devices
  std::int64_t parts = 1;          // microbatches per step, if there is no all_rows
};

// Returns the number of passes of a step whose gradients are added up. `stages`: those of the command.
std::int64_t give_batch(const Batch& batch, const Devices& devices, std::int64_t stages, const std::string& where,
                        Translation& translation);

// For experts that take all rows routed to them: plans memory for somewhat more rows than an even load has.
void give_room_for_rows(const Degrees& degrees, Translation& translation);

// Sets how much a pipeline stage runs at a time. `chunk`: the command's number of layers, or 0 for all layers of the stage. moesh counts
// cycles of layers, if these differ.
void give_stages(const ModelFacts& model, std::int64_t stages, std::int64_t chunk, const std::string& where, Translation& translation);

// A plan gathers weights again for the backward pass, where the program keeps those of the forward pass, as `flag` says.
void tell_kept_weights(const std::string& flag, const char* program, bool computes_narrow, Translation& translation);
// A plan sums gradients in the format of the arithmetic, and the program in float32.
void tell_narrow_sums(const char* program, Translation& translation);

}  // namespace moesh::foreign
