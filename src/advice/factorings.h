// The ways to divide devices among the axes of a mesh, sorted by the state that each device then holds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "session/session.h"

namespace moesh::advice {

struct Factoring {
  mesh::Mesh mesh;
  std::int64_t state_bytes = 0;  // per device, see state_on
};

// The axes that may have other sizes than in a request.
struct Freedom {
  std::vector<std::string> growing{"fsdp", "expert", "tensor", "context"};  // may get devices, if the rules use them
  std::vector<std::string> growing_between{};                               // may get slices; empty: the slices stay where they are
  std::vector<std::string> fixed{"ici_pipeline_parallelism"};               // keys whose sizes stay; other axes may only give up devices
};

// Other meshes with the same number of devices over which all parameters and moments divide evenly: those with the least state first, and
// if that is about equal, those that change the sizes of tensor and context the least.
std::vector<Factoring> factorings(const session::Session& session, const Freedom& freedom = {});

// The bytes of parameters and moments in a device's memory on one mesh that has the session's axes; nothing if a parameter or moment does
// not divide evenly. Moments that wait in the host's memory do not count.
std::optional<std::int64_t> state_on(const session::Session& session, const mesh::Mesh& mesh);

// Whether a batch of so many rows divides evenly.
bool takes_rows(const sharding::Layout& layout, const mesh::Mesh& mesh, std::int64_t rows);

}  // namespace moesh::advice
