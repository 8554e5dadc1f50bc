#include "session/session.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/error.h"
#include "base/log.h"
#include "base/rounding.h"
#include "base/text.h"
#include "config/batch_words.h"
#include "config/relevance.h"
#include "config/rule_sources.h"
#include "mesh/context_order.h"
#include "nn/moe/experts.h"
#include "session/reopen.h"

namespace moesh::session {
namespace {

std::string mesh_words(const mesh::Mesh& mesh) {
  std::vector<std::string> words;
  for (const mesh::Axis& axis : mesh.axes()) {
    if (axis.size() == 1) continue;
    words.push_back(axis.dcn > 1 ? fmt::format("{}={} ({} slices x {})", axis.name, axis.size(), axis.dcn, axis.ici)
                                 : fmt::format("{}={}", axis.name, axis.size()));
  }
  return words.empty() ? "one device" : join(words, " x ");
}

config::Loaded told(config::Loaded loaded) {
  for (const std::string& notice : loaded.notices) log_notice(notice);
  return loaded;
}

// A session whose graph and layout are still empty.
Session without_graph(config::Loaded loaded) {
  const config::Settings& settings = loaded.settings;
  config::ModelShape shape = config::model_shape(settings);
  mesh::Topology target = mesh::target_of(settings);
  mesh::Mesh mesh = mesh::build_mesh(settings, target);
  const config::BatchSizes batch = config::batch_sizes(settings, mesh.devices());
  sharding::Layout layout = partition::empty_layout(settings, mesh);
  return {std::move(loaded), std::move(shape), std::move(target), std::move(mesh), batch, {}, std::move(layout)};
}

Session session_of(config::Loaded loaded, Evenness evenness) {
  Session session = without_graph(std::move(loaded));
  session.graph = models::build_model(model_request(session, session.batch.micro_rows));
  session.layout = partition::lay_out(session.graph, {session.loaded.settings, session.mesh, session.batch, evenness});
  return session;
}

// The products of decoding are not rounded.
void check_decoding(const config::Settings& settings) {
  if (settings.text("quantization").empty()) return;
  refuse(fmt::format("quantization={}: products in low precision are planned for training steps only", settings.text("quantization")),
         settings.origin("quantization").where, "leave quantization at ''");
}

void lay_out_decoding(Session& session, std::int64_t rows, const models::DecodeShape& shape, Evenness evenness = Evenness::demanded) {
  session.graph = models::build_decode_model(model_request(session, rows), shape);
  session.layout = partition::lay_out_decoding(session.graph, session.loaded.settings, session.mesh, evenness);
}

// The fewest rows, more than these, that can be laid out, up to a row for each device; 0 if none can.
std::int64_t rows_that_divide(Session session, std::int64_t rows, const models::DecodeShape& shape) {
  const std::int64_t devices = session.mesh.devices();
  std::int64_t tried = rows;
  for (std::int64_t parts = 2; parts <= devices; ++parts) {
    const std::int64_t more = round_up(rows, parts);
    if (devices % parts != 0 || more <= tried) continue;
    try {
      lay_out_decoding(session, tried = more, shape);
      return more;
    } catch (const Error&) {
      continue;
    }
  }
  return 0;
}

// Whether tokens are sharded over an axis that shards experts, so that devices have tokens to exchange.
bool exchanges_tokens(const Session& session) {
  const std::vector<config::AxisRule>& rules = session.loaded.settings.rules("logical_axis_rules");
  const char* batch = session.batch.micro_rows > 1 ? labels::activation_batch : labels::decode_batch_moe;
  const auto axes_of = [&](const Labels& of) { return sharding::distinct_axes(sharding::resolve_spec(of, rules, session.mesh)); };
  const sharding::AxisList tokens = axes_of({batch, labels::activation_norm_length});
  for (const sharding::AxisIndex axis : axes_of({nn::expert_label(session.loaded.settings)})) {
    if (session.mesh.axis(axis).size() > 1 && sharding::holds(tokens, axis)) return true;
  }
  return false;
}

// Notes settings of the token exchange that have no effect because every device has all experts. The reference refuses them in that case.
void note_idle_exchange(const Session& session) {
  const config::Settings& settings = session.loaded.settings;
  if (session.shape.moe.strategy != config::MoeStrategy::sparse || !session.shape.is_moe()) return;
  const auto is_sharded = [&](const char* label) {
    return sharding::shards(sharding::resolve_spec({label}, settings.rules("logical_axis_rules"), session.mesh), session.mesh) > 1;
  };
  const bool has_shards = is_sharded(nn::expert_label(settings));
  if (has_shards || is_sharded(labels::activation_exp)) {
    if (has_shards && !exchanges_tokens(session) && settings.is_by_user("use_ring_of_experts") &&
        settings.boolean("use_ring_of_experts"))
      log_notice("without effect on this mesh: use_ring_of_experts (devices with different experts have the same tokens here)");
    return;
  }
  const double factor = settings.real("ragged_buffer_factor");
  if (settings.boolean("use_ring_of_experts") && factor > 0 && factor < 1) return;  // then a ring of one device drops rows
  std::vector<std::string> keys;
  for (const char* key : {"use_ring_of_experts", "ragged_buffer_factor"}) {
    if (settings.is_by_user(key) && !settings.is_default(key)) keys.emplace_back(key);
  }
  if (!keys.empty()) log_notice(fmt::format("without effect on this mesh: {} (only with experts on several devices)", join(keys, ", ")));
}

void note_one_part(const Session& session) {
  const config::Settings& settings = session.loaded.settings;
  const bool is_one = settings.boolean("use_batch_split_schedule") && session.shape.batch_parts == 1;
  if (is_one && session.shape.is_moe() && !session.decodes)
    log_notice("batch_split_factor=1: the batch is one part, and nothing takes turns (MaxText needs batch_split_factor=2)");
}

void note_idle_precision(const Session& session) {
  const config::Settings& settings = session.loaded.settings;
  const bool is_said = !config::unmet_need(settings, "matmul_precision").empty();
  if (is_said || settings.is_default("matmul_precision") || session.target.chip.has_rate_by_precision()) return;
  log_notice(fmt::format("without effect on {}: matmul_precision (products of float32 have one rate there)", session.target.name));
}

// A user's hardware file may leave the rate out.
void note_missing_rate(const Session& session) {
  const mesh::Chip& chip = session.target.chip;
  if (chip.bf16_flops_per_second || chip.is_shared_machine() || session.loaded.settings.text("dtype") != "bfloat16") return;
  log_notice(fmt::format("{} has no bf16_flops_per_second: products in bfloat16 are timed at its rate of float32", session.target.name));
}

Session noted(Session session) {
  note_idle_exchange(session);
  note_one_part(session);
  note_missing_rate(session);
  note_idle_precision(session);
  if (!session.decodes) mesh::note_balance(session.loaded.settings, session.mesh);
  return session;
}

// The rows that the settings ask for.
Session decoding(Session session, DecodeStage stage, Evenness evenness) {
  const std::int64_t rows = session.batch.micro_rows;
  const models::DecodeShape shape = decode_shape(session.loaded.settings, stage);
  return session::decoding(std::move(session), rows, shape, evenness);
}

}  // namespace

std::int64_t expert_shards(const config::Settings& settings, const mesh::Mesh& mesh) {
  const sharding::Spec spec =
      sharding::resolve_spec({labels::activation_exp}, settings.rules("logical_axis_rules"), mesh);
  return sharding::shards(spec, mesh);
}

Session open(const std::vector<std::string>& request, Evenness evenness) {
  return noted(session_of(told(config::load(request)), evenness));
}

Session run_by(const config::Engine& engine, Session session) {
  session.engine = engine;
  if (!engine.is_xla()) session.batch.rows_to_load = session.batch.rows_to_train;
  return session;
}

Session reopen(const std::vector<std::string>& request, Evenness evenness, std::optional<DecodeStage> stage) {
  if (!stage) return session_of(config::load(request), evenness);
  return decoding(without_graph(config::load(request)), *stage, evenness);
}

Session open_to_run(const std::vector<std::string>& request, config::Run run) {
  config::Loaded loaded = config::load(request);
  config::check_run(loaded.settings, run);
  return noted(session_of(told(std::move(loaded)), Evenness::demanded));
}

Session open_model(const std::vector<std::string>& request) {
  config::Loaded loaded = config::load(request);
  config::check_run(loaded.settings, config::Run::texts);
  Session session = without_graph(told(std::move(loaded)));
  note_idle_exchange(session);
  return session;
}

Session open_to_decode(const std::vector<std::string>& request, DecodeStage stage, Evenness evenness) {
  return noted(decoding(without_graph(told(config::load(request))), stage, evenness));
}

models::DecodeShape decode_shape(const config::Settings& settings, DecodeStage stage) {
  const std::int64_t slots = settings.integer("max_target_length");
  const char* key = "max_prefill_predict_length";
  const std::int64_t prompt = settings.integer(key);
  models::DecodeShape shape{1, slots};
  shape.most_new_tokens = std::max(shape.most_new_tokens, std::min(prompt, slots));
  if (stage == DecodeStage::token) return shape;
  if (prompt > slots && settings.is_by_user(key)) {
    refuse(fmt::format("{}={}, and the KV cache has room for {}", key, prompt, counted(slots, "token")), settings.origin(key).where,
           fmt::format("max_target_length={} or more, or a shorter prompt", prompt));
  }
  shape.new_tokens = std::min(prompt, slots);
  return shape;
}

Session decoding(Session session, std::int64_t rows, const models::DecodeShape& shape, Evenness evenness) {
  check_decoding(session.loaded.settings);
  try {
    lay_out_decoding(session, rows, shape, evenness);
  } catch (const Error& error) {
    const std::int64_t more = rows_that_divide(session, rows, shape);
    if (error.parts().fault != Fault::bad_request || more == 0) throw;
    refuse(error.parts().what, error.parts().where,
           fmt::format("{} for {}, or a layout whose batch lies on fewer devices",
                       config::batch_key(config::rows_a_device(more, session.mesh.devices())), counted(more, "row")));
  }
  session.batch = {rows, rows, rows};
  session.decodes = shape;
  return session;
}

models::ModelRequest model_request(const Session& session, std::int64_t rows) {
  const config::Settings& settings = session.loaded.settings;
  return {settings, session.shape, rows, expert_shards(settings, session.mesh), &session.mesh};
}

Evaluated evaluated(const Session& session) {
  const config::Settings& settings = session.loaded.settings;
  const config::BatchSizes batch = config::evaluation_sizes(settings, session.mesh.devices());
  graph::Graph graph = models::build_model(model_request(session, batch.micro_rows));
  sharding::Layout layout = partition::lay_out(graph, {settings, session.mesh, batch});
  return {batch, std::move(graph), std::move(layout)};
}

std::string layout_words(const Session& session) {
  return fmt::format("{}, {}", mesh_words(session.mesh), config::rules_words(session.loaded.settings));
}

std::string title(const Session& session) { return fmt::format("{} on {}", session.shape.name, session.target.name); }

std::string headline(const Session& session) {
  return fmt::format("{}: {} as {}", title(session), counted(session.mesh.devices(), "device"),
                     layout_words(session));
}

}  // namespace moesh::session
