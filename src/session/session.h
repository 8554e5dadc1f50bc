// A session: a request that is read, checked, and turned into a graph and a layout. Commands, tests and benches start from it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/batch_sizes.h"
#include "config/engine.h"
#include "config/load.h"
#include "config/model_shape.h"
#include "config/support.h"
#include "graph/graph.h"
#include "mesh/mesh.h"
#include "models/model.h"
#include "partition/lay_out.h"
#include "sharding/layout.h"

namespace moesh::session {

struct Session {
  config::Loaded loaded;
  config::ModelShape shape;
  mesh::Topology target;
  mesh::Mesh mesh;
  config::BatchSizes batch;
  graph::Graph graph;
  sharding::Layout layout;
  config::Engine engine = {};
  std::optional<models::DecodeShape> decodes = {};  // set if graph and layout are those of decoding, not of training
};

// The same session of another program's request. Such a program loads the rows that it trains on, MaxText a whole one for each device.
Session run_by(const config::Engine& engine, Session session);

using partition::Evenness;

// What a step of decoding takes: a new token of each row, or a prompt of each.
enum class DecodeStage { token, prompt };

// The option of commands that plans it.
constexpr std::string_view option_of(DecodeStage stage) { return stage == DecodeStage::token ? "--decode" : "--prefill"; }

// `request`: FILE.yml and key=value. Notices go to the log.
Session open(const std::vector<std::string>& request, Evenness evenness = Evenness::demanded);

// The same for a run: before anything starts, refuses a request that can be laid out but not run.
Session open_to_run(const std::vector<std::string>& request, config::Run run);

// The model of a run that never trains it, with neither graph nor layout; nothing of a training step is built or checked.
Session open_model(const std::vector<std::string>& request);

// The same for decoding per_device_batch_size rows for each device; nothing of a training step is built or checked.
Session open_to_decode(const std::vector<std::string>& request, DecodeStage stage, Evenness evenness = Evenness::demanded);

// A prompt has max_prefill_predict_length tokens, and the KV cache has room for max_target_length of each row.
models::DecodeShape decode_shape(const config::Settings& settings, DecodeStage stage);

// The session's model, decoding that many rows. If another number of rows could be laid out, a refusal names it.
Session decoding(Session session, std::int64_t rows, const models::DecodeShape& shape, Evenness evenness = Evenness::demanded);

// The number of shards of the expert dim of activations: what expert parallelism means under the request's rules.
std::int64_t expert_shards(const config::Settings& settings, const mesh::Mesh& mesh);

// A request for the session's model on `rows` rows.
models::ModelRequest model_request(const Session& session, std::int64_t rows);

// The session's model on the batches of an evaluation.
struct Evaluated {
  config::BatchSizes batch;
  graph::Graph graph;
  sharding::Layout layout;
};
Evaluated evaluated(const Session& session);

// "fsdp=2 x expert=4, default rules"
std::string layout_words(const Session& session);

// "mixtral-8x7b on v6e-8: 8 devices as fsdp=2 x expert=4, default rules"
std::string headline(const Session& session);
std::string title(const Session& session);  // "mixtral-8x7b on v6e-8"

}  // namespace moesh::session
