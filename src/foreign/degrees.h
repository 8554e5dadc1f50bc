// A mesh of torch's degrees of parallelism in moesh's axes: which multiply, where torch's experts lie within data, context and
// tensor parallelism.
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
    sharded_moments,  // ZeRO-1 and 2: only the moments are spread
    sharded,          // ZeRO-3, FSDP
  };
  std::int64_t replicas = 1;         // of groups within which parameters are sharded
  std::optional<std::int64_t> data;  // devices along data parallelism within a replica; nothing: what is left
  std::int64_t tensor = 1;
  std::int64_t context = 1;
  std::int64_t stages = 1;
  std::int64_t experts = 1;
  std::int64_t tensor_in_experts = 1;
  bool shards_sequence = false;  // over the devices of tensor parallelism, where norms are
  Data kind = Data::sharded;
  ModelFacts model;
};

// How many devices there are: by the user's compile_topology, or else by what the command says.
struct Devices {
  std::int64_t count = 1;
  std::int64_t data = 1;  // along data parallelism, replicas included
};

// Gives the axes' sizes, and the rules that they need. `told`: devices by the command itself.
Devices give_mesh(const Degrees& degrees, std::optional<std::int64_t> told, const std::string& where, Translation& translation);

struct Batch {
  double rows = 1;                 // of a microbatch, for each device of data parallelism
  std::optional<double> all_rows;  // of a step, everywhere
  std::int64_t parts = 1;          // microbatches of a step, where all_rows does not tell
};

void give_batch(const Batch& batch, const Devices& devices, std::int64_t stages, const std::string& where, Translation& translation);

// Experts take the rows that come; memory is planned for some more than an even load.
void give_room_for_rows(const Degrees& degrees, Translation& translation);

// Layers of a stage at a time; `chunk`: as the command says, 0 for all that a stage has.
void give_stages(std::int64_t layers, std::int64_t stages, std::int64_t chunk, const std::string& where, Translation& translation);

}  // namespace moesh::foreign
