#include "foreign/degrees.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "base/error.h"
#include "base/rounding.h"
#include "base/text.h"
#include "foreign/mesh_sizes.h"
#include "mesh/topology.h"
#include "sharding/labels.h"

namespace moesh::foreign {
namespace {

constexpr std::int64_t kMostDevices = 1'000'000;

// The sizes of moesh's mesh axes.
struct Axes {
  std::int64_t data = 1, fsdp = 1, context = 1, tensor = 1, expert = 1;
  bool context_holds_experts = false;  // experts are sharded over the context axis too, besides the expert axis
  bool tensor_holds_experts = false;   // and over the tensor axis, which then leaves their width whole
};

std::optional<std::int64_t> devices_of_target(const Translation& translation) {
  const std::optional<std::string> target = translation.own("compile_topology");
  if (!target || target->empty()) return std::nullopt;
  return mesh::find_topology(*target, slices_of(translation)).devices();
}

std::string product_words(const Degrees& degrees) {
  return fmt::format("tensor {} x context {} x pipeline {}{}", degrees.tensor, degrees.context, degrees.stages,
                     degrees.replicas > 1 ? fmt::format(" x replicas {}", degrees.replicas) : "");
}

std::int64_t product(std::initializer_list<std::int64_t> sizes, const std::string& where) {
  std::int64_t all = 1;
  for (const std::int64_t size : sizes) {
    if (size > kMostDevices / all) {
      refuse(fmt::format("degrees of parallelism that take more than {}", counted(kMostDevices, "device")), where, "give smaller ones");
    }
    all *= size;
  }
  return all;
}

std::int64_t nearest_divisor(std::int64_t of, std::int64_t asked) {
  std::int64_t nearest = 1;
  for (std::int64_t size = 1; size <= std::min(of, kMostDevices); ++size) {
    if (of % size == 0 && std::abs(size - asked) < std::abs(nearest - asked)) nearest = size;
  }
  return nearest;
}

// Whether the tensor-parallel devices have whole experts, rather than a part of the width of each.
bool tensor_holds_experts(const Degrees& degrees) {
  return degrees.model.experts > 0 && !degrees.has_slots && degrees.tensor > 1 && degrees.tensor_in_experts == 1 &&
         degrees.experts % degrees.tensor == 0;
}

// Over how many groups of devices the experts are sharded. Within a group, tensor parallelism splits experts, or the width of each.
std::int64_t expert_groups(const Degrees& degrees) {
  const std::int64_t devices = degrees.experts * degrees.tensor_in_experts;
  return degrees.model.experts > 0 ? devices / std::gcd(devices, degrees.tensor) : 1;
}

// The smallest number of data-parallel devices within a replica that the experts allow.
std::int64_t fewest(const Degrees& degrees) {
  const std::int64_t groups = expert_groups(degrees);
  return groups % degrees.context == 0 ? groups / degrees.context : groups;
}

void tell_target(std::optional<std::int64_t> target, std::optional<std::int64_t> told, bool is_counted, std::int64_t count,
                 Translation& translation) {
  if (target && told && *target != *told) {
    translation.assume(fmt::format("compile_topology has {}, the command {}: that of compile_topology is taken", counted(*target, "device"),
                                   with_commas(*told)));
  }
  if (!target && !told && !is_counted) {
    translation.assume(fmt::format("nothing says how many devices there are: {}, the fewest that the degrees take", with_commas(count)));
  }
  if (!target) {
    translation.assume(fmt::format(
        "no machine is named: compile_topology=KIND-{} (`moesh help hardware`) tells whether a step fits, and its time", count));
  }
}

// Words that offer a number of devices instead of `count`: exactly `unit`, or a multiple of it. With compile_topology=, only a size that
// machines of that kind come in. Empty if there is none.
std::string fitting_words(std::int64_t count, std::int64_t unit, bool is_exact, const Translation& translation) {
  const std::optional<std::string> target = translation.own("compile_topology");
  if (!target || target->empty()) return counted(is_exact ? unit : std::max<std::int64_t>(1, count / unit) * unit, "device") + ", or ";
  const std::optional<std::int64_t> fitting = mesh::nearest_devices_like(*target, slices_of(translation), is_exact ? unit : count, unit);
  if (!fitting || (is_exact && *fitting != unit)) return "";
  return fmt::format("compile_topology= with {}, or ", counted(*fitting, "device"));
}

Devices count_devices(const Degrees& degrees, std::optional<std::int64_t> told, const std::string& where, Translation& translation) {
  const std::optional<std::int64_t> target = devices_of_target(translation);
  product({degrees.experts, degrees.tensor_in_experts}, where);
  const std::int64_t others = product({degrees.replicas, degrees.tensor, degrees.context, degrees.stages}, where);
  const std::int64_t least = product({others, degrees.data.value_or(1)}, where);
  const std::int64_t count = target ? *target : told ? *told : product({others, degrees.data.value_or(fewest(degrees))}, where);
  if (degrees.data ? count != least : count % others != 0) {
    const std::string data = degrees.data ? fmt::format(" x data {}", *degrees.data) : "";
    refuse(fmt::format("{} for {}{}: {} {} was expected", counted(count, "device"), product_words(degrees), data,
                       degrees.data ? "exactly" : "a multiple of", least),
           where, fitting_words(count, least, degrees.data.has_value(), translation) + "other degrees");
  }
  tell_target(target, told, degrees.data.has_value(), count, translation);
  return {count, count / (degrees.tensor * degrees.context * degrees.stages), degrees.stages, false};
}

// The fewest devices that the degrees take, beside sizes of the user's own.
Devices devices_at_least(const Degrees& degrees, const std::string& where) {
  product({degrees.experts, degrees.tensor_in_experts}, where);
  const std::int64_t data = product({degrees.replicas, degrees.data.value_or(fewest(degrees))}, where);
  return {product({data, degrees.tensor, degrees.context, degrees.stages}, where), data, degrees.stages, true};
}

// Puts the user's sizes in place of those that the degrees give. The mesh checks their product. The batch is still that of the degrees if
// these divide the devices. `rest`: the axis of what is left for data parallelism.
Devices take_devices(const Degrees& degrees, std::string_view rest, std::optional<std::int64_t> told, std::vector<AxisSize>& sizes,
                     Translation& translation) {
  const std::optional<std::int64_t> target = devices_of_target(translation);
  const std::int64_t count = take_own_sizes(sizes, degrees.data ? "" : rest, target ? target : told, translation);
  const std::int64_t asked = degrees.tensor * degrees.context * degrees.stages;
  double given = 1;
  for (const char* axis : {"tensor", "tensor_sequence", "context", "pipeline"}) given *= static_cast<double>(size_of(sizes, axis));
  const auto split = count % asked == 0 ? static_cast<double>(asked) : given;
  tell_target(target, told, true, count, translation);
  translation.assume("sizes of mesh axes are yours: the command's degrees are not held against the number of devices");
  const auto data = static_cast<std::int64_t>(static_cast<double>(count) / split);
  return {count, std::max<std::int64_t>(1, data), size_of(sizes, "pipeline"), true};
}

void tell_width(const Degrees& degrees, std::int64_t groups, Translation& translation) {
  if (degrees.model.experts == 0 || degrees.tensor_in_experts == degrees.tensor || tensor_holds_experts(degrees)) return;
  const auto split = [](std::int64_t ways) { return ways == 1 ? "not split" : fmt::format("split {} ways", ways); };
  const bool as_many = groups * degrees.tensor == degrees.experts * degrees.tensor_in_experts;
  translation.differ(fmt::format(
      "experts are {} and the width of each is {}, as tensor parallelism is for all of the model, rather than {} and {}{}", split(groups),
      split(degrees.tensor), split(degrees.experts), split(degrees.tensor_in_experts), as_many ? "; a device holds as much" : ""));
}

// Checks, as torch's programs do, that the experts divide the devices of data, context and tensor parallelism.
void check_experts(const Degrees& degrees, std::int64_t data, const std::string& where) {
  if (degrees.model.experts == 0) return;
  const std::int64_t all = data * degrees.context * degrees.tensor, in_experts = degrees.tensor_in_experts;
  const std::int64_t nearest = nearest_divisor(std::gcd(all / std::gcd(all, in_experts), degrees.model.experts), degrees.experts);
  const std::string split = nearest == 1 ? "experts that are not split" : fmt::format("{} ways to split experts", nearest);
  const std::string fix = all % in_experts == 0 ? split + ", or other degrees"
                                                : fmt::format("tensor {} in experts, or other degrees", nearest_divisor(all, in_experts));
  if (degrees.model.experts % degrees.experts != 0)
    refuse(fmt::format("{}, which {} ways to split them do not divide", counted(degrees.model.experts, "expert"), degrees.experts), where,
           fix);
  if (all % (degrees.experts * in_experts) != 0) {
    refuse(fmt::format("expert {} x tensor {} in experts do not divide data {} x context {} x tensor {}", degrees.experts, in_experts, data,
                       degrees.context, degrees.tensor),
           where, fix);
  }
}

// Takes the experts' devices from those of context and data parallelism, the nearest ones first.
Axes place_experts(const Degrees& degrees, std::int64_t data, const std::string& where, Translation& translation) {
  check_experts(degrees, data, where);
  const std::int64_t groups = expert_groups(degrees), context = degrees.context;
  tell_width(degrees, groups, translation);
  const bool in_tensor = tensor_holds_experts(degrees);
  if (context > 1 && groups > 1 && groups % context == 0 && data % (groups / context) == 0)
    return {1, data / (groups / context), context, degrees.tensor, groups / context, true, in_tensor};
  if (data % groups == 0) return {1, data / groups, context, degrees.tensor, groups, false, in_tensor};
  refuse(
      fmt::format("experts that take a part of context {} beside data {}: an axis holds experts as a whole or not at all", context, data),
      where, fmt::format("a context of {}, or other degrees", nearest_divisor(groups, context)));
}

// Orders the mesh axes: tensor-parallel devices are next to each other, then those of the context, then those of experts.
void give_order(const Axes& axes, Translation& translation) {
  if (axes.expert > 1 && (axes.context > 1 || axes.tensor > 1))
    translation.give("mesh_axes", "[data,stage,fsdp,expert,context,tensor,tensor_sequence]");
}

// The rules that override the default ones, under which the expert and context axes shard the other parameters as fsdp does. `tensor`: the
// axis of tensor parallelism.
std::string rules_of(const Degrees& degrees, const Axes& axes, std::string_view tensor, bool copies) {
  std::vector<std::string> rules;
  const auto add = [&](std::string_view label, std::string_view on) { rules.push_back(fmt::format("[{},[{}]]", label, on)); };
  if (axes.context_holds_experts || axes.tensor_holds_experts) {
    const std::string holders = fmt::format("{}expert{}{}", axes.context_holds_experts ? "context," : "",
                                            axes.tensor_holds_experts ? "," : "", axes.tensor_holds_experts ? tensor : "");
    add(labels::exp, holders);
    add(labels::activation_exp, holders);
  }
  if (axes.tensor_holds_experts) {
    add(labels::mlp_moe, "");
    add(labels::mlp_no_fsdp, "");
  }
  if (copies && (axes.expert > 1 || axes.context > 1)) {
    add(labels::embed_vocab, "fsdp");
    add(labels::embed, "fsdp");
    if (degrees.model.is_latent) {
      add(labels::q_lora, "fsdp");
      add(labels::kv_lora, "fsdp");
    }
  }
  if (axes.context_holds_experts || (copies && degrees.model.experts > 0 && axes.context > 1)) add(labels::embed_moe, "fsdp");
  return rules.empty() ? "" : "[" + join(rules, ",") + "]";
}

}  // namespace

Devices give_mesh(const Degrees& degrees, std::optional<std::int64_t> told, const std::string& where, Translation& translation) {
  const bool is_own = sizes_axes(translation), copies = degrees.kind != Degrees::Data::sharded;
  Devices devices = is_own ? devices_at_least(degrees, where) : count_devices(degrees, told, where, translation);
  Axes axes = place_experts(degrees, devices.data / degrees.replicas, where, translation);
  if (copies) std::swap(axes.data, axes.fsdp);
  axes.data *= degrees.replicas;
  const std::string_view tensor = degrees.shards_sequence ? "tensor_sequence" : "tensor";

  std::vector<AxisSize> sizes{{"data", axes.data},       {"pipeline", degrees.stages}, {"fsdp", axes.fsdp},
                              {"context", axes.context}, {tensor, axes.tensor},        {"expert", axes.expert}};
  if (is_own) {
    devices = take_devices(degrees, copies ? "data" : "fsdp", told, sizes, translation);
  } else {
    spread_slices(sizes, translation);
  }
  give_sizes(sizes, translation);
  give_order(axes, translation);
  if (const std::string rules = rules_of(degrees, axes, tensor, copies); !rules.empty()) translation.give("logical_axis_rules", rules);
  if (degrees.kind == Degrees::Data::sharded_moments) translation.give("shard_optimizer_over_data", true);
  return devices;
}

std::int64_t give_batch(const Batch& batch, const Devices& devices, std::int64_t stages, const std::string& where,
                        Translation& translation) {
  const double at_once = batch.rows * static_cast<double>(devices.data);
  double parts = batch.all_rows ? *batch.all_rows / at_once : static_cast<double>(batch.parts);
  if (devices.is_own) {
    const double whole = std::max(1.0, std::round(parts));
    if (whole != parts)
      translation.differ(fmt::format("the batch of a step is {} rather than {}, as the mesh is yours", whole * at_once, *batch.all_rows));
    parts = whole;
  }
  if (parts < 1 || parts != std::floor(parts)) {
    refuse(fmt::format("a batch of {}, a multiple of {} was expected: {} for each of {} along data parallelism", *batch.all_rows, at_once,
                       batch.rows, counted(devices.data, "device")),
           where, fmt::format("a batch of {}, or other degrees", std::max(1.0, std::round(parts)) * at_once));
  }
  const double at_once_of_one = at_once / static_cast<double>(devices.count);
  const auto microbatches = static_cast<std::int64_t>(parts);
  if (stages == 1 && devices.stages == 1) {
    translation.give("per_device_batch_size", at_once_of_one);
    if (microbatches > 1) translation.give("gradient_accumulation_steps", microbatches);
    return microbatches;
  }
  const std::int64_t planned = round_up(round_up(microbatches, stages), devices.stages);
  translation.give("per_device_batch_size", at_once_of_one * static_cast<double>(planned));
  if (devices.stages > 1) {
    translation.give("num_pipeline_microbatches", planned);
  } else if (!translation.is_own("gradient_accumulation_steps") && !translation.is_own("per_device_batch_size")) {
    translation.assume(
        fmt::format("without stages, the {} microbatches of a step are one batch: per_device_batch_size={} "
                    "gradient_accumulation_steps={} takes them one by one",
                    planned, at_once_of_one, planned));
  }
  if (planned != microbatches)
    translation.differ(fmt::format("{} microbatches are planned, a multiple of the stages, rather than {}", planned, microbatches));
  return 1;
}

void give_room_for_rows(const Degrees& degrees, Translation& translation) {
  if (degrees.experts == 1 || translation.is_own("ragged_buffer_factor")) return;
  translation.give("ragged_buffer_factor", std::int64_t{2});
  translation.assume(
      "memory is planned for twice the rows that a device has under an even load (ragged_buffer_factor=2); -1 plans for all rows");
}

void give_stages(const ModelFacts& model, std::int64_t stages, std::int64_t chunk, const std::string& where, Translation& translation) {
  const std::int64_t layers = model.layers - model.dense_layers, of_block = model.layers_per_block;
  const std::int64_t blocks = layers / of_block;
  const std::optional<std::int64_t> own = parse_integer(translation.own("num_layers_per_pipeline_stage").value_or(""));
  const std::int64_t of_chunk = chunk > 0 ? std::max<std::int64_t>(1, chunk / of_block) : blocks / stages;
  const std::int64_t at_once = own && *own > 0 && *own <= blocks ? *own : of_chunk;
  const std::int64_t spread = at_once > 0 ? blocks / (stages * at_once) * stages * at_once : 0;
  if (spread == 0) {
    const auto words = [&](std::int64_t count) {
      return of_block == 1 ? counted(count, "layer") : counted(count, "cycle") + " of " + counted(of_block, "layer");
    };
    refuse(fmt::format("{} for {} of {} at a time", words(blocks), counted(stages, "stage"), words(std::max<std::int64_t>(1, at_once))),
           where, "fewer stages, or more layers");
  }
  if (chunk > 0 && !own && chunk != at_once * of_block) {
    translation.differ(fmt::format("a stage runs {} at a time rather than {}: whole cycles of the layers that differ",
                                   counted(at_once * of_block, "layer"), with_commas(chunk)));
  }
  translation.give("num_layers_per_pipeline_stage", at_once);
  if (spread != blocks) translation.give("pipeline_parallel_layers", spread);
  if (spread * of_block == layers) return;
  translation.differ(fmt::format("{} of {} lie in stages, as many in each; the others are outside of them", with_commas(spread * of_block),
                                 counted(layers, "layer")));
}

void tell_kept_weights(const std::string& flag, const char* program, bool computes_narrow, Translation& translation) {
  translation.differ(
      fmt::format("{}: weights are gathered again in the backward pass, where {} keeps them from the forward pass on: half the "
                  "gathers, and {} bytes more for each parameter that a device computes with",
                  flag, program, computes_narrow ? 2 : 4));
}

void tell_narrow_sums(const char* program, Translation& translation) {
  translation.differ(fmt::format("gradients are summed over devices in bfloat16, half the bytes of {}'s float32", program));
}

}  // namespace moesh::foreign
