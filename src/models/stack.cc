#include "models/stack.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <numeric>
#include <optional>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "graph/parts.h"
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
constexpr std::array kOfWindows{&nn::Windows::last,        &nn::Windows::segments,   &nn::Windows::positions, &nn::Windows::go_on,
                                &nn::Windows::token_slots, &nn::Windows::pool_slots, &nn::Windows::key_order, &nn::Windows::key_segments};

// Calls see(tensor) for those that are present.
template <typename Of, typename See>
void each_of_all_layers(Of& tokens, const See& see) {
  for (const auto member : kOfAllLayers) {
    if (tokens.*member) see(tokens.*member);
  }
  for (auto& windows : tokens.windows) {
    for (const auto member : kOfWindows) {
      if (windows.*member) see(windows.*member);
    }
  }
}

std::vector<Tensor> packed(const Tokens& tokens) {
  std::vector<Tensor> present;
  each_of_all_layers(tokens, [&](const Tensor& tensor) { present.push_back(tensor); });
  return present;
}

// The reverse of packed: the same members are present as in `packed`.
Tokens unpacked(const std::vector<Tensor>& tensors, Tokens packed) {
  std::size_t next = 0;
  each_of_all_layers(packed, [&](Tensor& tensor) { tensor = tensors[next++]; });
  packed.draw_keys = {};
  return packed;
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

// Each part of the batch has every n-th row, so that each device has some of all parts.
std::vector<Tensor> split_rows(Tensor x, std::int64_t parts) {
  if (parts == 1) return {x};
  Shape split = x.shape(), part = x.shape();
  split[0] = part[0] = x.size(0) / parts;
  split.insert(split.begin() + 1, parts);
  const Tensor all = graph::reshape(x, split);
  std::vector<Tensor> made;
  for (std::int64_t i = 0; i < parts; ++i) made.push_back(graph::reshape(graph::slice(all, 1, i, 1), part));
  return made;
}

Tensor joined_rows(const std::vector<Tensor>& parts) {
  if (parts.size() == 1) return parts[0];
  Shape whole = parts[0].shape(), part = whole;
  part.insert(part.begin() + 1, 1);
  whole[0] *= static_cast<std::int64_t>(parts.size());
  std::vector<Tensor> all;
  for (const Tensor& x : parts) all.push_back(graph::reshape(x, part));
  return graph::reshape(graph::concat(all, 1), whole);
}

// By part of the batch: x and what is in the tokens.
std::vector<std::vector<Tensor>> split_inputs(Tensor x, const Tokens& tokens, std::int64_t parts) {
  std::vector<std::vector<Tensor>> made(static_cast<std::size_t>(parts));
  std::vector<Tensor> inputs = packed(tokens);
  inputs.insert(inputs.begin(), x);
  for (const Tensor& input : inputs) {
    const std::vector<Tensor> rows = split_rows(input, parts);
    for (std::size_t i = 0; i < rows.size(); ++i) made[i].push_back(rows[i]);
  }
  return made;
}

// The same within a body, whose inputs are the x of each part, and the tokens of one part after those of another.
std::vector<std::vector<Tensor>> dealt(const std::vector<Tensor>& xs, const std::vector<Tensor>& tokens) {
  const std::size_t each = tokens.size() / xs.size();
  std::vector<std::vector<Tensor>> made;
  for (std::size_t part = 0; part < xs.size(); ++part) {
    const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(part * each);
    made.push_back({xs[part]});
    made.back().insert(made.back().end(), first, first + static_cast<std::ptrdiff_t>(each));
  }
  return made;
}

// Of what each part makes, the first tensor of each, its x, and the sums of the others.
std::vector<Tensor> merged(const std::vector<std::vector<Tensor>>& made) {
  std::vector<Tensor> out;
  for (const std::vector<Tensor>& part : made) out.push_back(part[0]);
  for (std::size_t i = 1; i < made[0].size(); ++i) {
    std::vector<Tensor> of_parts;
    for (const std::vector<Tensor>& part : made) of_parts.push_back(part[i]);
    out.push_back(sum_of(of_parts));
  }
  return out;
}

// Repeats `inside`; sums the iterations' losses and stacks what their layers make for themselves. Parts of the batch are apart until all
// layers are done.
template <typename Inside>
StackResult repeat_layers(Builder& builder, const Context& context, const graph::Stack& stack, Tensor x, const Tokens& tokens,
                          Inside inside) {
  Context inner = context;
  inner.batch_parts = 1;
  inner.rows /= context.batch_parts;
  inner.is_part = context.is_part || context.batch_parts > 1;
  std::array<bool, kSummed.size()> sums{};
  std::array<bool, kOfEachLayer.size()> has{};
  const Tensor keys = tokens.draw_keys ? stacked_keys(stack, tokens.draw_keys) : Tensor{};
  const std::vector<std::vector<Tensor>> inputs = split_inputs(x, tokens, context.batch_parts);
  const std::size_t parts = inputs.size();
  std::vector<Tensor> carried, shared;
  for (const std::vector<Tensor>& part : inputs) {
    carried.push_back(part[0]);
    shared.insert(shared.end(), part.begin() + 1, part.end());
  }
  const graph::Body body{[&](Builder& b, const std::vector<Tensor>& carried_in, const std::vector<Tensor>& shared_in) {
    const Tensor key = keys ? b.slice_of(keys, static_cast<int>(stack.sizes.size())) : Tensor{};
    const auto build = [&](const std::vector<Tensor>& given) {
      Tokens of_part = unpacked({given.begin() + 1, given.end()}, tokens);
      of_part.draw_keys = key;
      const StackResult made = inside(b, inner, given[0], of_part);
      assert((parts == 1 || made.highest.empty()) && "a sum of highest scores");
      std::vector<Tensor> out{made.x};
      for (std::size_t i = 0; i < sums.size(); ++i) {
        const std::vector<Tensor>& losses = made.*kSummed[i];
        sums[i] = !losses.empty();
        if (sums[i]) out.push_back(graph::scale(sum_of(losses), 1 / static_cast<double>(parts)));
      }
      for (std::size_t i = 0; i < has.size(); ++i) {
        const std::vector<Tensor>& layers = made.*kOfEachLayer[i];
        has[i] = !layers.empty();
        if (has[i]) out.push_back(layers.size() == 1 ? layers[0] : graph::concat(layers, 0));
      }
      return out;
    };
    return merged(graph::in_parts(b, dealt(carried_in, shared_in), build));
  }};
  const std::vector<Tensor> made = graph::repeat(builder, stack, carried, shared, body);
  StackResult result{joined_rows({made.begin(), made.begin() + static_cast<std::ptrdiff_t>(parts)}), {}, {}};
  std::vector<int> all_dims(stack.sizes.size());
  std::iota(all_dims.begin(), all_dims.end(), 0);
  std::size_t next = parts;
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
StackResult run_block(Builder& builder, const Context& context, const std::string& name, Tensor x, const Tokens& tokens, Inside inside) {
  return repeat_layers(builder, context, {name, {}, {}, 0}, x, tokens, inside);
}

// The first layers of a cycle as a stack.
StackResult run_first(Builder& builder, const Context& context, const LayerGroup& group, Tensor x, const Tokens& tokens,
                      std::int64_t count) {
  const graph::Stack stack{group.nested->stack, {count}, {labels::local_layers}, stack_position(context)};
  return repeat_layers(
      builder, context, stack, x, for_layers(tokens, 0, count),
      [&](Builder& b, const Context& c, Tensor h, const Tokens& t) { return run_cycle(b, c, group, h, t, "", 1); });
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
  return repeat_layers(builder, context, stack, x, tokens, [&](Builder& b, const Context& c, Tensor h, const Tokens& t) {
    if (group.nested) return run_nested(b, c, group, h, t);
    return run_cycle(b, c, group, h, t, group.member_prefix(group.cycle), group.cycle);
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
    append(result, run_block(builder, context, name, result.x, of_rest,
                             [&](Builder& b, const Context& c, Tensor h, const Tokens& t) {
                               return run_cycle(b, c, group, h, t, group.member_prefix(group.cycle), rest);
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
    append(result, run_block(builder, context, fmt::format("{}_{}", group.name, i), result.x, for_layers(tokens, i, 1),
                             [&](Builder& b, const Context& c, Tensor h, const Tokens& t) { return run_cycle(b, c, one, h, t, "", 1); }));
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
  StackResult result = repeat_layers(builder, inner, stack, h, t, [&](Builder& b, const Context& c, Tensor y, const Tokens& s) {
    return stage_layers(b, c, group, pipeline, y, s);
  });
  result.x = regroup(builder, "rows", result.x, x.shape(), pipeline.stages);
  return result;
}

// The context of layers through which parts of the batch go in turn, if they are to.
Context in_batch_parts(const Context& context, const LayerGroup& group) {
  Context made = context;
  if (!context.trains() || !group.has_experts || context.model.batch_parts == 1) return made;
  made.batch_parts = context.model.batch_parts;
  const sharding::Spec spec = context.spec_of({.labels = {labels::activation_batch}});
  const std::int64_t here = context.mesh == nullptr ? 1 : sharding::shards(spec.dims[0], *context.mesh);
  if (context.rows % (here * made.batch_parts) != 0) {
    refuse(fmt::format("batch_split_factor={} does not divide the rows that a device has in a pass, of {} on {}", made.batch_parts,
                       counted(context.rows, "row"), counted(here, "shard")),
           context.settings.origin("batch_split_factor").where,
           "a larger per_device_batch_size (or eval_per_device_batch_size), or fewer gradient_accumulation_steps");
  }
  return made;
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
  if (!config::has_pipeline(context.settings)) return in_a_row(builder, in_batch_parts(context, group), group, x, tokens);
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
    return run_block(builder, context, name, x, tokens, [&](Builder& b, const Context& c, Tensor h, const Tokens& t) {
      return run_cycle(b, c, group, h, t, group.member_prefix(group.cycle), group.cycle);
    });
  };
  return config::has_pipeline(context.settings) ? beside_pipeline(builder, run) : run();
}

}  // namespace moesh::models
