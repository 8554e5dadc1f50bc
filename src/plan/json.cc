#include "plan/json.h"

#include "base/json.h"
#include "graph/print.h"
#include "mesh/json.h"
#include "plan/arena.h"
#include "plan/fields.h"

namespace moesh::plan {
namespace {

class Json {
 public:
  explicit Json(const Plan& plan) : plan_(plan) {}

  std::string text() {
    const Arena arena = device_arena(plan_);
    json_.begin_object();
    mesh::write_sizes(plan_.mesh, json_.line().key("mesh"));
    json_.line().key("state_bytes").value(state_bytes(plan_));
    json_.line().key("peak_bytes").value(arena.bytes);
    list("ports", plan_.ports.size(), [&](std::size_t i) { add_port(plan_.ports[i]); });
    list("instructions", plan_.instructions.size(), [&](std::size_t i) { add_instruction(plan_.instructions[i]); });
    const std::vector<Lifetime> lives = lifetimes_of(plan_);
    list("buffers", plan_.buffers.size(), [&](std::size_t b) { add_buffer(plan_.buffers[b], arena.offsets[b], lives[b]); });
    return json_.line().end_object().text();
  }

 private:
  template <typename Entry>
  void list(const char* name, std::size_t count, const Entry& entry) {
    json_.line().key(name).begin_array();
    for (std::size_t i = 0; i < count; ++i) {
      json_.line();
      entry(i);
    }
    json_.line().end_array();
  }

  void add_axes(const char* name, const sharding::AxisList& axes) {
    json_.key(name).begin_array();
    for (const sharding::AxisIndex axis : axes) json_.value(plan_.mesh.axis(axis).name);
    json_.end_array();
  }

  void add_view(ViewId id) {
    const View& view = plan_.view(id);
    json_.begin_object().key("buffer").value(view.buffer).key("dtype").value(name_of(view.dtype));
    json_.key("shape").values(view.shape).key("spec").value(graph::to_text(view.spec, &plan_.mesh));
    if (!view.advances.empty()) {
      json_.key("advances").begin_array();
      for (const Advance& advance : view.advances)
        json_.begin_object().key("loop").value(advance.loop).key("by").value(advance.by).end_object();
      json_.end_array();
    }
    if (!view.is_dense()) json_.key("split").value(view.split).key("stacked").value(view.stacked);
    if (view.rows >= 0) json_.key("rows_counted_in").value(plan_.view(view.rows).buffer);
    json_.end_object();
  }

  void add_views(const char* name, const std::vector<ViewId>& views) {
    json_.key(name).begin_array();
    for (const ViewId view : views) add_view(view);
    json_.end_array();
  }

  void add_port(const Port& port) {
    json_.begin_object().key("kind").value(name_of(port.kind)).key("name").value(port.name).key("value");
    add_view(port.view);
    if (port.first != 0) json_.key("first_dim").value(port.first);
    json_.end_object();
  }

  void add_instruction(const Instruction& of) {
    json_.begin_object().key("kind").value(name_of(of.kind)).key("op").value(graph::name_of(of.op)).key("path").value(of.path);
    if (!of.path.empty()) json_.key("phase").value(graph::name_of(of.phase));
    if (of.kind == Instruction::Kind::loop)
      json_.key("count").value(of.count).key("reverse").value(of.reverse).key("end").value(of.other);
    if (of.kind == Instruction::Kind::end) json_.key("loop").value(of.other);
    if (const std::string attributes = graph::to_text(of.attributes, &plan_.mesh); !attributes.empty())
      json_.key("attributes").value(attributes);
    if (!of.operands.empty()) add_views("operands", of.operands);
    if (!of.results.empty()) add_views("results", of.results);
    json_.end_object();
  }

  void add_buffer(const Buffer& buffer, std::int64_t offset, const Lifetime& life) {
    json_.begin_object()
        .key("name")
        .value(buffer.name)
        .key("lasts")
        .value(name_of(buffer.lasts))
        .key("bytes")
        .value(buffer.bytes);
    add_axes("distinct", buffer.distinct);
    if (buffer.lasts != Lasts::from_run_to_run)
      json_.key("offset").value(offset).key("first").value(life.first).key("last").value(life.last);
    json_.end_object();
  }

  const Plan& plan_;
  JsonWriter json_;
};

}  // namespace

std::string to_json(const Plan& plan) { return Json(plan).text(); }

}  // namespace moesh::plan
