#include "decode/decoder.h"

#include <cassert>
#include <cstring>

#include <fmt/core.h>

#include "base/error.h"
#include "decode/source.h"
#include "models/draws.h"

namespace moesh::decode {
namespace {

// The index of each token among all positions of all rows.
std::vector<std::int32_t> token_numbers(const Ready& program, const NewTokens& tokens, std::int64_t rows) {
  std::vector<std::int32_t> numbers = tokens.positions;
  const std::size_t new_tokens = numbers.size() / static_cast<std::size_t>(rows);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] += static_cast<std::int32_t>(static_cast<std::int64_t>(i / new_tokens) * program.row_length);
  }
  return numbers;
}

std::vector<std::int32_t> numbers_of(const Ready& program, const NewTokens& tokens, const std::string& name, const Shape& shape) {
  if (name == models::inputs::tokens) return tokens.ids;
  if (name == models::inputs::positions) return tokens.positions;
  if (name == models::inputs::numbers) return token_numbers(program, tokens, shape[0]);
  if (name == models::inputs::draw_keys) return models::draw_keys(program.draw_seed, 0, shape[0]);
  assert(name == models::inputs::segments && "an input that decoding does not know");
  return tokens.segments;
}

}  // namespace

Ready Decoder::prepare(const Program& program, const Ready* beside) {
  const run::Program* scratch_of = beside == nullptr ? nullptr : &beside->run;
  Ready ready{run::Program(plan_of(program), state_, workers_, {.backend = backend_, .scratch_of = scratch_of}), program.vocabulary,
              program.row_length, program.draw_seed};
  mesh_ = program.mesh;
  for (const graph::Node& node : program.graph.nodes) {
    if (graph::is_input(node, graph::InputOf::Kind::state)) caches_.insert(node.path);
    if (node.op == graph::Op::parameter && parameters_.insert(node.path).second) without_value_.insert(node.path);
  }
  return ready;
}

void Decoder::set_parameter(const std::string& path, const run::Array& whole) {
  if (!parameters_.contains(path)) refuse("the model has no such parameter", path, "use weights of this model");
  const run::Placed place = state_->value(path);
  const DType dtype = place.shards.front().view.dtype;
  const Shape shape = place.seen_shape();
  if (whole.view.shape != shape || whole.view.dtype != dtype) {
    refuse(fmt::format("given as {}{}, the model has {}{}", name_of(whole.view.dtype), to_string(whole.view.shape),
                       name_of(dtype), to_string(shape)),
           path, "use weights of this model, in its weight_dtype");
  }
  state_->put(path, whole);
  without_value_.erase(path);
}

std::vector<store::Part> Decoder::parameter_parts(const std::string& path) {
  if (!parameters_.contains(path)) refuse("the model has no such parameter", path, "use weights of this model");
  without_value_.erase(path);
  return state_->parts(path);
}

void Decoder::forget() {
  for (const std::string& path : caches_) state_->clear(path);
  is_lost_ = false;
}

void Decoder::check(const Ready& program, const NewTokens& tokens) const {
  check_ids(tokens.ids, program.vocabulary, models::inputs::tokens);
  if (!without_value_.empty()) refuse("the parameter has no value", *without_value_.begin(), "set all parameters before decoding");
  if (is_lost_) refuse("what it held was lost in a run that failed", "the KV cache", "start the rows anew");
}

run::Array Decoder::run(Ready& program, const NewTokens& tokens) {
  keep(program, tokens);
  return run::gathered(program.run.output(models::results::logits), mesh_, pool(), workers_);
}

void Decoder::keep(Ready& program, const NewTokens& tokens, const run::Observers& observers) {
  check(program, tokens);
  for (const plan::Port& port : program.run.plan().ports) {
    if (port.kind != plan::Port::Kind::input) continue;
    const run::Placed place = program.run.value(port.view);
    const std::vector<std::int32_t> numbers = numbers_of(program, tokens, port.name, place.shape);
    if (static_cast<std::int64_t>(numbers.size()) != elements(place.shape)) {
      refuse(fmt::format("{} numbers, the program takes {}", numbers.size(), to_string(place.shape)), port.name,
             "give one for each new token of each row");
    }
    const run::Array whole = pool().allocate(place.shape, DType::int32);
    std::memcpy(whole.view.data, numbers.data(), numbers.size() * sizeof numbers[0]);
    program.run.put(port.view, whole);
  }
  is_lost_ = true;
  program.run.run(observers);
  is_lost_ = false;
}

}  // namespace moesh::decode
