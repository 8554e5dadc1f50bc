// A mesh as JSON.
#pragma once

#include "base/json.h"
#include "mesh/mesh.h"

namespace moesh::mesh {

// An object with the size of each axis, in the mesh's order.
void write_sizes(const Mesh& mesh, JsonWriter& json);

}  // namespace moesh::mesh
