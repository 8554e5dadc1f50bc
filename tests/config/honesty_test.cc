// What the table says about a key is true: a feature that is missing is refused, and a key that is accepted
// without effect is read nowhere.
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"
#include "config/support.h"
#include "tests/paths.h"
#include "tests/support.h"

namespace moesh::config {
namespace {

const std::filesystem::path kSources = test::source_folder() / "src";

// The sources without comments and without the key table itself, by their path under src.
std::map<std::string, std::string> read_sources() {
  static const std::regex comment("//[^\n]*");
  std::map<std::string, std::string> sources;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kSources)) {
    const std::string name = entry.path().lexically_relative(kSources).string();
    if (!entry.is_regular_file() || name.starts_with("config/schema")) continue;
    sources[name] = std::regex_replace(test::read_text(entry.path()), comment, "");
  }
  return sources;
}

// The keys that some source reads from the settings by name.
std::set<std::string> keys_read() {
  static const std::regex reading(R"x((\w*)(\.|->)(boolean|integer|real|text|texts|rules|value|is_null)\(\s*"(\w+)")x");
  std::set<std::string> keys;
  for (const auto& [name, code] : read_sources()) {
    for (auto at = std::sregex_iterator(code.begin(), code.end(), reading); at != std::sregex_iterator(); ++at) {
      if ((*at)[1] != "reader") keys.insert((*at)[4]);  // which reads the keys of a config.json
    }
  }
  return keys;
}

template <typename Act>
void for_each_key(Status status, Act act) {
  for (const Topic& topic : topics()) {
    for (const Key& key : topic.keys) {
      if (key.status == status) act(std::string(key.name));
    }
  }
}

// One is read for what is told of XLA's steps alone: advice/fit_test.cc holds that. Of one, only the name is checked.
TEST(Honesty, NoKeyThatIsAcceptedWithoutEffectIsRead) {
  std::set<std::string> read = keys_read();
  for (const char* key : {"use_iota_embed", "custom_mesh_and_rule_for_eval"}) EXPECT_EQ(read.erase(key), 1u) << key;
  EXPECT_GT(read.size(), 100u);
  for_each_key(Status::accepted, [&](const std::string& key) {
    EXPECT_FALSE(read.contains(key)) << key << " is called accepted, but a source reads it";
  });
}

std::string load_refusal(const std::string& request) {
  return test::message_of([&] { check_run(load(test::words_of(request)).settings, Run::training); });
}

// What decode and serve read: of how texts go on, of tokenizers, and nothing of data.
TEST(Honesty, TextsRefuseWhatOfThemIsNotDone) {
  const auto refusal = [](const std::string& request) {
    return test::message_of([&] { check_run(load(test::words_of(request)).settings, Run::texts); });
  };
  for (const char* request : {"multi_sampling=true", "return_log_prob=true", "load_from_prefill_dir=true",
                              "prefill_cache_dir=a", "use_chat_template=true"}) {
    EXPECT_NE(refusal(request).find("asks for what moesh does not do"), std::string::npos) << request;
  }
  EXPECT_EQ(refusal("dataset_type=hf num_epoch=3"), "no error");
  for_each_key(Status::refused, [&](const std::string& name) {
    const Key* key = find_key(name);
    const Topic& topic = topic_of(*key);
    if (!topic.is_of_texts || topic.scope == Scope::plans || key->kind != Kind::boolean) return;
    EXPECT_NE(refusal(name + (key->initial == "true" ? "=false" : "=true")), "no error") << name;
  });
}

// In MaxText each of these changes the numbers of a run, or the files that it writes.
TEST(Honesty, WhatWouldChangeResultsAndIsNotDoneIsRefused) {
  const char* const requests[] = {
      "dropout_rate=0.1",
      "quantization=int4",
      "quantize_kvcache=true",
      "experimental_sa_quant_q_fp8=true",
      "experimental_sa_quant_k_fp8=true",
      "weight_sparsity_n=2",
      "weight_sparsity_m=4",
      "prefuse_moe_weights=true",
      "fuse_expert_scales=true",
      "attention_type=block_diffusion",
      "attention_type=compressed",
      "moba=true",
      "use_untrainable_positional_embedding=true",
      "padded_base_moe_mlp_dim=256",
      "engram_layers=[1]",
      "hidden_size_per_layer_input=8",
      "num_kv_shared_layers=1",
      "use_double_wide_mlp=true",
      "training_objective=block_diffusion",
      "enable_rampup_batch_size=true",
      "use_tunix_gradient_accumulation=true",
      "enable_diloco=true",
      "use_sft=true",
      "use_dpo=true",
      "use_multimodal=true",
      "use_chat_template=true",
      "context_parallel_strategy=ring",
      "dtype=float16",
      "elastic_enabled=true",
  };
  for (const char* request : requests) {
    const std::string message = load_refusal(request);
    const bool refused = message.find("asks for what moesh does not do") != std::string::npos ||
                         message.find("is not supported by moesh") != std::string::npos;
    EXPECT_TRUE(refused) << request << ": " << message;
  }
}

// These affect only speed or memory, or control something that does not exist here.
TEST(Honesty, WhatChangesNoResultIsNoted) {
  const char* const requests[] = {
      "use_iota_embed=true",
      "pipeline_fsdp_ag_once=true",
      "kv_proj=device",
      "log_period=10",
      "profile_periodically_period=3",
      "gcs_metrics=true",
      "debug_sharding=true",
      "enable_dropout=false",
  };
  for (const char* request : requests) {
    const std::string words = request;
    const std::vector<std::string> notices = load({words}).notices;
    ASSERT_EQ(notices.size(), 1u) << words;
    EXPECT_EQ(notices[0], "without effect here (`moesh help KEY` says why): " + words.substr(0, words.find('=')));
  }
}

}  // namespace
}  // namespace moesh::config
