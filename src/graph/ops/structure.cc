// Values from outside, requested layouts, and bodies.
#include "graph/ops/ops.h"
#include "graph/ops/table.h"
#include "graph/rewrite.h"

namespace moesh::graph::ops {
namespace {

std::string any_shape(const NodeView&) { return ""; }

std::string the_value_itself(const NodeView& v) { return all_like(v, v.operand(0)) ? "" : "the value itself"; }

std::string constraint_shapes(const NodeView& v) {
  const bool fits = the_value_itself(v).empty() && v.of<ConstraintOf>().labels.size() == v.operand(0).shape.size();
  return fits ? "" : "a layout with a label for each dim";
}

std::vector<Tensor> constraint_gradient(const Vjp& v) { return {constrain("", v.dy(), v.of<ConstraintOf>())}; }

std::string stage_state_shapes(const NodeView& v) {
  return v.operand(0).dtype == v.result(0).dtype ? "" : "rows for the stages";
}

Shape without_stack(Shape shape, const RepeatOf& of, int position) {
  const auto at = shape.begin() + position;
  shape.erase(at, at + static_cast<std::ptrdiff_t>(of.sizes.size()));
  return shape;
}

// Whether `slice` has the shape and type of one iteration's slice of `stacked`.
bool is_slice(const Value& slice, const Value& stacked, const RepeatOf& of, int position) {
  const auto at = static_cast<std::size_t>(position);
  if (position < 0 || stacked.shape.size() < at + of.sizes.size()) return false;
  const std::vector<std::int64_t> sizes(
      stacked.shape.begin() + position,
      stacked.shape.begin() + position + static_cast<std::ptrdiff_t>(of.sizes.size()));
  return sizes == of.sizes && stacked.dtype == slice.dtype && without_stack(stacked.shape, of, position) == slice.shape;
}

std::string repeat_shapes(const NodeView& v) {
  const auto& of = v.of<RepeatOf>();
  const std::string wanted = "a repeat whose body has slices of its operands and results";
  if (of.body == nullptr || of.carried < 0 || of.shared < 0) return wanted;
  const std::vector<ValueId> inputs = inputs_of(*of.body);
  const auto carried = static_cast<std::size_t>(of.carried);
  const std::size_t whole = carried + static_cast<std::size_t>(of.shared);
  if (inputs.size() != v.operands() || of.slices.size() + whole != v.operands()) return wanted;
  if (of.body->results.size() != v.results() || of.stacks.size() + carried != v.results()) return wanted;
  for (std::size_t i = 0; i < v.operands(); ++i) {
    const Value& inside = of.body->value(inputs[i]);
    if (!(i < whole ? is_like(inside, v.operand(i)) : is_slice(inside, v.operand(i), of, of.slices[i - whole])))
      return wanted;
  }
  for (std::size_t i = 0; i < v.results(); ++i) {
    const Value& inside = of.body->value(of.body->results[i]);
    if (!(i < carried ? is_like(inside, v.result(i)) : is_slice(inside, v.result(i), of, of.stacks[i - carried])))
      return wanted;
  }
  return "";
}

bool all_rank(const std::vector<sharding::Spec>& specs, const NodeView& v, const std::vector<ValueId>& ids) {
  if (specs.size() != ids.size()) return false;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (specs[i].dims.size() != v.graph.value(ids[i]).shape.size()) return false;
  }
  return true;
}

std::string region_shapes(const NodeView& v) {
  const auto& of = v.of<RegionOf>();
  const bool fits = of.body != nullptr && all_rank(of.operands, v, v.node.operands) && all_rank(of.results, v, v.node.results) &&
                    inputs_of(*of.body).size() == v.operands() && of.body->results.size() == v.results();
  return fits ? "" : "a region with a layout for each operand and result";
}

}  // namespace

const OpFacts kInput{.name = "input",
                     .attributes = blank<InputOf>,
                     .takes = {0},
                     .gives = {1},
                     .shapes = any_shape,
                     .factors = kNotSpread,
                     .gradient = kNoGradient,
                     .becomes = Becomes::other};
const OpFacts kParameter{.name = "parameter",
                         .attributes = blank<ParameterOf>,
                         .takes = {0},
                         .gives = {1},
                         .shapes = any_shape,
                         .factors = kNotSpread,
                         .gradient = kNoGradient,
                         .becomes = Becomes::other};
const OpFacts kConstraint{.name = "constraint",
                          .attributes = blank<ConstraintOf>,
                          .takes = {1},
                          .gives = {1},
                          .shapes = constraint_shapes,
                          .factors = kNotSpread,
                          .gradient = constraint_gradient,
                          .becomes = Becomes::alias,
                          .keeps_parameter = true,
                          .is_cheap = true};
const OpFacts kStageState{.name = "stage_state",
                          .attributes = blank<StageStateOf>,
                          .takes = {1},
                          .gives = {1},
                          .shapes = stage_state_shapes,
                          .factors = kNotSpread,
                          .gradient = kNoGradient,
                          .becomes = Becomes::other};
const OpFacts kRepeat{.name = "repeat",
                      .attributes = blank<RepeatOf>,
                      .takes = {0, kMany},
                      .gives = {0, kMany},
                      .shapes = repeat_shapes,
                      .factors = kNotSpread,
                      .gradient = kNoGradient,
                      .becomes = Becomes::other};
const OpFacts kRegion{.name = "region",
                      .attributes = blank<RegionOf>,
                      .takes = {0, kMany},
                      .gives = {0, kMany},
                      .shapes = region_shapes,
                      .factors = kNotSpread,
                      .gradient = kNoGradient,
                      .becomes = Becomes::other};
const OpFacts kReshard{.name = "reshard",
                       .attributes = blank<ReshardOf>,
                       .takes = {1},
                       .gives = {1},
                       .shapes = the_value_itself,
                       .factors = kNotSpread,
                       .gradient = kNoGradient,
                       .in_any_order = true,
                       .looked_up = 0};

}  // namespace moesh::graph::ops
