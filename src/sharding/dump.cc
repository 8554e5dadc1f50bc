#include "sharding/dump.h"

#include <algorithm>

#include "base/json.h"

namespace moesh::sharding {
namespace {

// One entry per dim: null, an axis, or a list of axes.
void write_spec(JsonWriter& json, const Spec& spec, const mesh::Mesh& mesh) {
  json.begin_array();
  for (const AxisList& axes : spec.dims) {
    if (axes.empty()) {
      json.null();
    } else if (axes.size() == 1) {
      json.value(mesh.axis(axes.front()).name);
    } else {
      json.begin_array();
      for (const AxisIndex axis : axes) json.value(mesh.axis(axis).name);
      json.end_array();
    }
  }
  json.end_array();
}

void write_labels(JsonWriter& json, const Constraint& constraint) {
  json.begin_array();
  for (std::size_t dim = 0; dim + static_cast<std::size_t>(constraint.unlisted) < constraint.labels.size(); ++dim) {
    if (constraint.labels[dim].empty()) {
      json.null();
    } else {
      json.value(constraint.labels[dim]);
    }
  }
  json.end_array();
}

void write_mesh(JsonWriter& json, const mesh::Mesh& mesh) {
  json.key("mesh").begin_object().key("axes").begin_array();
  for (const mesh::Axis& axis : mesh.axes()) json.value(axis.name);
  json.end_array().key("sizes").begin_array();
  for (const mesh::Axis& axis : mesh.axes()) json.value(axis.size());
  json.end_array().end_object();
}

void write_bytes(JsonWriter& json, const LaidTensor& tensor, const mesh::Mesh& mesh) {
  json.key("bytes").value(whole_bytes(tensor)).key("bytes_per_device").value(bytes_per_device(tensor, mesh));
  json.key("replicas").value(replicas(tensor, mesh));
}

// The totals over all listed tensors.
void write_totals(JsonWriter& json, const Layout& layout) {
  const auto bytes = [&](const std::vector<LaidTensor>& tensors) {
    std::int64_t sum = 0;
    for (const LaidTensor& tensor : tensors) sum += bytes_per_device(tensor, layout.mesh);
    return sum;
  };
  std::int64_t count = 0;
  for (const LaidTensor& tensor : layout.parameters) count += elements(tensor.shape);
  json.key("totals").begin_object().key("devices").value(layout.mesh.devices()).key("parameters").value(count);
  json.key("parameter_bytes_per_device").value(bytes(layout.parameters));
  if (layout.states.empty())
    json.key("optimizer_bytes_per_device").value(bytes(layout.moments));
  else
    json.key("kv_cache_bytes_per_device").value(bytes(layout.states));
  json.key("activation_bytes_per_device").value(bytes(layout.activations)).end_object();
}

void write_parameter(JsonWriter& json, const LaidTensor& tensor, const mesh::Mesh& mesh) {
  json.line().begin_object().key("path").value(tensor.path).key("shape").values(tensor.shape).key("logical");
  write_labels(json, tensor.constraint);
  json.key("spec");
  write_spec(json, tensor.spec, mesh);
  write_bytes(json, tensor, mesh);
  json.end_object();
}

// The labels are left out if they alone do not determine the spec.
void write_activation(JsonWriter& json, const LaidTensor& tensor, const mesh::Mesh& mesh) {
  json.line().begin_object().key("where").value(tensor.path).key("dtype").value(name_of(tensor.dtype));
  json.key("shape").values(tensor.shape).key("logical");
  if (tensor.constraint.is_plain()) {
    write_labels(json, tensor.constraint);
  } else {
    json.null();
  }
  json.key("spec");
  write_spec(json, without_size_one(tensor.spec, mesh), mesh);
  write_bytes(json, tensor, mesh);
  json.end_object();
}

void write_optimizer(JsonWriter& json, const Layout& layout) {
  const std::vector<const LaidTensor*> moved = moved_moments(layout);
  json.key("optimizer");
  if (moved.empty()) {
    json.value("same as params");
    return;
  }
  json.begin_array();
  for (const LaidTensor* moment : moved) write_parameter(json, *moment, layout.mesh);
  json.line().end_array();
}

void write_cache(JsonWriter& json, const Layout& layout) {
  json.key("kv_cache").begin_array();
  for (const LaidTensor& tensor : layout.states) write_parameter(json, tensor, layout.mesh);
  json.line().end_array();
}

}  // namespace

std::string to_json(const Layout& layout, const std::vector<std::pair<std::string, std::string>>& extra) {
  JsonWriter json;
  json.begin_object();
  for (const auto& [key, text] : extra) json.line().key(key).raw(text);
  json.line();
  write_mesh(json, layout.mesh);
  json.line().key("input").begin_object().key("shape").values(layout.input.shape).key("logical");
  write_labels(json, layout.input.constraint);
  json.key("spec");
  write_spec(json, without_size_one(layout.input.spec, layout.mesh), layout.mesh);
  json.end_object().line().key("params").begin_array();
  for (const LaidTensor& tensor : layout.parameters) write_parameter(json, tensor, layout.mesh);
  json.line().end_array().line().key("activations").begin_array();
  for (const LaidTensor& tensor : layout.activations) write_activation(json, tensor, layout.mesh);
  json.line().end_array().line();
  layout.states.empty() ? write_optimizer(json, layout) : write_cache(json, layout);
  write_totals(json.line(), layout);
  json.line().end_object();
  return json.text() + "\n";
}

}  // namespace moesh::sharding
