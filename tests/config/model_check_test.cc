// What a family's layers cannot be.
#include "config/model_check.h"

#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"
#include "config/model_facts.h"
#include "config/model_shape.h"
#include "tests/config/family_presets.h"
#include "tests/support.h"

namespace moesh::config {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// MaxText stacks layers / interval layers of these, and leaves out the others.
const std::set<std::string> kAlike{"default",   "llama2",           "mistral", "mixtral", "qwen2", "qwen3",
                                   "qwen3_moe", "qwen3_custom_moe", "gpt3",    "gemma",   "gemma2"};

TEST(ModelCheck, AnIntervalIsRefusedOfLayersThatAreAlike) {
  for (const auto& [block, preset] : test::kPresetOfBlock) {
    const std::string request = test::request_of(preset) + "base_num_decoder_layers=24 ";
    const auto refusal = [&](const std::string& words) {
      return test::message_of([&] { model_shape(load(test::words_of(request + words)).settings); });
    };
    const std::string message = refusal("inhomogeneous_layer_cycle_interval=2");
    const bool is_refused = message.find("inhomogeneous_layer_cycle_interval=2 is no part of") != std::string::npos;
    EXPECT_EQ(is_refused, kAlike.contains(block)) << block << message;
    if (!is_refused) continue;
    EXPECT_EQ(message, "the command line: inhomogeneous_layer_cycle_interval=2 is no part of decoder_block=" + block +
                           ": MaxText would build 12 of its 24 layers\n  fix: inhomogeneous_layer_cycle_interval=1");
    EXPECT_EQ(refusal("inhomogeneous_layer_cycle_interval=2 scan_layers=false"), "no error")
        << block << ": layers one by one have no interval";
    EXPECT_EQ(refusal("inhomogeneous_layer_cycle_interval=1"), "no error") << block;
  }
  EXPECT_THAT(test::message_of([] {
                model_shape(load({"model_name=llama2-7b", "inhomogeneous_layer_cycle_interval=5"}).settings);
              }),
              HasSubstr("MaxText would build 6 of its 32 layers"));
}

// As in MaxText, which stacks their dense layers and their MoE layers one by one.
TEST(ModelCheck, AnIntervalIsIgnoredOfDeepseeksLayers) {
  const std::string request = "model_name=deepseek3-tiny override_model_config=true base_num_decoder_layers=5 first_num_dense_layers=1 ";
  const Loaded loaded = load(test::words_of(request + "inhomogeneous_layer_cycle_interval=2"));
  EXPECT_EQ(model_facts(loaded.settings), model_facts(load(test::words_of(request)).settings));
  EXPECT_EQ(model_shape(loaded.settings).layers_per_cycle(), 1);
  EXPECT_THAT(loaded.notices, Contains(HasSubstr("inhomogeneous_layer_cycle_interval (only with ")));
}

}  // namespace
}  // namespace moesh::config
