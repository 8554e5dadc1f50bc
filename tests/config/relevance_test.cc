// Notices about keys that the chosen model or run does not have: each such key gets a notice, and no other key does.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/builtin.h"
#include "config/load.h"
#include "config/relevance.h"
#include "tests/config/observed.h"
#include "tests/config/small_models.h"
#include "tests/paths.h"
#include "tests/support.h"

namespace moesh::config {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> notices(const std::string& request) { return load(test::words_of(request)).notices; }

TEST(Relevance, IsSaidInOneNoticeOfAllKeysThatTheModelLacks) {
  EXPECT_THAT(
      notices("model_name=mixtral-8x7b override_model_config=true attention_type=mla sliding_window_size=8 "
              "shared_experts=1 "
              "first_num_dense_layers=1 q_lora_rank=4 routed_bias_update_rate=0.1 capacity_factor=1.5"),
      ElementsAre(
          "without effect on this model or run: first_num_dense_layers (only with decoder_block=deepseek); "
          "routed_bias_update_rate (only with decoder_block=deepseek or deepseek4); shared_experts (only with decoder_block=deepseek, "
          "deepseek4, qwen2_moe or llama4, or gemma4 with experts); sliding_window_size (only with decoder_block=gpt_oss, olmo3, gemma2, "
          "gemma3, gemma4 or deepseek4, or layer_attention); "
          "capacity_factor (only with sparse_matmul=false); attention_type (only with global, mla of "
          "decoder_block=deepseek, or compressed); q_lora_rank (only with attention_type=mla of decoder_block=deepseek, or compressed)"));
}

TEST(Relevance, IsSaidOfAWidthThatExpertsDoNotHave) {
  const std::string mixtral = "decoder_block=mixtral num_experts=4 num_experts_per_tok=2 base_mlp_dim=512 base_moe_mlp_dim=";
  EXPECT_THAT(notices(mixtral + "512"), IsEmpty()) << "both have to be equal";
  EXPECT_THAT(
      notices(mixtral + "256 first_num_dense_layers=1"),
      ElementsAre("without effect on this model or run: first_num_dense_layers (only with decoder_block=deepseek); base_moe_mlp_dim "
                  "(only with another decoder_block than gpt_oss or mixtral, whose experts have base_mlp_dim)"));
}

TEST(Relevance, IsSaidOfGroupsOfExpertsThatNoTokenHeeds) {
  const std::string sizes = "override_model_config=true num_experts=8 n_routing_groups=4 topk_routing_group=2";
  EXPECT_THAT(
      notices("model_name=deepseek2-16b " + sizes),
      ElementsAre("without effect on this model or run: n_routing_groups, topk_routing_group (only with models named "
                  "deepseek3..., decoder_block=deepseek4, or routing_group_score)"));
  EXPECT_THAT(notices("model_name=deepseek3-tiny " + sizes), IsEmpty());
}

TEST(Relevance, IsNotSaidOfATokenizerThatOnlyEvaluationsNeed) {
  const std::string ids = "dataset_type=jsonl dataset_path=a tokenize_train_data=false tokenizer_path=b add_bos=false ";
  EXPECT_THAT(notices(ids), Contains(HasSubstr("add_bos (only with tokenizer_path")));
  EXPECT_THAT(notices(ids + "eval_interval=1 eval_dataset_path=c"), IsEmpty());
  EXPECT_THAT(notices(ids + "eval_interval=1 eval_dataset_path=c tokenize_eval_data=false"), Contains(HasSubstr("add_bos (only with")));
}

TEST(Relevance, IsNotSaidOfWhatIsRefusedWithTheData) {
  for (const std::string kind : {"text", "tokens"}) EXPECT_THAT(notices("packing=false dataset_path=a dataset_type=" + kind), IsEmpty()) << kind;
  EXPECT_THAT(notices("max_segments_per_seq=3 dataset_path=a dataset_type=jsonl"), IsEmpty());
  EXPECT_THAT(notices("packing=false dataset_type=synthetic"), Contains(HasSubstr("packing (only with")));
  EXPECT_THAT(notices("max_segments_per_seq=3 packing=false dataset_path=a dataset_type=jsonl"), Contains(HasSubstr("max_segments_per_seq (only with")));
}

TEST(Relevance, IsSaidOfTrainingAndDataToo) {
  EXPECT_THAT(
      notices("muon_beta=0.5 wsd_decay_style=cosine query_proj=device dataset_type=synthetic dataset_path=a"),
      ElementsAre(
          "without effect on this model or run: query_proj (only with remat_policy=custom); wsd_decay_style (only "
          "with lr_schedule_type=wsd); muon_beta (only with opt_type=muon); dataset_path (only with "
          "dataset_type=text, jsonl, tokens or megatron)"));
}

TEST(Relevance, IsSaidOfWhatAFileOrTheEnvironmentSets) {
  const test::TemporaryFolder folder;
  EXPECT_THAT(notices(folder.write("a.yml", "shared_experts: 1\n")), Contains(HasSubstr("shared_experts")));
  const test::Variable variable("M_SHARED_EXPERTS", "2");
  EXPECT_THAT(notices(""), Contains(HasSubstr("shared_experts")));
}

TEST(Relevance, IsNotSaidOfADefault) {
  EXPECT_THAT(notices("shared_experts=0 capacity_factor=-1 dataset_path="), IsEmpty());
}

// Presets serve many requests, and a copy of the built-in base file does not express a wish of the user.
TEST(Relevance, IsNotSaidOfWhatComesWithMoesh) {
  for (const std::string& model : builtin_names("models"))
    EXPECT_THAT(notices("model_name=" + model), IsEmpty()) << model;
  for (const std::string& rules : builtin_names("rules"))
    EXPECT_THAT(notices("custom_mesh_and_rule=" + rules), IsEmpty()) << rules;
  const test::WorkingFolder here(test::source_folder());
  EXPECT_THAT(notices("configs/base.yml"), IsEmpty());
  EXPECT_THAT(notices("configs/first.yml"), IsEmpty());
  EXPECT_THAT(notices("configs/first.yml data_sharding=[data]"), Contains(HasSubstr("data_sharding")));
}

TEST(Relevance, NeedsOnlyKeysThatAreUsed) {
  for (const Need& need : needs()) {
    for (const std::string_view name : need.keys) {
      const Key* key = find_key(name);
      ASSERT_NE(key, nullptr) << name;
      EXPECT_EQ(key->status, Status::used) << name;
    }
  }
}

// Values of the key other than the one that the request has.
std::vector<std::string> other_values(const Key& key, const Settings& settings) {
  std::vector<std::string> values;
  switch (key.kind) {
    case Kind::boolean: values = {"true", "false"}; break;
    case Kind::choice:
      for (const Choice& choice : choices(key)) {
        if (!choice.refused) values.emplace_back(choice.word);
      }
      break;
    case Kind::integer: values = {std::to_string(std::max<std::int64_t>(2, 2 * settings.integer(key.name)))}; break;
    case Kind::real: values = {"0.5", "2"}; break;
    case Kind::texts: values = {"[gelu,linear]"}; break;
    default: break;
  }
  std::erase_if(values, [&](const std::string& value) {
    Value read;
    const std::string error = test::message_of([&] { read = read_value(key, value, "here"); });
    return error != "no error" || read == settings.value(key.name);
  });
  return values;
}

const std::set<std::string_view> kTopicsOfModels{
    "Attention",   "Multi-head latent attention", "Indexer of latent attention", "Linear attention", "Rotary positions",
    "Model shape", "Number formats",              "Experts",                     "Routing",          "Reaching the experts",
    "Rematerialisation"};

// Changes without an effect that need no notice, and the reason.
const std::map<std::string, std::string> kQuiet{
    {"attention=flash", "what autoselected chooses"},
    {"attention=cudnn_flash_te", "flash by another name, which a notice of its own says"},
    {"attention=cudnn_flash_jax", "flash by another name, which a notice of its own says"},
    {"decoder_block=mistral", "llama2 by another name"},
    {"decoder_block=qwen2", "llama2 by another name: its biases are a key of their own"},
    {"decoder_block=llama2", "mistral by another name"},
    {"decoder_block=qwen3_5", "qwen3_next by another name, which a notice of its own says"},
    {"context_parallel_load_balance=false", "the context lies on one device"},
    {"routed_weights=softmax", "what families do by themselves, but deepseek"},
    {"routed_weights=scores", "what deepseek2 does by itself"},
    {"routed_weights=normalized", "what deepseek3 does by itself"},
    {"routing_group_score=best", "there are no groups"},
    {"routing_group_score=best_two", "there are no groups"},
    {"remat_policy=custom", "keeps what is named, and nothing is"},
    {"remat_policy=full", "the same"},
    {"remat_gradients=false", "these weights are small beside their tokens"},
    {"decoder_layer_input=remat", "a layer's input is never made again"},
    {"decoder_layer_input=offload", "these machines' memory is the host's"},
    {"remat_policy=save_out_proj", "the default block's backward pass does not read it, as attention and MLP stand side by side"},
    {"max_position_embeddings=327680", "above the original length, only that it is"},
};

bool is_named(const std::vector<std::string>& notices, std::string_view key) {
  return std::any_of(notices.begin(), notices.end(), [&](const std::string& notice) {
    if (notice.starts_with(key) && notice.find(" is deprecated: ") != std::string::npos) return true;
    if (!notice.starts_with("without effect on this model or run: ")) return false;
    for (const char* before : {": ", ", ", "; "}) {
      for (const char* after : {",", " ("}) {
        if (notice.find(before + std::string(key) + after) != std::string::npos) return true;
      }
    }
    return false;
  });
}

// What a change of one key does to a request: it is refused, said to have no effect, shown to have one, or silently does nothing.
enum class Outcome { refused, told, shown, silent };

Outcome outcome_of(const std::string& request, const Key& key, const std::string& change) {
  Outcome outcome = Outcome::refused;
  test::message_of([&] {
    const bool is_told = is_named(test::session(request + change).loaded.notices, key.name);
    outcome = is_told                                             ? Outcome::told
              : test::differ_as_models(request, request + change) ? Outcome::shown
                                                                  : Outcome::silent;
  });
  return outcome;
}

// The experts are sharded over two devices, so that the way in which tokens reach them can matter.
const std::string kSpread =
    "compile_topology=cpu-2 per_device_batch_size=1 ici_fsdp_parallelism=1 ici_expert_parallelism=2 ";

const std::vector<std::pair<std::string, std::string>> kFamilies{
    {"llama2", test::kLlama},
    {"qwen3", test::kQwen},
    {"qwen3_moe", test::kSparse + "decoder_block=qwen3_moe " + kSpread},
    {"mixtral, sparse", test::kSparse + kSpread},
    {"mixtral, ring", test::kRing + kSpread},
    {"mixtral, dense", test::kDense},
    {"mixtral, dense, experts narrower than the model", test::kDense + "base_emb_dim=48 "},
    {"mixtral, dense, experts wider than the model by its scale", test::kDense + "base_emb_dim=32 global_parameter_scale=2 "},
    {"mixtral, slots", test::kSlots + kSpread},
    {"gpt_oss", test::kGptOss + kSpread},
    {"deepseek3", test::kDeepseek + kSpread},
    {"deepseek3, yarn, remat", test::kYarn + "remat_policy=custom " + kSpread},
    {"deepseek2", test::kDeepseek + "model_name=deepseek2-16b " + kSpread},
    {"deepseek without mla", test::kDeepseek + "attention_type=global " + kSpread},
    {"deepseek3, streams", test::kStreams + kSpread},
    {"deepseek3, permuted streams", test::kStreams + "enable_mhc_lite=true " + kSpread},
    {"llama4", test::kLlama4 + kSpread},
    {"gemma2", test::kGemma2},
    {"gemma3", test::kGemma3},
    {"gemma4", test::kGemma4},
    {"gemma4, experts", test::kGemma4Moe + kSpread},
    {"gpt3", test::kGpt3},
    {"olmo3", test::kOlmo3},
    {"default", test::kDefault},
    {"envy", test::kEnvy + kSpread},
    {"qwen3_next", test::kQwenNext + kSpread},
    {"qwen3_custom_moe", test::kQwenCustom + kSpread},
    {"qwen3_custom_moe, dense, experts narrower than the model but wider than their input",
     test::kQwenCustom + "sparse_matmul=false base_emb_dim=32 attention_output_dim=12 moe_expert_input_dim=12 "},
    {"llama2, named", test::kLlama + "remat_policy=custom "},
    {"mixtral, named", test::kSparse + "remat_policy=custom " + kSpread},
    {"mixtral dense, named", test::kDense + "remat_policy=custom "},
    {"gemma2, named", test::kGemma2 + "remat_policy=custom "},
    {"gpt3, named", test::kGpt3 + "remat_policy=custom "},
    {"olmo3, named", test::kOlmo3 + "remat_policy=custom "},
    {"default, named", test::kDefault + "remat_policy=custom "},
};

// All changes that are said to have no effect are tried together at the end, but for one beside which others have an effect.
const std::string kLetsOthersCount = "bias_and_norm_anywhere";

void look_at(const std::string& family, const std::string& request) {
  const Settings settings = load(test::words_of(request)).settings;
  std::string told;
  for (const Topic& topic : topics()) {
    if (!kTopicsOfModels.contains(topic.title)) continue;
    for (const Key& key : topic.keys) {
      if (key.status != Status::used) continue;
      for (const std::string& value : other_values(key, settings)) {
        const std::string change = std::string(key.name) + "=" + value + " ";
        if (kQuiet.contains(std::string(trim(change)))) continue;
        const Outcome outcome = outcome_of(request, key, change);
        EXPECT_NE(outcome, Outcome::silent) << change << "has no effect on " << family << ", and nothing is said of it";
        if (outcome != Outcome::told) continue;
        if (key.name != kLetsOthersCount) told += change;
        else EXPECT_FALSE(test::differ_as_models(request, request + change)) << change << "has an effect on " << family;
      }
    }
  }
  EXPECT_NE(told, "");
  EXPECT_FALSE(test::differ_as_models(request, request + told))
      << "one of these has an effect on " << family << ": " << told;
}

TEST(RelevanceSlow, IsSaidOfEveryKeyOfAModelThatHasNoEffectAndOfNoOther) {
  for (const auto& [family, request] : kFamilies) look_at(family, request);
}

}  // namespace
}  // namespace moesh::config
