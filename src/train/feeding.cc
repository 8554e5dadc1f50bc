#include "train/feeding.h"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/core.h>

#include "base/bytes.h"
#include "base/error.h"
#include "mesh/context_order.h"
#include "models/draws.h"
#include "models/model.h"
#include "train/step.h"
#include "train/update.h"

namespace moesh::train {
namespace {

using run::Array;
using run::Placed;

Array floats(run::Pool& pool, const std::vector<double>& values, Shape shape) {
  Array made = pool.allocate(std::move(shape), DType::float32);
  for (std::size_t i = 0; i < values.size(); ++i) made.as<float>()[i] = static_cast<float>(values[i]);
  return made;
}

Array integers(run::Pool& pool, const std::vector<std::int32_t>& values, Shape shape) {
  Array made = pool.allocate(std::move(shape), DType::int32);
  std::copy(values.begin(), values.end(), made.as<std::int32_t>());
  return made;
}

// Refuses rows of another shape or type than the program has, which it would read past their end or misread. With several
// microbatches the program's own input is [microbatches, rows, length].
Array checked(Array rows, const Placed& expected, const std::string& name) {
  const Shape& of = expected.shape;
  const DType dtype = expected.any_shard().view.dtype;
  const Shape shape{elements(of) / of.back(), of.back()};
  if (rows.view.shape == shape && rows.view.dtype == dtype) return rows;
  refuse(fmt::format("{} {} in a batch, the step takes {} {}", name_of(rows.view.dtype), to_string(rows.view.shape),
                     name_of(dtype), to_string(shape)),
         name, "the batch and the sizes that are set belong together");
}

// The rows in `count` groups, one group after the other: group i has the rows i, i + count, ...
Array in_groups(const Array& rows, std::int64_t count, run::Pool& pool) {
  if (count == 1 || count == rows.view.size(0)) return rows;
  const std::int64_t each = rows.view.size(0) / count;
  const std::int64_t row_bytes = rows.bytes() / rows.view.size(0);
  Array made = pool.allocate(rows.view.shape, rows.view.dtype);
  for (std::int64_t group = 0; group < count; ++group) {
    for (std::int64_t i = 0; i < each; ++i) {
      copy_bytes(made.raw() + (group * each + i) * row_bytes, rows.raw() + (group + i * count) * row_bytes, row_bytes);
    }
  }
  return made;
}

// Permutes the positions of every row, [B, S, ...]: place i gets position order[i].
Array reordered(const Array& rows, const std::vector<std::int64_t>& order, run::Pool& pool) {
  Array made = pool.allocate(rows.view.shape, rows.view.dtype);
  const auto length = static_cast<std::int64_t>(order.size());
  const std::int64_t bytes = rows.bytes() / rows.view.size(0) / length;
  for (std::int64_t row = 0; row < rows.view.size(0); ++row) {
    for (std::int64_t place = 0; place < length; ++place) {
      copy_bytes(made.raw() + (row * length + place) * bytes,
                 rows.raw() + (row * length + order[static_cast<std::size_t>(place)]) * bytes, bytes);
    }
  }
  return made;
}

std::span<const std::int32_t> ids_of(const Array& rows) {
  return {rows.as<std::int32_t>(), static_cast<std::size_t>(elements(rows.view.shape))};
}

// The values that a module of multi-token prediction takes of the batch.
Array ahead(const Batch& batch, const models::InputAhead& of, run::Pool& pool) {
  const Array& rows = batch.at(of.input);
  const Array& segments = batch.at(models::inputs::segments);
  return integers(pool, models::values_ahead(ids_of(rows), ids_of(segments), rows.view.shape.back(), of.module), rows.view.shape);
}

}  // namespace

Feeding::Feeding(const config::Settings& settings, std::int64_t microbatches, const mesh::Mesh& mesh)
    : settings_(settings), microbatches_(microbatches), order_(mesh::context_order(settings, mesh)) {
  for (std::int64_t module = 1; module <= settings.integer("mtp_num_layers"); ++module) {
    for (const models::InputAhead& of : models::inputs_of_module(module)) ahead_.emplace(of.name(), of);
  }
}

Array Feeding::number(const std::string& name, const Shape& shape, const StepNumbers& numbers, run::Pool& pool) const {
  if (name == update_inputs::learning_rate) return floats(pool, {learning_rate(settings_, numbers.update)}, {});
  if (name == update_inputs::step) return floats(pool, {static_cast<double>(numbers.update + 1)}, {});
  if (name == update_inputs::loss_limit) return floats(pool, {numbers.limits.loss}, {});
  if (name == update_inputs::grad_norm_limit) return floats(pool, {numbers.limits.grad_norm}, {});
  if (name != models::inputs::draw_keys) return {};
  return integers(pool, models::draw_keys(settings_.integer("init_weights_seed"), numbers.step, shape[0]), shape);
}

Array Feeding::rows(const Batch& batch, const std::string& name, const Placed& place, run::Pool& pool) const {
  Array all;
  if (name == models::inputs::numbers) {
    const Shape& shape = batch.at(models::inputs::tokens).view.shape;
    all = integers(pool, models::token_numbers(shape[0], shape[1]), shape);
  } else {
    const auto of = ahead_.find(name);
    all = of == ahead_.end() ? batch.at(name) : ahead(batch, of->second, pool);
  }
  all = in_groups(checked(std::move(all), place, name), microbatches_, pool);
  if (!order_.empty()) all = reordered(all, order_, pool);
  return reshaped(all, place.shape);
}

void Feeding::feed(const run::Program& program, const Batch& batch, const StepNumbers& numbers, run::Pool& pool) const {
  for (const plan::Port& port : program.plan().ports) {
    if (port.kind != plan::Port::Kind::input) continue;
    const Placed place = program.value(port.view);
    Array fed = number(port.name, place.shape, numbers, pool);
    program.put(port.view, fed ? std::move(fed) : rows(batch, port.name, place, pool));
  }
}

Array Feeding::as_given(const Array& made, run::Pool& pool) const {
  const Shape& shape = made.view.shape;
  Shape of_rows(shape.begin() + 1, shape.end());
  of_rows.front() *= shape[0];
  const Array rows = reshaped(made, std::move(of_rows));
  // Rows with the same index in their microbatches are neighbours in the batch.
  const Array in_order = in_groups(rows, shape[1], pool);
  if (order_.empty()) return in_order;
  std::vector<std::int64_t> back(order_.size());
  for (std::size_t place = 0; place < back.size(); ++place) {
    back[static_cast<std::size_t>(order_[place])] = static_cast<std::int64_t>(place);
  }
  return reordered(in_order, back, pool);
}

}  // namespace moesh::train
