#include "decode/decoder.h"

#include <cassert>
#include <cstring>

#include <fmt/core.h>

#include "base/error.h"
#include "models/draws.h"

namespace moesh::decode {
namespace {

// Each token's number among all positions of all rows.
std::vector<std::int32_t> token_numbers(const Program& program, const NewTokens& tokens, std::int64_t rows) {
  std::vector<std::int32_t> numbers = tokens.positions;
  const std::size_t new_tokens = numbers.size() / static_cast<std::size_t>(rows);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] += static_cast<std::int32_t>(static_cast<std::int64_t>(i / new_tokens) * program.row_length);
  }
  return numbers;
}

std::vector<std::int32_t> numbers_of(const Program& program, const NewTokens& tokens, const std::string& name, const Shape& shape) {
  if (name == models::inputs::tokens) return tokens.ids;
  if (name == models::inputs::positions) return tokens.positions;
  if (name == models::inputs::numbers) return token_numbers(program, tokens, shape[0]);
  if (name == models::inputs::draw_keys) return models::draw_keys(program.draw_seed, 0, shape[0]);
  assert(name == models::inputs::segments && "an input that decoding does not know");
  return tokens.segments;
}

}  // namespace

Decoder::Decoder(const Program& program, run::Workers& workers)
    : workers_(workers), executor_(workers, run::Pool::create(), program.mesh) {
  for (const graph::Node& node : program.graph.nodes) {
    if (!graph::is_root(node)) continue;
    const graph::Value& value = program.graph.value(node.results.front());
    const Root root{value.shape, value.dtype, value.spec};
    if (node.op == graph::Op::parameter) parameter_roots_.emplace(node.path, root);
    if (graph::is_input(node, graph::InputOf::Kind::state)) state_roots_.emplace(node.path, root);
  }
  forget();
}

void Decoder::set_parameter(const std::string& path, const run::Array& whole) {
  const auto found = parameter_roots_.find(path);
  if (found == parameter_roots_.end()) refuse("the model has no such parameter", path, "use weights of this model");
  const Root& root = found->second;
  if (whole.view.shape != root.shape || whole.view.dtype != root.dtype) {
    refuse(fmt::format("given as {}{}, the model has {}{}", name_of(whole.view.dtype), to_string(whole.view.shape),
                       name_of(root.dtype), to_string(root.shape)),
           path, "use weights of this model, in its weight_dtype");
  }
  parameters_[path] = run::place(whole, root.spec, executor_.mesh(), pool());
}

void Decoder::forget() {
  for (const auto& [path, root] : state_roots_) {
    run::Placed& state = states_[path];
    state = run::unfilled(root.shape, root.dtype, root.spec, executor_.mesh(), pool());
    for (const run::Array& shard : state.shards) std::memset(shard.view.data, 0, static_cast<std::size_t>(shard.bytes()));
  }
}

run::Placed Decoder::place_tokens(const Program& program, const graph::Value& value, const std::string& name, const NewTokens& tokens) {
  const std::vector<std::int32_t> numbers = numbers_of(program, tokens, name, value.shape);
  if (static_cast<std::int64_t>(numbers.size()) != elements(value.shape)) {
    refuse(fmt::format("{} numbers, the program takes {}", numbers.size(), to_string(value.shape)), name,
           "give one for each new token of each row");
  }
  const run::Array array = pool().allocate(value.shape, DType::int32);
  std::memcpy(array.view.data, numbers.data(), numbers.size() * sizeof numbers[0]);
  return run::place(array, value.spec, executor_.mesh(), pool());
}

// A state leaves its place: the program may write into it.
run::Placed Decoder::take_root(const graph::Value& value, const std::string& path, bool is_parameter) {
  auto& all = is_parameter ? parameters_ : states_;
  const auto found = all.find(path);
  if (found == all.end() || !found->second) {
    refuse(is_parameter ? "the parameter has no value" : "the cache was lost in a run that failed", path,
           is_parameter ? "set all parameters before decoding" : "start the rows anew");
  }
  if (found->second.shape != value.shape || found->second.spec != value.spec) {
    refuse(fmt::format("has the shape {}, this program takes {}", to_string(found->second.shape), to_string(value.shape)), path,
           "make all programs for the same rows and cache slots, on one mesh");
  }
  return is_parameter ? found->second : std::move(found->second);
}

run::Array Decoder::run(const Program& program, const NewTokens& tokens) {
  for (const std::int32_t id : tokens.ids) {
    if (id < 0 || id >= program.vocabulary) {
      refuse(fmt::format("token {} lies outside the vocabulary of {}", id, program.vocabulary), models::inputs::tokens,
             "use the tokenizer of this model");
    }
  }
  const graph::Graph& graph = program.graph;
  std::vector<run::Placed> feeds;
  for (const graph::Node& node : graph.nodes) {
    if (!graph::is_root(node)) continue;
    const graph::Value& value = graph.value(node.results.front());
    const bool is_parameter = node.op == graph::Op::parameter;
    feeds.push_back(is_parameter || graph::is_input(node, graph::InputOf::Kind::state) ? take_root(value, node.path, is_parameter)
                                                          : place_tokens(program, value, node.path, tokens));
  }
  std::vector<run::Placed> made = executor_.run(graph, std::move(feeds));
  run::Array logits;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const std::string& name = graph.result_names[i];
    if (name == models::results::logits) {
      logits = run::gathered(made[i], executor_.mesh(), pool(), workers_);
    } else {
      states_[name] = std::move(made[i]);
    }
  }
  return logits;
}

}  // namespace moesh::decode
