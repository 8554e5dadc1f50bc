#include "search/space.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "advice/cache_rows.h"
#include "advice/factorings.h"
#include "advice/in_turns.h"
#include "advice/planned.h"
#include "base/error.h"
#include "base/text.h"
#include "config/batch_words.h"
#include "session/reopen.h"

namespace moesh::search {
namespace {

using session::Session;

// Each policy saves what the next one saves, and more.
constexpr std::array<const char*, 7> kRemats{"everything",          "minimal_with_context", "minimal", "save_dot_except_mlpwi",
                                             "save_dot_except_mlp", "save_qkv_proj",        "full"};
constexpr const char* kOtherRemat = "save_dot_with_context_except_mlp";
constexpr double kMostDeviceRows = 64;      // rows of a device in a pass, if the request does not give the batch
constexpr double kMostDecodedRows = 256;    // the same where a row is one token
constexpr std::int64_t kLeastSharing = 16;  // up to this many devices share a row

double most_rows(Stage stage) { return stage == session::DecodeStage::token ? kMostDecodedRows : kMostDeviceRows; }

bool is_open(const config::Settings& settings, const std::string& key) { return !settings.is_by_user(key); }

std::vector<Keys> rule_sets(const config::Settings& settings) {
  std::vector<Keys> sets{{}};
  if (!is_open(settings, "custom_mesh_and_rule") || !is_open(settings, "logical_axis_rules") || !is_open(settings, "mesh_axes"))
    return sets;
  for (const std::string& name : advice::rule_sets_to_try()) sets.push_back({"custom_mesh_and_rule=" + name});
  return sets;
}

std::vector<Keys> remats_of(const config::Settings& settings, Stage stage) {
  std::vector<Keys> remats;
  if (stage || !is_open(settings, "remat_policy")) return {{}};
  for (const char* policy : kRemats)
    remats.push_back(settings.text("remat_policy") == policy ? Keys{} : Keys{fmt::format("remat_policy={}", policy)});
  return remats;
}

// The rows that a device processes at a time.
struct Pass {
  Keys keys;
  double rows_per_device = 0;
};

// The request's batch in more and more passes or, if it gives none, smaller and smaller batches.
std::vector<Pass> passes_of(const config::Settings& settings, Stage stage) {
  const double given = settings.real("per_device_batch_size");
  std::vector<Pass> passes;
  if (is_open(settings, "per_device_batch_size")) {
    for (double rows = most_rows(stage); rows >= 1.0 / static_cast<double>(kLeastSharing); rows /= 2)
      passes.push_back({{config::batch_key(rows)}, rows});
    return passes;
  }
  passes.push_back({{}, given});
  if (stage || !is_open(settings, "gradient_accumulation_steps")) return passes;
  for (const std::int64_t parts : config::parts_of_rows(given))
    passes.push_back({config::in_passes(settings, parts), given / static_cast<double>(parts)});
  return passes;
}

// Whether so many rows of all devices may be tried.
bool may_lie(double rows, bool is_given, const Session& session, const mesh::Mesh& mesh) {
  if (rows < 1 || rows != std::floor(rows)) return false;
  if (session.decodes) return true;  // the rows of caches lie as rules say, evenly or not, which a plan finds out
  // Rows that are loaded must lie evenly. Of the batches that a search chooses itself, those that are trained on must, too.
  const double to_lie = is_given ? std::max(rows, static_cast<double>(mesh.devices())) : rows;
  return advice::takes_rows(session.layout, mesh, static_cast<std::int64_t>(to_lie));
}

void add_passes(const std::vector<Pass>& passes, bool is_open_batch, const Session& session, const mesh::Mesh& mesh, Candidate& candidate) {
  for (const Pass& pass : passes) {
    const double rows = pass.rows_per_device * static_cast<double>(mesh.devices());
    if (!may_lie(rows, pass.keys.empty(), session, mesh)) continue;
    candidate.passes.push_back(pass.keys);
    if (is_open_batch) candidate.open_rows.push_back(static_cast<std::int64_t>(rows));
  }
}

// The axes that a search divides devices among, the usual ones first.
constexpr std::array<std::string_view, 7> kUsualFirst{"fsdp",    "data",          "expert", "tensor", "tensor_sequence",
                                                      "context", "fsdp_transpose"};

advice::Freedom freedom_of(const config::Settings& settings, const mesh::Mesh& mesh) {
  advice::Freedom freedom;
  freedom.growing.assign(kUsualFirst.begin(), kUsualFirst.end());
  freedom.growing_between = {"data", "fsdp", "expert"};
  for (const mesh::Axis& axis : mesh.axes()) {
    for (const mesh::Level level : {mesh::Level::ici, mesh::Level::dcn}) {
      const std::string key = mesh::key_for(level, axis.name);
      if (axis.name == "stage" || (!is_open(settings, key) && settings.integer(key) > 0)) freedom.fixed.push_back(key);
    }
  }
  return freedom;
}

// The ways to bring rows to experts that are sharded over devices.
std::vector<Keys> ways_to_experts(const Session& session, const mesh::Mesh& mesh) {
  const config::Settings& settings = session.loaded.settings;
  std::vector<Keys> ways{{}};
  if (!session.shape.is_moe() || session::expert_shards(settings, mesh) == 1) return ways;
  const auto add_other = [&](const char* key) {
    if (is_open(settings, key)) ways.push_back({fmt::format("{}={}", key, !settings.boolean(key))});
  };
  if (session.shape.moe.strategy == config::MoeStrategy::sparse) add_other("use_ring_of_experts");
  if (session.shape.moe.strategy == config::MoeStrategy::capacity) add_other("moe_dispatch_no_expert_sharding");
  return ways;
}

// The ways to the experts and, where a cache can be spread over devices that otherwise hold copies of it, each with that too.
std::vector<Keys> ways_of(const Session& session, const mesh::Mesh& mesh) {
  std::vector<Keys> ways = ways_to_experts(session, mesh);
  const Keys spread = session.decodes ? advice::with_rows_of_cache(session, mesh) : Keys{};
  const std::size_t count = spread.empty() ? 0 : ways.size();
  for (std::size_t i = 0; i < count; ++i) ways.push_back(joined(ways[i], spread));
  return ways;
}

// The sum of the places of the mesh's axes in that list.
int oddity_of(const mesh::Mesh& mesh) {
  int sum = 0;
  for (const mesh::Axis& axis : mesh.axes()) {
    if (axis.size() > 1) sum += static_cast<int>(std::find(kUsualFirst.begin(), kUsualFirst.end(), axis.name) - kUsualFirst.begin());
  }
  return sum;
}

// Whether both axes of tensor parallelism are in use; tensor_sequence shards the sequence between layers too.
bool splits_heads_twice(const mesh::Mesh& mesh) { return mesh.size_of("tensor") > 1 && mesh.size_of("tensor_sequence") > 1; }

int axes_in_use(const mesh::Mesh& mesh) {
  return static_cast<int>(std::count_if(mesh.axes().begin(), mesh.axes().end(), [](const mesh::Axis& axis) { return axis.size() > 1; }));
}

std::optional<Session> opened(const std::vector<std::string>& request, Stage stage = {}) {
  try {
    return session::reopen(request, session::Evenness::reported, stage);
  } catch (const Error&) {
    return std::nullopt;  // the rule set lacks an axis that the request sizes
  }
}

class SpaceOf {
 public:
  SpaceOf(const std::vector<std::string>& request, Stage stage) : request_(request), stage_(stage) {}

  Space made() {
    const Session session = session::reopen(request_, session::Evenness::reported, stage_);
    const config::Settings& settings = session.loaded.settings;
    space_.usable_memory = session.target.chip.usable_memory_bytes;
    space_.has_open_batch = is_open(settings, "per_device_batch_size");
    remats_ = remats_of(settings, stage_);
    passes_ = passes_of(settings, stage_);
    for (const Keys& rules : rule_sets(settings)) {
      if (const std::optional<Session> of_rules = opened(joined(request_, rules), stage_)) add_all(*of_rules, rules);
    }
    std::stable_sort(space_.candidates.begin(), space_.candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return std::pair(a.axes, a.oddity) < std::pair(b.axes, b.oddity); });
    return std::move(space_);
  }

 private:
  void add_all(const Session& session, const Keys& rules) {
    if (const auto state = advice::state_on(session, session.mesh)) {
      const std::size_t own = space_.candidates.size();
      add(session, rules, {session.mesh, *state});
      // The request itself comes first, so that it is tried however few plans are allowed.
      if (rules.empty() && space_.candidates.size() > own) space_.candidates[own].axes = space_.candidates[own].oddity = 0;
    }
    for (const advice::Factoring& factoring : advice::factorings(session, freedom_of(session.loaded.settings, session.mesh))) {
      if (!splits_heads_twice(factoring.mesh) || splits_heads_twice(session.mesh)) add(session, rules, factoring);
    }
  }

  void add(const Session& session, const Keys& rules, const advice::Factoring& factoring) {
    const std::int64_t state = factoring.state_bytes;
    const std::vector<Keys> ways = ways_of(session, factoring.mesh);
    const auto count = static_cast<std::int64_t>(ways.size());
    space_.least_state = space_.least_state == 0 ? state : std::min(space_.least_state, state);
    if (state > space_.usable_memory) {
      space_.too_large += count;
      return;
    }
    const int axes = axes_in_use(factoring.mesh), oddity = oddity_of(factoring.mesh);
    Candidate candidate{joined(rules, mesh::keys_between(session.mesh, factoring.mesh)), axes, oddity, state, remats_, {}, {}};
    add_passes(passes_, space_.has_open_batch, session, factoring.mesh, candidate);
    if (candidate.passes.empty()) {
      space_.uneven += count;
      return;
    }
    for (const Keys& way : ways) {
      space_.candidates.push_back(candidate);
      space_.candidates.back().keys = joined(candidate.keys, way);
    }
  }

  const std::vector<std::string>& request_;
  Stage stage_;
  std::vector<Keys> remats_;
  std::vector<Pass> passes_;
  Space space_;
};

}  // namespace

std::vector<std::string> filled(std::vector<std::string> request) {
  const std::vector<std::string> with_data = joined(request, {"ici_data_parallelism=-1"});
  const bool is_given = std::any_of(request.begin(), request.end(), [](const std::string& word) { return word.starts_with("ici_data_"); });
  return !is_given && !opened(request) && opened(with_data) ? with_data : request;
}

namespace {

// Whether a search chooses the key if the request leaves it open, or lays out stages, which it never does.
bool is_chosen(std::string_view key) {
  static constexpr std::string_view kChosen[] = {"custom_mesh_and_rule",
                                                 "mesh_axes",
                                                 "logical_axis_rules",
                                                 "remat_policy",
                                                 "shard_optimizer_over_data",
                                                 "use_ring_of_experts",
                                                 "use_ragged_sort",
                                                 "moe_dispatch_no_expert_sharding",
                                                 "gradient_accumulation_steps",
                                                 "reduce_gradients",
                                                 "per_device_batch_size",
                                                 "pipeline_parallel_layers",
                                                 "num_pipeline_microbatches",
                                                 "num_layers_per_pipeline_stage"};
  return mesh::sizes_axis(key) || std::find(std::begin(kChosen), std::end(kChosen), key) != std::end(kChosen);
}

}  // namespace

Job taken_apart(const Keys& translated) {
  Job job;
  double rows = 1;
  for (const std::string& word : translated) {
    const std::string key = word.substr(0, word.find('='));
    (is_chosen(key) ? job.layout : job.open).push_back(word);
    if (key == "per_device_batch_size" || key == "gradient_accumulation_steps") rows *= parse_real(word.substr(key.size() + 1)).value_or(1);
  }
  job.open.push_back(config::batch_key(rows));
  return job;
}

Space space_of(const std::vector<std::string>& request, Stage stage) { return SpaceOf(request, stage).made(); }

std::vector<Candidate> variants_of(const Candidate& candidate, const std::vector<std::string>& request) {
  const std::optional<Session> session = opened(joined(request, candidate.keys));
  if (!session) return {};
  const config::Settings& settings = session->loaded.settings;
  std::vector<Candidate> variants;
  const auto add = [&](const config::Keys& keys) {
    // Rules that are added leave those of the request in place.
    const auto is_asked_for = [&](const std::string& key) {
      return !key.starts_with("logical_axis_rules=") && !is_open(settings, key.substr(0, key.find('=')));
    };
    if (keys.empty() || std::any_of(keys.begin(), keys.end(), is_asked_for)) return;
    variants.push_back(candidate);
    variants.back().keys.insert(variants.back().keys.end(), keys.begin(), keys.end());
    variants.back().state_bytes = 0;  // moments may take less
  };
  if (session->shape.is_moe() && session->shape.moe.strategy == config::MoeStrategy::sparse) {
    add({"num_moe_token_chunks=2"});
    add({"num_moe_token_chunks=4"});
    if (!session->decodes && session->shape.block == config::Block::deepseek) add(advice::in_turns(session->layout, 2));
  }
  if (session->mesh.size_of("data") > 1) add({"shard_optimizer_over_data=true"});
  if (candidate.remats.size() > 1) {
    variants.push_back(candidate);
    variants.back().remats = {{fmt::format("remat_policy={}", kOtherRemat)}};
  }
  return variants;
}

std::vector<std::string> never_tried(Stage stage, bool has_open_batch) {
  std::vector<std::string> never{"pipeline stages", "tensor beside tensor_sequence",
                                 "other dropping of tokens than the request's: capacity_factor, ragged_buffer_factor",
                                 "dense experts, which compute every expert on every token"};
  if (has_open_batch)
    never.insert(never.end(), {fmt::format("more than {} a device at a time", counted(static_cast<std::int64_t>(most_rows(stage)), "row")),
                               "of batches between powers of two any but the largest that fits"});
  if (stage)
    never.insert(never.end(), {"other rules for the KV cache than those of the rule sets and its rows over the axes of the batch",
                               "other dtypes than the request's"});
  else
    never.insert(never.end(), {"remat_policy=custom and offloading", "other dtypes and quantization than the request's"});
  return never;
}

}  // namespace moesh::search
