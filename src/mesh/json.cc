#include "mesh/json.h"

namespace moesh::mesh {

void write_sizes(const Mesh& mesh, JsonWriter& json) {
  json.begin_object();
  for (const Axis& axis : mesh.axes()) json.key(axis.name).value(axis.size());
  json.end_object();
}

}  // namespace moesh::mesh
