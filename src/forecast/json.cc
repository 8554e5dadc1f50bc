#include "forecast/json.h"

#include <map>

#include "forecast/report.h"
#include "mesh/json.h"

namespace moesh::forecast {
namespace {

void write_total(const SentTotal& total, JsonWriter& json) {
  json.begin_object().key("static").value(total.collectives).key("count").value(total.runs);
  json.key("operand_bytes")
      .value(total.operand_bytes)
      .key("sent_bytes")
      .value(total.wire_bytes)
      .key("seconds")
      .value(total.seconds)
      .key("exposed_seconds")
      .value(total.exposed);
}

// The seconds of each kind of kernel, of collectives and of waits for the host's memory, on the critical path of the step.
void write_critical(const Forecast& f, JsonWriter& json) {
  json.begin_object();
  for (const KernelTime& kernel : f.kernel_times) json.key(kernel.kind).value(kernel.critical);
  json.key("collectives").value(critical_of_collectives(f));
  if (f.host.waits > 0) json.key("waits for the host").value(f.host.waits);
  json.end_object();
}

void write_totals(const Forecast& f, JsonWriter& json) {
  std::map<std::string, SentTotal> by_kind;
  std::map<std::string, std::map<std::string, SentTotal>> by_axes;
  for (const Sent& sent : f.collectives) {
    by_kind[sent.kind].add(sent);
    by_axes[sent.kind][sent.axes].add(sent);
  }
  json.begin_object();
  for (const auto& [kind, total] : by_kind) {
    write_total(total, json.line().key(kind));
    json.key("by_axes").begin_object();
    for (const auto& [axes, part] : by_axes[kind]) {
      write_total(part, json.key(axes));
      json.end_object();
    }
    json.end_object().end_object();
  }
  json.line().end_object();
}

void write_list(const Forecast& f, JsonWriter& json) {
  json.begin_array();
  for (const Sent& sent : f.collectives) {
    json.line().begin_object().key("name").value(sent.name).key("kind").value(sent.kind).key("axes").value(sent.axes);
    json.key("group")
        .value(sent.what.group)
        .key("operand")
        .value(sent.operand)
        .key("operand_bytes")
        .value(sent.what.operand_bytes);
    if (sent.what.bound_bytes) json.key("bound_bytes").value(*sent.what.bound_bytes);
    json.key("sent_bytes").value(sent.what.wire_bytes);
    json.key("count").value(sent.what.runs).key("total_operand_bytes").value(sent.what.runs * sent.what.operand_bytes);
    json.key("total_sent_bytes").value(sent.what.total_wire_bytes());
    json.key("phase")
        .value(name_of(sent.phase))
        .key("seconds")
        .value(sent.seconds)
        .key("exposed_seconds")
        .value(sent.exposed)
        .key("critical_seconds")
        .value(sent.critical);
    json.key("cause").value(sent.cause).key("tensor").value(sent.tensor).end_object();
  }
  json.line().end_array();
}

void write_memory(const Forecast& f, const plan::Plan& plan, JsonWriter& json) {
  const Memory& memory = f.memory;
  json.begin_object().key("argument").value(memory.argument).key("alias").value(memory.alias);
  json.key("output_not_aliased").value(memory.output).key("temp").value(memory.temp).key("peak").value(memory.peak);
  json.key("usable").value(f.usable_memory).line().key("components").begin_object();
  for (int c = 0; c < kComponents; ++c) {
    json.key(name_of(static_cast<Component>(c))).value(memory.components[static_cast<std::size_t>(c)]);
  }
  json.end_object().line().key("peak_at").value(place_words(plan, memory.at)).line().key("held").begin_array();
  for (const Held& held : memory.held) {
    json.line().begin_object().key("name").value(held.name).key("bytes").value(held.bytes);
    json.key("value").value(held.view < 0 ? "" : words_of(plan.view(held.view), plan.mesh));
    json.key("component")
        .value(name_of(held.component))
        .key("from")
        .value(held.first)
        .key("to")
        .value(held.last)
        .end_object();
  }
  json.line().end_array().end_object();
}

// What a step compiled by XLA, or run by the request's program, holds at its peak, and what that is which the plan does not hold.
void write_engine(const Forecast& f, JsonWriter& json) {
  json.key(f.program ? "program" : "xla").begin_object();
  if (f.program) json.key("name").value(*f.program);
  json.key("peak").value(peak_of_xla(f.memory.peak, f.unheld)).key("logits").value(f.unheld.logits);
  json.key("scores").value(f.unheld.scores).key("one_hot").value(f.unheld.one_hot).key("gradients").value(f.unheld.gradients);
  json.end_object();
}

}  // namespace

void write_members(const Forecast& f, const std::optional<Routing>& routing, const plan::Plan& plan, JsonWriter& json) {
  json.key("fits").value(f.fits()).key("fits_narrowly").value(f.fits_narrowly()).key("seconds_per_step").value(f.seconds);
  if (f.is_of_chips) write_engine(f, json);
  json.key("tokens_per_second_per_device").value(f.tokens_per_second_per_device).key("mfu").value(f.mfu);
  json.key("kernel_seconds").value(f.kernels).key("exposed_seconds").value(f.exposed);
  SentTotal all;
  for (const Sent& sent : f.collectives) all.add(sent);
  json.key("sent_bytes_per_device").value(all.wire_bytes);
  write_critical(f, json.line().key("critical_path_seconds"));
  if (!f.decoding) json.key("reduces_gradients_once").value(f.reduces_once);
  mesh::write_sizes(plan.mesh, json.line().key("mesh"));
  if (f.decoding) write_decoding(f, json.line().key("decoding"));
  if (f.host.bytes > 0) {
    json.line().key("host_memory").begin_object().key("bytes").value(f.host.bytes).key("seconds_each_way").value(f.host.seconds);
    json.key("waited_seconds").value(f.host.waits).end_object();
  }
  if (routing) write(*routing, json.line().key("routing"));
  write_memory(f, plan, json.line().key("memory_per_device"));
  write_totals(f, json.line().key("collectives").begin_object().key("totals"));
  write_list(f, json.line().key("list"));
  json.end_object().line().key("kernels").begin_array();
  for (const KernelTime& kernel : f.kernel_times) {
    json.line().begin_object().key("kind").value(kernel.kind).key("count").value(kernel.runs);
    json.key("seconds").value(kernel.seconds).key("flops").value(kernel.flops).end_object();
  }
  json.line().end_array().line();
}

}  // namespace moesh::forecast
