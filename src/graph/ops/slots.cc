// Experts of a fixed capacity: each choice of a token takes a slot, or is dropped.
// Shape suffixes: B rows, S length, K experts a token, E experts, C slots an expert has, M embedding.
#include "graph/ops/ops.h"
#include "graph/ops/table.h"

namespace moesh::graph::ops {
namespace {

std::string slot_mask_shapes(const NodeView& v) {
  const auto& of = v.of<SlotMaskOf>();
  const Shape& ids = v.operand(0).shape;
  const bool fits = ids.size() == 3 && (v.operands() == 1 || v.operand(1).shape == ids) &&
                    v.result(0).shape == Shape{ids[0], ids[1], of.experts, of.capacity};
  return fits ? "" : "ids [B, S, K]";
}

std::string slots_shapes(const NodeView& v) {
  const bool fits = v.operand(0).shape.size() == 3 && is_like(v.operand(0), v.result(0));
  return fits ? "" : "ids [B, S, K]";
}

// A slot depends on all earlier choices of its row.
void slots_factors(const NodeView& v, FactorTable& table) {
  const int b = table.factor(v.operand(0).shape[0]);
  table.takes({b, kWhole, kWhole}).gives({b, kWhole, kWhole});
}

std::vector<Tensor> slots_gradient(const Vjp&) { return {{}}; }

// Whether the slots' contents [E, B, C, M], the tokens' values [B, S, M] and the choices' slots [B, S, K] fit each other.
bool fit_together(const NodeView& v, const Value& filled, const Value& tokens, const Value& slots) {
  const auto& of = v.of<SlotMaskOf>();
  if (tokens.shape.size() != 3 || slots.shape.size() != 3) return false;
  return filled.shape == Shape{of.experts, tokens.shape[0], of.capacity, tokens.shape[2]} &&
         first_sizes(slots.shape, 2) == first_sizes(tokens.shape, 2);
}

bool weights_fit(const NodeView& v) { return v.operands() == 2 || v.operand(2).shape == v.operand(1).shape; }

std::string fill_slots_shapes(const NodeView& v) {
  const bool fits = weights_fit(v) && fit_together(v, v.result(0), v.operand(0), v.operand(1));
  return fits ? "" : "tokens [B, S, M] and slots [B, S, K]";
}

std::string empty_slots_shapes(const NodeView& v) {
  const bool fits = weights_fit(v) && fit_together(v, v.operand(0), v.result(0), v.operand(1));
  return fits ? "" : "slots' contents [E, B, C, M] and slots [B, S, K]";
}

std::string slot_products_shapes(const NodeView& v) {
  const bool fits =
      fit_together(v, v.operand(0), v.operand(2), v.operand(1)) && v.result(0).shape == v.operand(1).shape;
  return fits ? "" : "slots' contents [E, B, C, M], slots [B, S, K] and tokens [B, S, M]";
}

// The factors of a product with a mask [B, S, E, C], of which only the entries of choices exist.
struct Dims {
  std::vector<int> filled, slots, tokens;

  Dims(const Shape& contents, const Shape& choices, FactorTable& table) {
    const int e = table.factor(contents[0]);
    const int b = table.factor(contents[1]);
    const int c = table.factor(contents[2]);
    const int m = table.factor(contents[3]);
    const int s = table.factor(choices[1]);
    filled = {e, b, c, m};
    slots = {b, s, kWhole};
    tokens = {b, s, m};
  }
};

void fill_slots_factors(const NodeView& v, FactorTable& table) {
  const Dims dims(v.result(0).shape, v.operand(1).shape, table);
  table.takes(dims.tokens).takes(dims.slots).linear_in({0});
  if (v.operands() == 3) table.takes(dims.slots).linear_in({2});
  table.gives(dims.filled);
}

void empty_slots_factors(const NodeView& v, FactorTable& table) {
  const Dims dims(v.operand(0).shape, v.operand(1).shape, table);
  table.takes(dims.filled).takes(dims.slots).linear_in({0});
  if (v.operands() == 3) table.takes(dims.slots).linear_in({2});
  table.gives(dims.tokens);
}

void slot_products_factors(const NodeView& v, FactorTable& table) {
  const Dims dims(v.operand(0).shape, v.operand(1).shape, table);
  table.takes(dims.filled).takes(dims.slots).takes(dims.tokens).gives(dims.slots).linear_in({0, 2});
}

// Gradients: fill_slots and empty_slots are each other's transposes.
std::vector<Tensor> transposed(const Vjp& v, Op other, const Tensor& filled, const Tensor& tokens) {
  std::vector<Tensor> inputs = v.operands;
  inputs[0] = v.dy();
  std::vector<Tensor> made{
      v.builder.add_one(other, "", inputs, v.node.attributes, v.operands[0].shape(), v.operands[0].dtype()), {}};
  if (v.operands.size() == 2) return made;
  made.push_back(v.builder.add_one(Op::slot_products, "", {filled, v.operands[1], tokens}, v.node.attributes,
                                   v.operands[2].shape(), v.operands[2].dtype()));
  return made;
}

std::vector<Tensor> fill_slots_gradient(const Vjp& v) { return transposed(v, Op::empty_slots, v.dy(), v.operands[0]); }
std::vector<Tensor> empty_slots_gradient(const Vjp& v) { return transposed(v, Op::fill_slots, v.operands[0], v.dy()); }

}  // namespace

const OpFacts kSlotMask{.name = "slot_mask",
                        .attributes = blank<SlotMaskOf>,
                        .takes = {1, 2},
                        .gives = {1},
                        .shapes = slot_mask_shapes,
                        .factors = kNotSpread,
                        .gradient = kNoGradient};
const OpFacts kSlots{.name = "slots",
                     .attributes = blank<SlotMaskOf>,
                     .takes = {1},
                     .gives = {1},
                     .shapes = slots_shapes,
                     .factors = slots_factors,
                     .gradient = slots_gradient,
                     .kernel = KernelKind::rows};
const OpFacts kFillSlots{.name = "fill_slots",
                         .attributes = blank<SlotMaskOf>,
                         .takes = {2, 3},
                         .gives = {1},
                         .shapes = fill_slots_shapes,
                         .factors = fill_slots_factors,
                         .gradient = fill_slots_gradient,
                         .kernel = KernelKind::rows};
const OpFacts kEmptySlots{.name = "empty_slots",
                          .attributes = blank<SlotMaskOf>,
                          .takes = {2, 3},
                          .gives = {1},
                          .shapes = empty_slots_shapes,
                          .factors = empty_slots_factors,
                          .gradient = empty_slots_gradient,
                          .kernel = KernelKind::rows};
const OpFacts kSlotProducts{.name = "slot_products",
                            .attributes = blank<SlotMaskOf>,
                            .takes = {3},
                            .gives = {1},
                            .shapes = slot_products_shapes,
                            .factors = slot_products_factors,
                            .gradient = kNoGradient,
                            .kernel = KernelKind::rows};

}  // namespace moesh::graph::ops
