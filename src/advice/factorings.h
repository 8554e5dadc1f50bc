// The ways to divide devices among the axes of a mesh, by the state that a device then holds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "session/session.h"

namespace moesh::advice {

struct Factoring {
  mesh::Mesh mesh;
  std::int64_t state_bytes = 0;  // parameters and moments of a device
};

// Which axes may have other sizes than those of a request.
struct Freedom {
  std::vector<std::string> growing{"fsdp", "expert", "tensor", "context"};  // get devices, where the rules use them
  std::vector<std::string> growing_between{};                               // get slices; empty: the slices stay where they are
  std::vector<std::string> fixed{"ici_pipeline_parallelism"};               // keys; all other axes only give devices up
};

// Other meshes of as many devices, over which all parameters lie evenly; the least state first, and of those with as much the least
// change to what tensor and context have.
std::vector<Factoring> factorings(const session::Session& session, const Freedom& freedom = {});

// The same of one mesh that has the session's axes; nothing where a parameter does not lie evenly.
std::optional<std::int64_t> state_on(const session::Session& session, const mesh::Mesh& mesh);

// Whether so many rows lie evenly.
bool takes_rows(const sharding::Layout& layout, const mesh::Mesh& mesh, std::int64_t rows);

}  // namespace moesh::advice
