// A model in training: what it refuses, and that its state is what the layout says.
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support.h"
#include "train/trainer.h"

namespace moesh::train {
namespace {

using test::message_of;

const std::string kTiny =
    "base_num_decoder_layers=1 base_emb_dim=16 base_mlp_dim=32 base_num_query_heads=2 base_num_kv_heads=2 head_dim=8 "
    "vocab_size=256 max_target_length=16 per_device_batch_size=1 compile_topology=cpu-1 ";

TEST(Trainer, TakesOnlyParametersOfTheModel) {
  const cli::Session session = test::session(kTiny);
  run::Workers workers(1);
  Trainer trainer(session.graph, session.loaded.settings, workers);
  run::Pool& pool = trainer.pool();
  EXPECT_EQ(
      message_of([&] { trainer.set_parameter("decoder/decoder_norm/scale", pool.allocate({4}, DType::float32)); }),
      "decoder/decoder_norm/scale: shape [4], [16] was expected");
  EXPECT_EQ(message_of([&] { trainer.set_parameter("elsewhere", pool.allocate({4}, DType::float32)); }),
            "elsewhere: the model has no such parameter");
}

TEST(TrainedParameters, KeepTheMomentsThatTheLayoutShows) {
  for (const std::string optimizer : {"adamw", "adam_pax", "sgd", "muon"}) {
    SCOPED_TRACE(optimizer);
    const cli::Session session =
        test::session("model_name=deepseek3-tiny compile_topology=cpu-1 opt_type=" + optimizer);
    std::multiset<std::string> kept;
    for (const Trained& trained : trained_parameters(session.graph, session.loaded.settings)) {
      if (trained.moments > 0) kept.insert("mu/" + trained.path);
      if (trained.moments > 1) kept.insert("nu/" + trained.path);
    }
    std::multiset<std::string> shown;
    for (const sharding::LaidTensor& moment : session.layout.moments) shown.insert(moment.path);
    EXPECT_EQ(shown, kept);
  }
}

}  // namespace
}  // namespace moesh::train
