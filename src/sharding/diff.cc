#include "sharding/diff.h"

#include <algorithm>
#include <map>

#include <fmt/core.h>

#include "base/json.h"
#include "base/table.h"
#include "base/text.h"
#include "sharding/report.h"

namespace moesh::sharding {
namespace {

Side side_of(const LaidTensor& tensor, const mesh::Mesh& mesh) {
  return {moesh::to_string(tensor.shape), to_string(without_size_one(tensor.spec, mesh), mesh),
          bytes_per_device(tensor, mesh)};
}

// What stands over the tensors of a kind.
std::string heading(const std::string& kind) { return kind == "optimizer" ? "optimizer state" : kind + "s"; }

// Moved, resized or present on one side only; in the order of the paths.
void compare(const std::string& kind, const std::vector<LaidTensor>& before, const mesh::Mesh& mesh_before,
             const std::vector<LaidTensor>& after, const mesh::Mesh& mesh_after, LayoutDiff& into) {
  std::map<std::string, Difference> by_path;
  for (const LaidTensor& tensor : before) {
    Difference& d = by_path[tensor.path];
    d = {kind, tensor.path, side_of(tensor, mesh_before), {}};
  }
  for (const LaidTensor& tensor : after) {
    Difference& d = by_path[tensor.path];
    d.kind = kind;
    d.path = tensor.path;
    d.after = side_of(tensor, mesh_after);
  }
  for (auto& [path, d] : by_path) {
    const bool same = d.before && d.after && d.before->shape == d.after->shape && d.before->spec == d.after->spec &&
                      d.before->bytes == d.after->bytes;
    if (!same) into.differences.push_back(std::move(d));
  }
}

std::int64_t state_bytes(const Layout& layout) {
  std::int64_t bytes = 0;
  for (const LaidTensor& tensor : layout.parameters) bytes += bytes_per_device(tensor, layout.mesh);
  for (const LaidTensor& tensor : layout.moments) bytes += bytes_per_device(tensor, layout.mesh);
  return bytes;
}

std::string signed_bytes(std::int64_t bytes) {
  return (bytes > 0 ? "+" : bytes < 0 ? "-" : "") + human_bytes(static_cast<double>(bytes < 0 ? -bytes : bytes));
}

std::string lies(const std::optional<Side>& side) { return side ? side->spec : "(absent)"; }

std::int64_t bytes_of(const std::optional<Side>& side) { return side ? side->bytes : 0; }

// The differences of one kind, under its name.
void add_kind(Table& table, const std::vector<Difference>& differences, int width) {
  table.add_group({heading(differences.front().kind), "", "", ""});
  std::vector<std::string> paths;
  for (const Difference& d : differences) paths.push_back(d.path);
  for (const TreeLine& line : path_lines(paths, width)) {
    if (!line.path) {
      table.add({line.text, "", "", ""});
      continue;
    }
    const Difference& d = differences[*line.path];
    table.add({line.text, lies(d.before), lies(d.after), signed_bytes(bytes_of(d.after) - bytes_of(d.before))});
  }
}

void write_side(JsonWriter& json, const char* key, const std::optional<Side>& side) {
  json.key(key);
  if (!side) {
    json.null();
    return;
  }
  json.begin_object().key("shape").value(side->shape).key("spec").value(side->spec);
  json.key("bytes_per_device").value(side->bytes).end_object();
}

}  // namespace

LayoutDiff diff(const Layout& before, const Layout& after) {
  LayoutDiff result;
  compare("parameter", before.parameters, before.mesh, after.parameters, after.mesh, result);
  compare("optimizer", before.moments, before.mesh, after.moments, after.mesh, result);
  compare("activation", before.activations, before.mesh, after.activations, after.mesh, result);
  result.state_bytes_before = state_bytes(before);
  result.state_bytes_after = state_bytes(after);
  return result;
}

std::string to_text(const LayoutDiff& diff, int width) {
  if (diff.differences.empty()) return "nothing moves.\n";
  Table table({{"tensor"}, {"before"}, {"after"}, {"a device", true}});
  for (auto first = diff.differences.begin(); first != diff.differences.end();) {
    const auto last = std::find_if(first, diff.differences.end(), [&](const Difference& d) { return d.kind != first->kind; });
    add_kind(table, {first, last}, width);
    first = last;
  }
  return table.text(width) +
         wrapped(fmt::format("\n{}. Parameters and optimizer state on a device: {} -> {} ({}).\n",
                     diff.differences.size() == 1 ? "1 tensor moves"
                                                  : fmt::format("{} tensors move", diff.differences.size()),
                     human_bytes(static_cast<double>(diff.state_bytes_before)),
                     human_bytes(static_cast<double>(diff.state_bytes_after)),
                     signed_bytes(diff.state_bytes_after - diff.state_bytes_before)), width, 2);
}

std::string to_json(const LayoutDiff& diff) {
  JsonWriter json;
  json.begin_object().key("state_bytes_per_device").begin_object();
  json.key("before").value(diff.state_bytes_before).key("after").value(diff.state_bytes_after).end_object();
  json.line().key("differences").begin_array();
  for (const Difference& d : diff.differences) {
    json.line().begin_object().key("kind").value(d.kind).key("path").value(d.path);
    write_side(json, "before", d.before);
    write_side(json, "after", d.after);
    json.end_object();
  }
  json.line().end_array().line().end_object();
  return json.text() + "\n";
}

}  // namespace moesh::sharding
