#include "models/stack.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include <fmt/core.h>

#include "sharding/labels.h"

namespace moesh::models {
namespace {

// The position of the stacked dim in parameters; in a pipeline, the dim of the stages stands first.
int stack_position(const Context& context) { return static_cast<int>(context.settings.integer("param_scan_axis")); }

Tokens for_layer(Tokens tokens, std::int64_t layer) {
  if (!tokens.draw_keys) return tokens;
  tokens = for_layers(tokens, layer, 1);
  tokens.draw_keys = graph::reshape(tokens.draw_keys, {tokens.draw_keys.size(1)});
  return tokens;
}

// The layers of one cycle, each in a scope of its own if there is a prefix.
StackResult run_cycle(Builder& builder, const Context& context, const LayerGroup& group, Tensor x, const Tokens& tokens,
                      const std::string& prefix, std::int64_t layers) {
  StackResult result{x, {}, {}};
  for (std::int64_t i = 0; i < layers; ++i) {
    std::optional<graph::Scope> scope;
    if (!prefix.empty()) scope.emplace(builder, fmt::format("{}{}", prefix, i));
    const LayerResult made = group.layer(builder, context, result.x, for_layer(tokens, i), i % group.cycle);
    result.x = made.x;
    if (made.balance_loss) result.balance_losses.push_back(made.balance_loss);
    if (made.index_loss) result.index_losses.push_back(made.index_loss);
    if (made.load) result.loads.push_back(graph::reshape(made.load, {1, made.load.size(0)}));
    if (made.highest) result.highest.push_back(graph::reshape(made.highest, {1, made.highest.size(0)}));
  }
  return result;
}

Tensor sum_of(const std::vector<Tensor>& scalars) {
  return std::accumulate(scalars.begin() + 1, scalars.end(), scalars.front(),
                         [](Tensor a, Tensor b) { return graph::add(a, b); });
}

// The members that are the same for all layers.
constexpr std::array kOfAllLayers{&Tokens::positions,    &Tokens::order,          &Tokens::segments,          &Tokens::key_order,
                                  &Tokens::key_segments, &Tokens::near_key_order, &Tokens::near_key_segments, &Tokens::numbers,
                                  &Tokens::ids};

std::vector<Tensor> packed(const Tokens& tokens) {
  std::vector<Tensor> present;
  for (const auto member : kOfAllLayers) {
    if (tokens.*member) present.push_back(tokens.*member);
  }
  return present;
}

// The reverse of packed: the same members are present as in `packed`.
Tokens unpacked(const std::vector<Tensor>& tensors, const Tokens& packed) {
  Tokens tokens;
  std::size_t next = 0;
  for (const auto member : kOfAllLayers) {
    if (packed.*member) tokens.*member = tensors[next++];
  }
  return tokens;
}

// The keys with the stacked dims of the iterations at the front.
Tensor stacked_keys(const graph::Stack& stack, Tensor keys) {
  Shape shape = stack.sizes;
  shape.insert(shape.end(), {keys.size(0) / elements(stack.sizes), keys.size(1)});
  return graph::reshape(keys, std::move(shape));
}

// What the layers' scalars add up to.
constexpr std::array kSummed{&StackResult::balance_losses, &StackResult::index_losses};
// What each layer makes for itself, [layers, width].
constexpr std::array kOfEachLayer{&StackResult::loads, &StackResult::highest};

// Repeats `inside`; sums the iterations' losses and stacks what their layers make for themselves.
template <typename Inside>
StackResult repeat_layers(Builder& builder, const graph::Stack& stack, Tensor x, const Tokens& tokens, Inside inside) {
  std::array<bool, kSummed.size()> sums{};
  std::array<bool, kOfEachLayer.size()> has{};
  const Tensor keys = tokens.draw_keys ? stacked_keys(stack, tokens.draw_keys) : Tensor{};
  const graph::Body body{[&](Builder& b, const std::vector<Tensor>& carried, const std::vector<Tensor>& shared) {
    Tokens inner = unpacked(shared, tokens);
    if (keys) inner.draw_keys = b.slice_of(keys, static_cast<int>(stack.sizes.size()));
    const StackResult made = inside(b, carried[0], inner);
    std::vector<Tensor> out{made.x};
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const std::vector<Tensor>& parts = made.*kSummed[i];
      sums[i] = !parts.empty();
      if (sums[i]) out.push_back(sum_of(parts));
    }
    for (std::size_t i = 0; i < has.size(); ++i) {
      const std::vector<Tensor>& parts = made.*kOfEachLayer[i];
      has[i] = !parts.empty();
      if (has[i]) out.push_back(parts.size() == 1 ? parts[0] : graph::concat(parts, 0));
    }
    return out;
  }};
  const std::vector<Tensor> made = graph::repeat(builder, stack, {x}, packed(tokens), body);
  StackResult result{made[0], {}, {}};
  std::vector<int> all_dims(stack.sizes.size());
  std::iota(all_dims.begin(), all_dims.end(), 0);
  std::size_t next = 1;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (!sums[i]) continue;
    const Tensor each = made[next++];
    result.*kSummed[i] = {all_dims.empty() ? each : graph::reduce(graph::Reduction::sum, each, all_dims)};
  }
  for (std::size_t i = 0; i < has.size(); ++i) {
    if (!has[i]) continue;
    const Tensor all = made[next++];
    const std::int64_t width = all.shape().back();
    result.*kOfEachLayer[i] = {graph::reshape(all, {elements(all.shape()) / width, width})};
  }
  return result;
}

// Layers that are not stacked, but whose values the remat policy decides about together.
template <typename Inside>
StackResult run_block(Builder& builder, const std::string& name, Tensor x, const Tokens& tokens, Inside inside) {
  return repeat_layers(builder, {name, {}, {}, 0}, x, tokens, inside);
}

// The first layers of a cycle as a stack.
StackResult run_first(Builder& builder, const Context& context, const LayerGroup& group, Tensor x, const Tokens& tokens,
                      std::int64_t count) {
  const graph::Stack stack{group.nested->stack, {count}, {labels::local_layers}, stack_position(context)};
  return repeat_layers(builder, stack, x, for_layers(tokens, 0, count),
                       [&](Builder& b, Tensor h, const Tokens& t) { return run_cycle(b, context, group, h, t, "", 1); });
}

// All layers of a cycle but the last as a stack, then the last.
StackResult run_nested(Builder& builder, const Context& context, const LayerGroup& group, Tensor x, const Tokens& tokens) {
  const std::int64_t alike = group.cycle - 1;
  StackResult result = run_first(builder, context, group, x, tokens, alike);
  LayerGroup last = group;
  last.layer = [&](Builder& b, const Context& c, Tensor h, const Tokens& t, std::int64_t) { return group.layer(b, c, h, t, alike); };
  const graph::Scope scope(builder, group.nested->last);
  append(result, run_cycle(builder, context, last, result.x, for_layers(tokens, alike, 1), "", 1));
  return result;
}

StackResult scanned(Builder& builder, const Context& context, const LayerGroup& group, Tensor x, const Tokens& tokens,
                    const std::string& label) {
  const std::string& name = group.nested ? group.nested->cycles : group.name;
  const graph::Stack stack{name, {group.count / group.cycle}, {label}, stack_position(context)};
  return repeat_layers(builder, stack, x, tokens, [&](Builder& b, Tensor h, const Tokens& t) {
    if (group.nested) return run_nested(b, context, group, h, t);
    return run_cycle(b, context, group, h, t, group.member_prefix(group.cycle), group.cycle);
  });
}

// Whole cycles, then the remaining layers of an incomplete cycle.
StackResult scanned_with_rest(Builder& builder, const Context& context, const LayerGroup& group, Tensor x, const Tokens& tokens) {
  const std::int64_t rest = group.count % group.cycle, whole = group.count - rest;
  StackResult result{x, {}, {}};
  if (whole > 0) append(result, scanned(builder, context, group, x, for_layers(tokens, 0, whole), group.name));
  if (rest == 0) return result;
  const std::string name = group.name + "_remainder";
  const Tokens of_rest = for_layers(tokens, whole, rest);
  if (group.nested) {
    const graph::Scope scope(builder, name);
    append(result, run_first(builder, context, group, result.x, of_rest, rest));
  } else {
    append(result, run_block(builder, name, result.x, of_rest,
                             [&](Builder& b, Tensor h, const Tokens& t) {
                               return run_cycle(b, context, group, h, t, group.member_prefix(group.cycle), rest);
                             }));
  }
  return result;
}

// Each layer is a block.
StackResult unscanned(Builder& builder, const Context& context, const LayerGroup& group, Tensor x, const Tokens& tokens) {
  StackResult result{x, {}, {}};
  for (std::int64_t i = 0; i < group.count; ++i) {
    LayerGroup one = group;
    one.layer = [&](Builder& b, const Context& c, Tensor h, const Tokens& t, std::int64_t) {
      return group.layer(b, c, h, t, i % group.cycle);
    };
    append(result, run_block(builder, fmt::format("{}_{}", group.name, i), result.x, for_layers(tokens, i, 1),
                             [&](Builder& b, Tensor h, const Tokens& t) { return run_cycle(b, context, one, h, t, "", 1); }));
  }
  return result;
}

StackResult in_a_row(Builder& builder, const Context& context, const LayerGroup& group, Tensor x, const Tokens& tokens) {
  return context.model.scan && !group.is_written_out ? scanned_with_rest(builder, context, group, x, tokens)
                            : unscanned(builder, context, group, x, tokens);
}

Tensor regroup(Builder& builder, const std::string& name, Tensor x, Shape shape, std::int64_t stages) {
  return builder.add_one(graph::Op::stage_state, name, {x}, graph::StageStateOf{stages}, std::move(shape), x.dtype());
}

// The rows of a microbatch, taken from the buffers that rotate through the stages.
Tensor enter_stages(Builder& builder, const config::PipelineShape& pipeline, Tensor x) {
  const std::int64_t rows = x.size(0) / pipeline.microbatches;
  const Labels row_labels{labels::activation_batch, labels::activation_length, labels::activation_embed};
  Labels io_labels{labels::activation_stage, labels::none};
  Labels shift_labels{labels::activation_stage};
  io_labels.insert(io_labels.end(), row_labels.begin(), row_labels.end());
  shift_labels.insert(shift_labels.end(), row_labels.begin(), row_labels.end());
  const Shape one{rows, x.size(1), x.size(2)};
  Tensor io = regroup(builder, "state_io", x,
                      {pipeline.stages, pipeline.microbatches / pipeline.stages, one[0], one[1], one[2]}, pipeline.stages);
  io = constrain("state_io", io, io_labels);
  Tensor shift = regroup(builder, "shift", io, {pipeline.stages, one[0], one[1], one[2]}, pipeline.stages);
  shift = constrain("shift", shift, shift_labels);
  return regroup(builder, "microbatch", shift, one, pipeline.stages);
}

Tensor microbatch(Builder& builder, const config::PipelineShape& pipeline, Tensor x) {
  return regroup(builder, "microbatch", x, {x.size(0) / pipeline.microbatches, x.size(1)}, pipeline.stages);
}

StackResult stage_layers(Builder& builder, const Context& context, const LayerGroup& group,
                         const config::PipelineShape& pipeline, Tensor x, const Tokens& tokens) {
  if (pipeline.scan_stage && pipeline.layers_per_stage > 1) {
    LayerGroup stage = group;
    stage.name = "scanned_layers";
    stage.count = pipeline.layers_per_stage * group.cycle;
    stage.nested.reset();
    return scanned(builder, context, stage, x, tokens, labels::layers_per_stage);
  }
  const std::int64_t layers = pipeline.layers_per_stage * group.cycle;
  return run_cycle(builder, context, group, x, tokens, group.member_prefix(layers), layers);
}

StackResult pipelined(Builder& builder, const Context& context, const LayerGroup& group,
                      const config::PipelineShape& pipeline, Tensor x, const Tokens& tokens) {
  const graph::Scope scope(builder, "pipeline_module");
  Context inner = context;
  inner.rows = context.rows / pipeline.microbatches;
  graph::Stack stack{"layers", {pipeline.stages}, {labels::layers}, 0};
  if (pipeline.repeats > 1) {
    stack.sizes.insert(stack.sizes.begin(), pipeline.repeats);
    stack.labels.insert(stack.labels.begin(), labels::circular_repeats);
  }
  const Tensor h = enter_stages(builder, pipeline, x);
  Tokens t;
  for (const auto member : kOfAllLayers) {
    if (tokens.*member) t.*member = microbatch(builder, pipeline, tokens.*member);
  }
  t.draw_keys = tokens.draw_keys;
  StackResult result = repeat_layers(builder, stack, h, t, [&](Builder& b, Tensor y, const Tokens& s) {
    return stage_layers(b, inner, group, pipeline, y, s);
  });
  result.x = regroup(builder, "rows", result.x, x.shape(), pipeline.stages);
  return result;
}

template <typename Inside>
StackResult beside_pipeline(Builder& builder, Inside inside) {
  builder.let_stages_carry_batch(true);
  StackResult result = inside();
  builder.let_stages_carry_batch(false);
  return result;
}

}  // namespace

void append(StackResult& result, const StackResult& more) {
  result.x = more.x;
  const auto add = [&](std::vector<Tensor> StackResult::*member) {
    std::vector<Tensor>& all = result.*member;
    all.insert(all.end(), (more.*member).begin(), (more.*member).end());
  };
  std::for_each(kSummed.begin(), kSummed.end(), add);
  std::for_each(kOfEachLayer.begin(), kOfEachLayer.end(), add);
}

Tokens for_layers(Tokens tokens, std::int64_t first, std::int64_t count) {
  if (tokens.draw_keys) tokens.draw_keys = graph::slice(tokens.draw_keys, 0, first, count);
  return tokens;
}

StackResult stack_layers(Builder& builder, const Context& context, const LayerGroup& group, Tensor x,
                         const Tokens& tokens) {
  if (!config::has_pipeline(context.settings)) return in_a_row(builder, context, group, x, tokens);
  if (!group.may_pipeline) return beside_pipeline(builder, [&] { return in_a_row(builder, context, group, x, tokens); });
  const config::PipelineShape pipeline =
      config::pipeline_shape(context.settings, group.count / group.cycle, context.rows);
  const std::int64_t piped = pipeline.layers() * group.cycle;
  StackResult result = pipelined(builder, context, group, pipeline, x, for_layers(tokens, 0, piped));
  LayerGroup rest = group;
  rest.count -= piped;
  rest.name += "_outside_pipeline";
  if (rest.count == 0) return result;
  append(result, beside_pipeline(builder, [&] {
           return in_a_row(builder, context, rest, result.x, for_layers(tokens, piped, rest.count));
         }));
  return result;
}

StackResult single_cycle(Builder& builder, const Context& context, const LayerGroup& group, const std::string& name, Tensor x,
                         const Tokens& tokens) {
  const auto run = [&] {
    return run_block(builder, name, x, tokens, [&](Builder& b, Tensor h, const Tokens& t) {
      return run_cycle(b, context, group, h, t, group.member_prefix(group.cycle), group.cycle);
    });
  };
  return config::has_pipeline(context.settings) ? beside_pipeline(builder, run) : run();
}

}  // namespace moesh::models
