// Layouts drawn by a seed: meshes over every axis of a rule set, rules, strategies, chunks, remat policies and the like. Each draw is a
// set of changes to the request of a recorded run that must not change its numbers.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "sharding/labels.h"
#include "tests/support.h"

namespace moesh::test {

// The properties of a recorded run that decide which changes may be drawn.
struct RunTraits {
  double rows = 8;           // of the batch
  std::int64_t microbatches = 1;
  std::int64_t experts = 1;       // 1 means a dense model
  bool has_biases = false;        // if so, the capacity path is not drawn
  bool drops_tokens = false;      // if so, the expert strategy is kept
  bool is_loss_of_batch = false;  // if so, the loss depends on whole microbatches: their number is kept
  std::vector<std::string> labels;  // of the parameters and constraints
};

// Takes the traits from a session opened on one device.
inline RunTraits traits_of(const session::Session& session) {
  const config::Settings& settings = session.loaded.settings;
  const bool has_loss_beside = settings.real("load_balance_loss_weight") > 0 || settings.real("routed_bias_update_rate") > 0 ||
                        settings.integer("mtp_num_layers") > 0 ||
                        (settings.boolean("use_indexer") && settings.real("indexer_loss_scaling_factor") > 0);
  std::set<std::string> labels{labels::mlp_no_fsdp, labels::activation_exp, labels::mlp};  // labels that other strategies use
  for (const auto* tensors : {&session.layout.parameters, &session.layout.activations}) {
    for (const sharding::LaidTensor& tensor : *tensors) labels.insert(tensor.labels().begin(), tensor.labels().end());
  }
  labels.erase("");
  return {static_cast<double>(session.batch.rows_to_train), settings.integer("gradient_accumulation_steps"), session.shape.moe.experts,
          session.shape.moe.bias, settings.real("capacity_factor") > 0, has_loss_beside, {labels.begin(), labels.end()}};
}

// Reads how many layouts are drawn, from which seed and how verbosely; see layout_sweep_test.cc. Builds with sanitizers draw an eighth as
// many by default, since they take up to a hundred times as long.
inline std::uint64_t sweep_setting(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}
inline std::uint64_t sweep_draws(std::uint64_t otherwise) { return sweep_setting("MOESH_SWEEP_DRAWS", kIsSanitized ? otherwise / 8 : otherwise); }

class LayoutDraw {
 public:
  LayoutDraw(std::uint64_t seed, std::uint64_t index) : engine_(seed * 1'000'003 + index) {}

  template <typename T>
  const T& one_of(const std::vector<T>& all) {
    return all[below(all.size())];
  }

  // Draws a mesh, rules and a strategy, as key=value words.
  std::vector<std::string> layout(const RunTraits& run) {
    words_.clear();
    add_rule_set();
    add_mesh();
    if (chance(30)) add_own_rules(run.labels);
    if (run.experts > 1) add_experts(run);
    return words_;
  }

  // Draws a layout and also everything else that a training run may change without changing its numbers.
  std::vector<std::string> changes(const RunTraits& run) {
    layout(run);
    add_memory();
    const bool in_two = run.microbatches == 1 && !run.is_loss_of_batch && chance(15);
    if (in_two) add("gradient_accumulation_steps", 2);
    add("per_device_batch_size", run.rows / static_cast<double>(devices_ * (in_two ? 2 : run.microbatches)));
    if (chance(20)) add("shard_mode", "explicit");
    if (chance(20)) add("shard_optimizer_over_data", true);
    if (chance(25)) add("context_parallel_load_balance", false);
    if (in_two || run.microbatches > 1) add("reduce_gradients", one_of<std::string>({"each_pass", "once"}));
    return words_;
  }

 private:
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(engine_() % count); }
  bool chance(std::size_t percent) { return below(100) < percent; }

  template <typename T>
  void add(const std::string& key, const T& value) {
    words_.push_back(fmt::format("{}={}", key, value));
  }

  void add_rule_set() {
    static const std::vector<std::string> kNamed{"2d-fsdp", "cp-as-ep", "ep-as-cp", "ep-as-dp", "ep-tp", "fsdp-as-dp-for-attn",
                                                 "pipeline-large-moe", "pure-fsdp", "shard-exp-on-fsdp"};
    if (chance(40)) add("custom_mesh_and_rule", one_of(kNamed));
    axes_ = config::load(words_).settings.texts("mesh_axes");
  }

  // Draws an axis; axes that runs refuse are drawn rarely.
  const std::string& any_axis() {
    while (true) {
      const std::string& axis = one_of(axes_);
      const bool is_refused = axis == "diloco" || axis == "context_usp_ulysses" || axis == "stage";
      if (!is_refused || chance(4)) return axis;
    }
  }

  void add_mesh() {
    std::map<std::string, std::int64_t> ici, dcn;
    used_axes_.clear();
    devices_ = 1;
    const std::int64_t most = one_of<std::int64_t>({2, 4, 8, 8, 8, 8, 16});
    while (devices_ < most) {
      const std::int64_t factor = chance(3) ? 3 : 2;
      auto [size, is_new] = ici.emplace(any_axis(), 1);
      size->second *= factor;
      devices_ *= factor;
    }
    for (const auto& [axis, size] : ici) used_axes_.push_back(axis);
    ici.emplace("fsdp", 1);
    const std::int64_t slices = chance(10) ? 2 : 1;
    if (slices > 1) dcn[any_axis()] = slices;
    dcn.emplace("data", 1);
    for (const auto& [axis, size] : ici) add(mesh::key_for(mesh::Level::ici, axis), size);
    for (const auto& [axis, size] : dcn) {
      if (slices > 1 || size > 1) add(mesh::key_for(mesh::Level::dcn, axis), size);
    }
    add("compile_topology", fmt::format("cpu-{}", devices_));
    if (slices > 1) add("compile_topology_num_slices", slices);
    devices_ *= slices;
  }

  // Maps a few labels to other axes; in one of five cases replaces the whole rule set by rules for all labels in a random order.
  void add_own_rules(std::vector<std::string> labels) {
    const bool replaces = chance(20);
    std::shuffle(labels.begin(), labels.end(), engine_);
    if (!replaces) labels.resize(std::min(labels.size(), 1 + below(4)));
    std::vector<std::string> rules;
    for (const std::string& label : labels) {
      std::vector<std::string> axes;
      for (std::size_t k = below(replaces ? 3 : 4); k > 0; --k) {
        const std::string& axis = chance(85) ? one_of(used_axes_) : any_axis();
        if (std::find(axes.begin(), axes.end(), axis) == axes.end()) axes.push_back(axis);
      }
      rules.push_back(fmt::format("[{},[{}]]", label, join(axes, ",")));
    }
    if (replaces) add("override_logical_axis_rules", true);
    add("logical_axis_rules", fmt::format("[{}]", join(rules, ",")));
  }

  void add_experts(const RunTraits& run) {
    if (!run.drops_tokens) {
      const std::size_t strategy = below(4);
      const bool is_ring = strategy == 2;
      add("sparse_matmul", strategy >= 2);
      if (is_ring) add("use_ring_of_experts", true);
      if (strategy == 1 && !run.has_biases) add("capacity_factor", run.experts);
    }
    if (chance(30)) add("moe_dispatch_no_expert_sharding", true);
    if (chance(25)) add("num_moe_token_chunks", one_of<int>({2, 4, 8}));
    if (chance(25)) add("num_moe_emb_chunks", one_of<int>({2, 4}));
    if (chance(20)) {
      add("use_batch_split_schedule", true);
      add("batch_split_factor", one_of<int>({2, 2, 4}));
    }
    if (chance(10)) add("use_ragged_sort", true);
  }

  void add_memory() {
    static const std::vector<std::string> kPolicies{"everything", "full", "minimal", "minimal_with_context", "save_dot_with_context_except_mlp",
                                                    "save_dot_except_mlpwi", "save_dot_except_mlp", "save_qkv_proj",
                                                    "qkv_proj_offloaded", "custom", "minimal_offloaded", "save_out_proj"};
    static const std::vector<std::string> kTensors{"context", "mlpwi_0", "mlpwi_1", "mlpwo", "moe_mlpwi_0", "moe_mlpwi_1", "moe_mlpwo",
                                                   "query_proj", "key_proj", "value_proj", "out_proj", "query_wa_proj", "kv_wa_proj",
                                                   "mla_q", "mla_kv", "attention_out"};
    if (!chance(50)) return;
    const std::string& policy = one_of(kPolicies);
    add("remat_policy", policy);
    if (policy != "custom") return;
    std::set<std::string> kept;
    for (std::size_t i = 1 + below(4); i > 0; --i) kept.insert(one_of(kTensors));
    for (const std::string& tensor : kept) add(tensor, one_of<std::string>({"device", "offload"}));
  }

  std::mt19937_64 engine_;
  std::vector<std::string> words_;
  std::vector<std::string> axes_;
  std::vector<std::string> used_axes_;  // axes with more than one device
  std::int64_t devices_ = 1;
};

}  // namespace moesh::test
