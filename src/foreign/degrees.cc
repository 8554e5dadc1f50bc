#include "foreign/degrees.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "mesh/topology.h"
#include "sharding/labels.h"

namespace moesh::foreign {
namespace {

// The mesh in moesh's axes.
struct Axes {
  std::int64_t data = 1, fsdp = 1, context = 1, tensor = 1, expert = 1;
  std::string rule_set;
};

std::int64_t slices_of(const Translation& translation) {
  const std::optional<std::string> asked = translation.own("compile_topology_num_slices");
  return std::max<std::int64_t>(1, asked ? parse_integer(*asked).value_or(1) : 1);
}

std::optional<std::int64_t> devices_of_target(const Translation& translation) {
  const std::optional<std::string> target = translation.own("compile_topology");
  if (!target || target->empty()) return std::nullopt;
  return mesh::find_topology(*target, slices_of(translation)).devices();
}

std::string product_words(const Degrees& degrees) {
  return fmt::format("tensor {} x context {} x pipeline {}{}", degrees.tensor, degrees.context, degrees.stages,
                     degrees.replicas > 1 ? fmt::format(" x replicas {}", degrees.replicas) : "");
}

// Devices along data parallelism within a replica, if there are as few as the experts allow.
std::int64_t fewest(const Degrees& degrees) {
  const std::int64_t folded = degrees.context * (degrees.tensor_in_experts < degrees.tensor ? degrees.tensor : 1);
  return degrees.experts / std::gcd(degrees.experts, folded);
}

void tell_target(std::optional<std::int64_t> target, std::optional<std::int64_t> told, bool is_counted, std::int64_t count,
                 Translation& translation) {
  if (target && told && *target != *told) {
    translation.assume(fmt::format("compile_topology has {}, the command {}: that of compile_topology is taken",
                                   counted(*target, "device"), with_commas(*told)));
  }
  if (!target && !told && !is_counted) {
    translation.assume(fmt::format("nothing says how many devices there are: {}, the fewest that the degrees take", with_commas(count)));
  }
  if (!target) {
    translation.assume(fmt::format("no machine is named: compile_topology=KIND-{} (`moesh help hardware`) tells whether a step fits, and its time",
                                   count));
  }
}

Devices count_devices(const Degrees& degrees, std::optional<std::int64_t> told, const std::string& where, Translation& translation) {
  const std::optional<std::int64_t> target = devices_of_target(translation);
  const std::int64_t others = degrees.replicas * degrees.tensor * degrees.context * degrees.stages;
  const std::int64_t count = target ? *target : told ? *told : others * degrees.data.value_or(fewest(degrees));
  if (count % others != 0 || (degrees.data && others * *degrees.data != count)) {
    const std::string data = degrees.data ? fmt::format(" x data {}", *degrees.data) : "";
    refuse(fmt::format("{} for {}{}: {} {} was expected", counted(count, "device"), product_words(degrees), data,
                       degrees.data ? "exactly" : "a multiple of", others * degrees.data.value_or(1)),
           where, target ? "compile_topology= with as many devices, or other degrees" : "give other degrees, or other nodes");
  }
  tell_target(target, told, degrees.data.has_value(), count, translation);
  return {count, count / (degrees.tensor * degrees.context * degrees.stages)};
}

// Experts take their devices from data parallelism where that has them; otherwise from those of the context or of tensor parallelism,
// whose part outside the experts the axis has then.
Axes place_experts(const Degrees& degrees, std::int64_t data, const std::string& where, Translation& translation) {
  const std::int64_t experts = degrees.experts;
  Axes axes{1, data, degrees.context, degrees.tensor, experts, ""};
  if (data % experts == 0) {
    axes.fsdp = data / experts;
    if (experts > 1 && degrees.tensor_in_experts != degrees.tensor) {
      translation.differ(fmt::format("experts are split over tensor parallelism too, {} ways rather than {}: no axis is for the rest of the "
                                     "model alone (custom_mesh_and_rule=ep-tp has one that is for experts inside them, and tensor outside)",
                                     degrees.tensor, degrees.tensor_in_experts));
    }
    return axes;
  }
  if (degrees.tensor == 1 && data * degrees.context % experts == 0) {
    axes = {1, data * degrees.context / experts, 1, 1, experts, "ep-as-cp"};
    translation.differ(fmt::format("{} ways to split experts fold over data {} x context {}: one axis carries the experts, and outside them the "
                                   "context (custom_mesh_and_rule=ep-as-cp), {} ways",
                                   experts, data, degrees.context, experts));
    return axes;
  }
  if (data * degrees.context * degrees.tensor % experts == 0) {
    const bool keeps_context = data * degrees.tensor % experts == 0;
    const std::int64_t left = data * degrees.tensor * (keeps_context ? 1 : degrees.context) / experts;
    axes = {1, left, keeps_context ? degrees.context : 1, 1, experts, "ep-tp"};
    translation.differ(fmt::format("{} ways to split experts fold over data {} x context {} x tensor {}: one axis carries the experts, and "
                                   "outside them tensor parallelism (custom_mesh_and_rule=ep-tp), {} ways",
                                   experts, data, degrees.context, degrees.tensor, experts));
    return axes;
  }
  refuse(fmt::format("experts over {}, which do not divide data {} x context {} x tensor {}", counted(experts, "device"), data, degrees.context,
                     degrees.tensor),
         where, "give other degrees, or other nodes");
}

// By default the axes of experts and of the context shard the other parameters as fsdp does.
std::string rules_of_copies(const Degrees& degrees, const Axes& axes) {
  std::vector<std::string> labels{labels::embed_vocab, labels::embed};
  if (degrees.has_experts && axes.context > 1) labels.emplace_back(labels::embed_moe);
  if (degrees.is_latent) labels.insert(labels.end(), {labels::q_lora, labels::kv_lora});
  for (std::string& label : labels) label = fmt::format("[{},[fsdp]]", label);
  return "[" + join(labels, ",") + "]";
}

// Slices are joined along the first axis that has a share for each.
void give_axis(std::string_view axis, std::int64_t size, std::int64_t& slices, Translation& translation) {
  if (slices > 1 && size % slices == 0) {
    translation.give(fmt::format("dcn_{}_parallelism", axis), slices);
    size /= slices;
    slices = 1;
  }
  if (size > 1 || axis == "fsdp") translation.give(fmt::format("ici_{}_parallelism", axis), size);
}

}  // namespace

Devices give_mesh(const Degrees& degrees, std::optional<std::int64_t> told, const std::string& where, Translation& translation) {
  const Devices devices = count_devices(degrees, told, where, translation);
  Axes axes = place_experts(degrees, devices.data / degrees.replicas, where, translation);
  const bool copies = degrees.kind != Degrees::Data::sharded;
  if (copies) std::swap(axes.data, axes.fsdp);
  axes.data *= degrees.replicas;

  std::int64_t slices = slices_of(translation);
  give_axis("data", axes.data, slices, translation);
  give_axis("pipeline", degrees.stages, slices, translation);
  give_axis("fsdp", axes.fsdp, slices, translation);
  give_axis("context", axes.context, slices, translation);
  give_axis(degrees.shards_sequence ? "tensor_sequence" : "tensor", axes.tensor, slices, translation);
  give_axis("expert", axes.expert, slices, translation);

  if (!axes.rule_set.empty()) {
    translation.give("custom_mesh_and_rule", axes.rule_set);
    if (axes.rule_set == "ep-as-cp") translation.give("context_sharding", "expert");
  } else if (copies && (axes.expert > 1 || axes.context > 1)) {
    translation.give("logical_axis_rules", rules_of_copies(degrees, axes));
  }
  if (degrees.kind == Degrees::Data::sharded_moments && axes.data > 1) translation.give("shard_optimizer_over_data", true);
  return devices;
}

void give_batch(const Batch& batch, const Devices& devices, std::int64_t stages, const std::string& where, Translation& translation) {
  const double at_once = batch.rows * static_cast<double>(devices.data);
  const double all = batch.all_rows.value_or(at_once * static_cast<double>(batch.parts));
  const double parts = all / at_once;
  if (parts < 1 || parts != std::floor(parts)) {
    refuse(fmt::format("{} rows a step, a multiple of {} was expected: {} for each of {} along data parallelism", all, at_once, batch.rows,
                       counted(devices.data, "device")),
           where, "give another batch, or other degrees");
  }
  const auto count = static_cast<double>(devices.count);
  if (stages == 1) {
    translation.give("per_device_batch_size", at_once / count);
    if (parts > 1) translation.give("gradient_accumulation_steps", static_cast<std::int64_t>(parts));
    return;
  }
  translation.give("per_device_batch_size", all / count);
  const auto microbatches = static_cast<std::int64_t>(parts);
  if (microbatches % stages == 0) {
    translation.give("num_pipeline_microbatches", microbatches);
  } else {
    translation.differ(fmt::format("{} for {}: a multiple is planned, as many as there are stages", counted(microbatches, "microbatch"),
                                   counted(stages, "stage")));
  }
}

void give_stages(std::int64_t layers, std::int64_t stages, std::int64_t chunk, const std::string& where, Translation& translation) {
  const std::int64_t at_once = chunk > 0 ? chunk : layers / stages;
  const std::int64_t spread = at_once > 0 ? layers / (stages * at_once) * stages * at_once : 0;
  if (spread == 0) {
    refuse(fmt::format("{} for {} of {} at a time", counted(layers, "layer"), counted(stages, "stage"), counted(std::max<std::int64_t>(1, at_once), "layer")),
           where, "fewer stages, or more layers");
  }
  translation.give("num_layers_per_pipeline_stage", at_once);
  if (spread == layers) return;
  translation.give("pipeline_parallel_layers", spread);
  translation.differ(fmt::format("{} of {} lie in stages, as many in each; the others are outside of them", with_commas(spread),
                                 counted(layers, "layer")));
}

}  // namespace moesh::foreign
