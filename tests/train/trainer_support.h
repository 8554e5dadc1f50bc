// A small model in training, given by its command line.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "session/session.h"
#include "tests/support.h"
#include "train/batches.h"
#include "train/trainer.h"

namespace moesh::test {

// Two layers of a dense model. Keys that a test appends override these.
inline const std::string kTinyModel =
    "compile_topology=cpu-1 dtype=float32 base_num_decoder_layers=2 base_emb_dim=12 base_num_query_heads=2 "
    "base_num_kv_heads=1 head_dim=6 base_mlp_dim=20 vocab_size=23 per_device_batch_size=2 max_target_length=7 "
    "dataset_type=synthetic steps=20 enable_checkpointing=false ";

// The same with experts in every layer.
inline const std::string kTinyMixtral =
    kTinyModel +
    "model_name=mixtral-8x7b override_model_config=true base_moe_mlp_dim=20 num_experts=5 num_experts_per_tok=2 ";

inline constexpr train::Keep kKeepAll{true, true};

inline std::vector<double> numbers_of(const run::Array& array) {
  return {array.as<float>(), array.as<float>() + array.view.count()};
}

// The numbers of a value that only one device has.
inline std::vector<double> numbers_of(const run::Placed& value) { return numbers_of(value.shards.front()); }

class Training {
 public:
  explicit Training(const std::string& request, int threads = 2, const train::Keep& keep = {})
      : session(test::session(request)),
        workers(threads),
        trainer(train::step_program(session.graph, session.loaded.settings, {session.layout, session.target}, keep),
                session.loaded.settings, workers) {
    initialize(trainer, session.graph, settings().integer("init_weights_seed"), workers);
  }

  const config::Settings& settings() const { return session.loaded.settings; }

  train::Batch batch(std::int64_t step = 0) {
    return train::Batches(settings(), session.batch, session.shape.vocab_size, workers.threads()).at(step, trainer.pool());
  }

  std::vector<std::string> paths() const {
    std::vector<std::string> all;
    for (const train::Trained& trained : trainer.parameters()) all.push_back(trained.path);
    return all;
  }

  std::vector<double> parameter(const std::string& path) const { return numbers_of(trainer.parameter(path)); }

  run::Array array(const Shape& shape, const std::vector<double>& values) {
    run::Array made = trainer.pool().allocate(shape, DType::float32);
    for (std::size_t i = 0; i < values.size(); ++i) made.as<float>()[i] = static_cast<float>(values[i]);
    return made;
  }

  session::Session session;
  backend::Workers workers;
  train::Trainer trainer;
};

// The loss of the second step, which the first one's update makes.
inline double second_loss_of(const std::string& request) {
  Training training(request);
  training.trainer.step(training.batch());
  return training.trainer.run_step(training.batch()).metrics.loss;
}

}  // namespace moesh::test
