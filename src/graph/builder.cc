#include "graph/builder.h"

#include <algorithm>
#include <cassert>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "graph/equation.h"
#include "graph/facts.h"
#include "graph/region.h"

namespace moesh::graph {
namespace {

void check_size(const std::string& path, const Shape& shape) {
  double product = 1;
  for (const std::int64_t size : shape) product *= static_cast<double>(size);
  if (product > kMostElements) {
    refuse(fmt::format("a tensor of shape {} has more than 1e15 elements", to_string(shape)), path, "lower the sizes");
  }
}

[[noreturn]] void refuse_shapes(const std::string& path, const std::string& what, const std::vector<Tensor>& operands) {
  std::vector<std::string> shapes;
  for (const Tensor& operand : operands) shapes.push_back(to_string(operand.shape()));
  refuse(fmt::format("{} does not fit operands of shapes {}", what, join(shapes, " and ")), path);
}

// The size of the letter in the first operand that has it; 0 if none has.
std::int64_t size_of_letter(char letter, const Equation& equation, Tensor a, Tensor b) {
  for (const auto& [letters, tensor] : {std::pair{equation.a, a}, std::pair{equation.b, b}}) {
    const std::size_t dim = letters.find(letter);
    if (dim != std::string::npos && dim < tensor.shape().size()) return tensor.shape()[dim];
  }
  return 0;
}

Shape without_dims(const Shape& shape, const std::vector<int>& dims) {
  Shape kept;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (std::find(dims.begin(), dims.end(), static_cast<int>(i)) == dims.end()) kept.push_back(shape[i]);
  }
  return kept;
}

}  // namespace

Shape Tensor::shape() const { return builder->graph_.value(id).shape; }
DType Tensor::dtype() const { return builder->graph_.value(id).dtype; }

Builder::Builder(Builder& outer)
    : outer_(&outer), stage_as_data_(outer.stage_as_data_), phase_(outer.phase_), scopes_(outer.scopes_) {}

Tensor Builder::shard_input(const std::string& name, Shape shape, DType dtype, sharding::AxisList own_axes) {
  const Tensor made = input(name, shape, dtype, Labels(shape.size()));
  graph_.values[static_cast<std::size_t>(made.id)].spec.own = std::move(own_axes);
  return made;
}

std::string Builder::path(const std::string& name) const {
  std::string text = join(scopes_, "/");
  if (!text.empty() && !name.empty()) text += "/";
  return text + name;
}

std::vector<Tensor> Builder::add(Op op, const std::string& name, const std::vector<Tensor>& operands,
                                 Attributes attributes, const std::vector<std::pair<Shape, DType>>& results) {
  const auto node = static_cast<NodeId>(graph_.nodes.size());
  Node added{op, path(name), {}, {}, {}, std::move(attributes), phase_};
  for (const Tensor& operand : operands) {
    assert(operand.builder == this && "an operand of another graph");
    added.operands.push_back(operand.id);
  }
  std::vector<Tensor> tensors;
  for (const auto& [shape, dtype] : results) {
    check_size(added.path, shape);
    const auto id = static_cast<ValueId>(graph_.values.size());
    graph_.values.push_back({shape, dtype, node});
    added.results.push_back(id);
    tensors.push_back({this, id});
  }
  if (in_region_) {
    const sharding::AxisList own = own_axes_of(graph_, added);
    for (const ValueId id : added.results) {
      sharding::Spec spec = sharding::whole_spec(graph_.value(id).shape.size());
      spec.own = own;
      graph_.values[static_cast<std::size_t>(id)].spec = std::move(spec);
    }
  }
  if (const std::string what = problem_of({graph_, added}); !what.empty()) refuse_shapes(added.path, what, operands);
  graph_.nodes.push_back(std::move(added));
  return tensors;
}

Tensor Builder::add_one(Op op, const std::string& name, const std::vector<Tensor>& operands, Attributes attributes,
                        Shape shape, DType dtype) {
  return add(op, name, operands, std::move(attributes), {{std::move(shape), dtype}}).front();
}

Tensor Builder::input(const std::string& name, Shape shape, DType dtype, Labels labels, InputOf::Kind kind) {
  return add_one(Op::input, name, {}, InputOf{std::move(labels), kind}, std::move(shape), dtype);
}

Tensor Builder::root_at(Op op, const std::string& full_path, Shape shape, DType dtype, Attributes attributes) {
  const Tensor tensor = add_one(op, "", {}, std::move(attributes), std::move(shape), dtype);
  name_last(full_path);
  return tensor;
}

Tensor Builder::parameter_at(const std::string& full_path, Shape shape, DType dtype, ParameterOf attributes) {
  assert(attributes.labels.size() == shape.size());
  if (outer_ == nullptr) return root_at(Op::parameter, full_path, std::move(shape), dtype, std::move(attributes));
  const Tensor slice = root_at(Op::input, full_path, std::move(shape), dtype, InputOf{attributes.labels});
  stacked_.push_back({full_path, slice, std::move(attributes)});
  return slice;
}

Tensor Builder::state_at(const std::string& full_path, Shape shape, DType dtype, Labels labels) {
  assert(labels.size() == shape.size());
  const InputOf of{std::move(labels), InputOf::Kind::state};
  const Tensor tensor = root_at(Op::input, full_path, std::move(shape), dtype, of);
  if (outer_ != nullptr) stacked_.push_back({full_path, tensor, of});
  return tensor;
}

Tensor Builder::state(const std::string& name, Shape shape, DType dtype, Labels labels) {
  return state_at(path(name), std::move(shape), dtype, std::move(labels));
}

Tensor Builder::slice_of(Tensor outer, int stacked_dims, int position) {
  assert(outer.builder == outer_ && "only what the enclosing graph has can be sliced");
  Shape shape = outer.shape();
  shape.erase(shape.begin() + position, shape.begin() + position + stacked_dims);
  const Labels none(shape.size());
  const Tensor slice = input("slice", std::move(shape), outer.dtype(), none);
  stacked_.push_back({graph_.producer_of(slice.id).path, slice, outer, position});
  return slice;
}

void Builder::keep(Tensor state, Tensor changed) {
  assert(state.shape() == changed.shape() && state.dtype() == changed.dtype());
  keep_at(graph_.producer_of(state.id).path, changed);
}

void Builder::keep_at(const std::string& full_path, Tensor changed) {
  if (outer_ == nullptr) return mark_result(changed, full_path);
  kept_.push_back({full_path, changed});
}

Tensor Builder::parameter(const std::string& name, Shape shape, DType dtype, ParameterOf attributes) {
  return parameter_at(path(name), std::move(shape), dtype, std::move(attributes));
}

void Builder::set_tag(Tensor tensor, std::string name) {
  graph_.nodes[static_cast<std::size_t>(graph_.value(tensor.id).producer)].tag = std::move(name);
}

Tensor tag(Tensor x, std::string name) {
  x.builder->set_tag(x, std::move(name));
  return x;
}

Tensor fill(Builder& builder, double value, Shape shape, DType dtype) {
  return builder.add_one(Op::fill, "fill", {}, FillOf{value}, std::move(shape), dtype);
}

Tensor pad(Tensor x, int dim, std::int64_t before, std::int64_t after) {
  Shape shape = x.shape();
  shape[static_cast<std::size_t>(dim)] += before + after;
  return x.builder->add_one(Op::pad, "pad", {x}, PadOf{dim, before, after}, std::move(shape), x.dtype());
}

Scope::Scope(Builder& builder, std::string name) : builder_(builder) { builder.scopes_.push_back(std::move(name)); }
Scope::~Scope() { builder_.scopes_.pop_back(); }

Tensor einsum(const std::string& name, const std::string& equation, Tensor a, Tensor b, Rounded rounded) {
  const Equation letters = parse_equation(equation);
  Shape shape;
  for (const char letter : letters.result) shape.push_back(size_of_letter(letter, letters, a, b));
  return a.builder->add_one(Op::einsum, name, {a, b}, EinsumOf{equation, rounded}, std::move(shape), a.dtype());
}

Tensor unary(Unary function, Tensor x, double a, double b) {
  if (function == Unary::identity) return x;
  return x.builder->add_one(Op::unary, std::string(name_of(function)), {x}, UnaryOf{function, a, b}, x.shape(),
                            x.dtype());
}

Tensor binary(Binary function, Tensor a, Tensor b) {
  return a.builder->add_one(Op::binary, std::string(name_of(function)), {a, b}, BinaryOf{function}, a.shape(), a.dtype());
}

Tensor add(Tensor a, Tensor b) { return binary(Binary::add, a, b); }
Tensor multiply(Tensor a, Tensor b) { return binary(Binary::multiply, a, b); }
Tensor scale(Tensor x, double factor) { return factor == 1 ? x : unary(Unary::scale, x, factor); }

Tensor cast(Tensor x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return x.builder->add_one(Op::cast, "cast", {x}, {}, x.shape(), dtype);
}

Tensor broadcast(Tensor x, Shape shape, std::vector<int> dims) {
  return x.builder->add_one(Op::broadcast, "broadcast", {x}, BroadcastOf{std::move(dims)}, std::move(shape), x.dtype());
}

Tensor multiply_all(Tensor x, Tensor one) { return multiply(x, broadcast(reshape(one, {}), x.shape(), {})); }

Tensor add_bias(Tensor x, Tensor bias) {
  std::vector<int> dims;
  for (int dim = x.rank() - bias.rank(); dim < x.rank(); ++dim) dims.push_back(dim);
  return add(x, broadcast(bias, x.shape(), std::move(dims)));
}

Tensor reduce(Reduction function, Tensor x, std::vector<int> dims) {
  Shape shape = without_dims(x.shape(), dims);
  return x.builder->add_one(Op::reduce, std::string(name_of(function)), {x}, ReduceOf{function, std::move(dims)},
                            std::move(shape), x.dtype());
}

Tensor softmax(Tensor x) { return x.builder->add_one(Op::softmax, "softmax", {x}, {}, x.shape(), x.dtype()); }

Tensor detach(Tensor x) { return x.builder->add_one(Op::detach, "detach", {x}, {}, x.shape(), x.dtype()); }

Tensor reshape(Tensor x, Shape shape) {
  return x.builder->add_one(Op::reshape, "reshape", {x}, {}, std::move(shape), x.dtype());
}

Tensor transpose(Tensor x, std::vector<int> order) {
  Shape shape;
  for (const int dim : order) shape.push_back(x.size(dim));
  return x.builder->add_one(Op::transpose, "transpose", {x}, TransposeOf{std::move(order)}, std::move(shape), x.dtype());
}

std::vector<int> inverse(const std::vector<int>& order) {
  std::vector<int> back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) back[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  return back;
}

Tensor slice(Tensor x, int dim, std::int64_t begin, std::int64_t size) {
  Shape shape = x.shape();
  shape[static_cast<std::size_t>(dim)] = size;
  return x.builder->add_one(Op::slice, "slice", {x}, SliceOf{dim, begin, size}, std::move(shape), x.dtype());
}

Tensor concat(const std::vector<Tensor>& parts, int dim) {
  Shape shape = parts.front().shape();
  const auto at = static_cast<std::size_t>(dim);
  shape[at] = 0;
  for (const Tensor& part : parts) shape[at] += part.shape()[at];
  return parts.front().builder->add_one(Op::concat, "concat", parts, ConcatOf{dim}, std::move(shape),
                                        parts.front().dtype());
}

Tensor cache_write(Tensor cache, Tensor rows, Tensor slots, CacheWriteOf of) { return cache_write(cache, {rows, slots}, of); }

Tensor cache_write(Tensor cache, const std::vector<Tensor>& rows_and_slots, CacheWriteOf of) {
  std::vector<Tensor> operands{cache};
  operands.insert(operands.end(), rows_and_slots.begin(), rows_and_slots.end());
  return cache.builder->add_one(Op::cache_write, "cache_write", operands, of, cache.shape(), cache.dtype());
}

Tensor constrain(const std::string& name, Tensor x, ConstraintOf constraint) {
  assert(constraint.labels.size() == x.shape().size());
  constraint.stage_as_data = x.builder->stages_carry_batch();
  return x.builder->add_one(Op::constraint, name, {x}, std::move(constraint), x.shape(), x.dtype());
}

Tensor constrain(const std::string& name, Tensor x, Labels labels) {
  return constrain(name, x, ConstraintOf{std::move(labels)});
}

namespace {

std::vector<Tensor> add_body_inputs(Builder& body, const std::string& prefix, const std::vector<Tensor>& outer) {
  std::vector<Tensor> inputs;
  for (const Tensor& tensor : outer) {
    inputs.push_back(body.input(fmt::format("{}{}", prefix, inputs.size()), tensor.shape(), tensor.dtype(),
                                Labels(tensor.shape().size())));
  }
  return inputs;
}

template <typename T>
std::vector<T> with_inserted(std::vector<T> values, int position, const std::vector<T>& added) {
  const auto at = std::min<std::size_t>(static_cast<std::size_t>(position), values.size());
  values.insert(values.begin() + static_cast<std::ptrdiff_t>(at), added.begin(), added.end());
  return values;
}

}  // namespace

// The stacked value that iterations have slices of: parameters are stacked at the stack's position, all else at the front.
Tensor Builder::stack(const Pending& pending, const Stack& stack, int position) {
  if (const auto* outer = std::get_if<Tensor>(&pending.whole)) return *outer;
  const auto stacked = [&](const auto& values, const auto& added) { return with_inserted(values, position, added); };
  Shape shape = stacked(pending.slice.shape(), stack.sizes);
  if (const auto* parameter = std::get_if<ParameterOf>(&pending.whole)) {
    ParameterOf of = *parameter;
    const bool takes_labels = of.labelled != ParameterOf::Labelled::never;
    of.labels = stacked(of.labels, takes_labels ? stack.labels : Labels(stack.labels.size()));
    if (takes_labels && !stack.labels.empty()) of.labelled = ParameterOf::Labelled::each_dim;
    return parameter_at(pending.path, std::move(shape), pending.slice.dtype(), std::move(of));
  }
  const Labels& labels = std::get<InputOf>(pending.whole).labels;
  return state_at(pending.path, std::move(shape), pending.slice.dtype(), stacked(labels, stack.labels));
}

std::vector<Tensor> repeat(Builder& builder, const Stack& stack, const std::vector<Tensor>& carried,
                           const std::vector<Tensor>& shared, const Body& body) {
  const Scope scope(builder, stack.name);
  Builder inner(builder);
  const std::vector<Tensor> carried_in = add_body_inputs(inner, "carried", carried);
  const std::vector<Tensor> shared_in = add_body_inputs(inner, "shared", shared);
  std::vector<Tensor> made = body.build(inner, carried_in, shared_in);
  const std::size_t own_results = made.size();
  for (const Builder::Kept& kept : inner.kept_) made.push_back(kept.changed);
  std::vector<std::pair<Shape, DType>> results;
  std::vector<int> stacks;
  for (std::size_t i = 0; i < made.size(); ++i) {
    inner.mark_result(made[i]);
    const bool is_carried = i < carried.size();
    // States are stacked at the front.
    const int position = i < own_results ? body.position : 0;
    if (!is_carried) stacks.push_back(position);
    if (is_carried && made[i].shape() != carried[i].shape()) {
      refuse_shapes(builder.path(""), "a layer that keeps its shape", {made[i], carried[i]});
    }
    results.emplace_back(is_carried ? made[i].shape() : with_inserted(made[i].shape(), position, stack.sizes), made[i].dtype());
  }
  RepeatOf of{nullptr, stack.sizes, stack.labels, static_cast<int>(carried.size()), static_cast<int>(shared.size()), {},
              std::move(stacks), false, {}};
  std::vector<Tensor> operands = carried;
  operands.insert(operands.end(), shared.begin(), shared.end());
  for (const Builder::Pending& pending : inner.stacked_) {
    const auto* parameter = std::get_if<ParameterOf>(&pending.whole);
    const int of_parameter = parameter != nullptr && !parameter->stacks_in_front ? std::min(stack.position, pending.slice.rank()) : 0;
    of.slices.push_back(parameter != nullptr ? of_parameter : pending.position);
    operands.push_back(builder.stack(pending, stack, of.slices.back()));
  }
  of.body = std::make_shared<const Graph>(inner.take());
  std::vector<Tensor> outer = builder.add(Op::repeat, "", operands, std::move(of), results);
  for (std::size_t i = 0; i < inner.kept_.size(); ++i) builder.keep_at(inner.kept_[i].path, outer[own_results + i]);
  outer.resize(own_results);
  return outer;
}

}  // namespace moesh::graph
