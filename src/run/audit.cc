#include "run/audit.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/text.h"
#include "graph/facts.h"

namespace moesh::run {
namespace {

using graph::Op;
using plan::Instruction;
using plan::InstructionId;
using plan::Plan;
using sharding::Range;
using sharding::Spec;
using ReshardKind = graph::ReshardOf::Kind;

// Summed over all devices: the elements of a device's block in one layout that were not in its block in the other layout.
std::int64_t lacking(const Shape& shape, const Spec& now, const Spec* before, const mesh::Mesh& mesh) {
  std::int64_t count = 0;
  for (std::int64_t device = 0; device < mesh.devices(); ++device) {
    const Coordinates at = mesh.coordinates_of(device);
    const std::vector<Range> block = sharding::block_of(shape, now, mesh, at);
    count += sharding::volume(block);
    if (before != nullptr) count -= sharding::common_volume(block, sharding::block_of(shape, *before, mesh, at));
  }
  return count;
}

std::int64_t reshard_elements(const graph::ReshardOf& how, const plan::View& from, const plan::View& to, const mesh::Mesh& mesh) {
  const std::int64_t members = sharding::shards(how.axes, mesh);
  switch (how.kind) {
    case ReshardKind::reduce_scatter: return lacking(from.shape, from.spec, &to.spec, mesh);  // it sends all but the piece it keeps
    case ReshardKind::all_reduce: return 2 * (lacking(from.shape, from.spec, nullptr, mesh) / members * (members - 1));
    default: return lacking(from.shape, to.spec, &from.spec, mesh);
  }
}

// Bytes of a collective in a region, whose values are those of one device.
std::int64_t region_bytes(const Instruction& of, const Plan& plan) {
  const auto& group = std::get<graph::GroupOf>(of.attributes);
  const std::int64_t devices = plan.mesh.devices(), others = group.members - 1;
  const auto bytes = [&](plan::ViewId id) { return elements(plan.view(id).shape) * size_of(plan.view(id).dtype); };
  switch (of.op) {
    case Op::gather: return devices * others * bytes(of.operands[0]);
    case Op::all_sum: return 2 * devices / group.members * others * bytes(of.operands[0]);
    // At most all rows go to other devices, together with the numbers of their tokens.
    case Op::scatter_rows: return devices * (bytes(of.operands[0]) + bytes(of.operands[1]));
    default: return devices * std::min(bytes(of.operands[0]), bytes(of.results[0])) * (others > 0 ? 1 : 0);
  }
}

// The bytes that all devices together receive from others when a collective runs once; an upper bound if the router decides.
std::int64_t moved_bytes(const Instruction& of, const Plan& plan) {
  const auto* how = std::get_if<graph::ReshardOf>(&of.attributes);
  if (how == nullptr) return region_bytes(of, plan);
  const plan::View& from = plan.view(of.operands[0]);
  return reshard_elements(*how, from, plan.view(of.results[0]), plan.mesh) * size_of(from.dtype);
}

}  // namespace

std::vector<AuditLine> folded(const std::vector<AuditLine>& all) {
  std::vector<AuditLine> lines;
  for (const AuditLine& line : all) {
    const auto alike = std::find_if(lines.begin(), lines.end(), [&](const AuditLine& other) {
      return other.kind == line.kind && other.path == line.path && other.is_bound == line.is_bound && other.holds() && line.holds();
    });
    if (alike == lines.end()) {
      lines.push_back(line);
      continue;
    }
    alike->runs += line.runs;
    alike->planned_runs += line.planned_runs;
    alike->bytes += line.bytes;
    alike->planned_bytes += line.planned_bytes;
  }
  return lines;
}

Audit audit(const Program& program) {
  const Plan& plan = program.plan();
  Audit made;
  const std::vector<std::int64_t> runs = plan::runs_of(plan);
  const std::vector<std::int64_t> bytes = program.all_bytes();
  for (std::size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& of = plan.instructions[i];
    if (of.kind != Instruction::Kind::collective) continue;
    const auto* how = std::get_if<graph::ReshardOf>(&of.attributes);
    AuditLine line;
    line.instruction = static_cast<InstructionId>(i);
    line.kind = how != nullptr ? how->kind : graph::facts_of(of.op).collective.value_or(ReshardKind::all_to_all);
    line.path = of.path;
    line.planned_runs = program.runs() * runs[i];
    line.planned_bytes = line.planned_runs * moved_bytes(of, plan);
    line.runs = program.count(line.instruction).runs;
    line.bytes = bytes[i];
    line.is_bound = graph::facts_of(of.op).is_ragged;
    made.collectives.push_back(std::move(line));
  }
  made.planned_memory = program.planned_bytes();
  made.memory = program.bytes() + program.state_bytes();
  return made;
}

std::string Audit::difference() const {
  for (const AuditLine& line : collectives) {
    if (line.holds()) continue;
    return fmt::format("{} at {}: planned {} times with {} in all{}, it ran {} times with {}", name_of(line.kind), line.path,
                       line.planned_runs, with_commas(line.planned_bytes), line.is_bound ? " at most" : "", line.runs,
                       with_commas(line.bytes));
  }
  if (memory == planned_memory) return "";
  return fmt::format("memory: planned {} bytes, taken {}", with_commas(planned_memory), with_commas(memory));
}

}  // namespace moesh::run
