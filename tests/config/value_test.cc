// From text to a checked value, kind by kind.
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "config/settings.h"
#include "config/support.h"
#include "tests/support.h"

namespace moesh::config {
namespace {

using test::message_of;

Value read(const std::string& key, const std::string& text) { return read_value(*find_key(key), text, "here"); }

std::string shown(const std::string& key, const std::string& text) { return to_string(read(key, text)); }

std::string value_refusal(const std::string& key, const std::string& text) {
  return message_of([&] { read(key, text); });
}

std::string refused_value(const std::string& key, const std::string& text, const std::string& expected) {
  return "here: " + key + " is '" + text + "', " + expected + " was expected";
}

TEST(Value, TakesTheUsualWordsForTrueAndFalse) {
  for (const char* word : {"true", "True", "TRUE", "yes", "on", "1"})
    EXPECT_EQ(read("scan_layers", word), Value(true)) << word;
  for (const char* word : {"false", "False", "no", "off", "0"})
    EXPECT_EQ(read("scan_layers", word), Value(false)) << word;
  EXPECT_EQ(read("scan_layers", "'true'"), Value(true));
  for (const char* word : {"maybe", "2", "t", "truе"})
    EXPECT_EQ(value_refusal("scan_layers", word), refused_value("scan_layers", word, "true or false"));
}

// The keys here that may be None by MaxText's types.
constexpr const char* kMayBeNone[] = {
    "attn_logits_soft_cap", "attn_module_name", "checkpoint_conversion_fn", "checkpoint_todelete_full_path",
    "checkpoint_todelete_subdir", "distill_alpha_end", "distill_beta_end", "distill_layer_indices", "distill_temperature_end",
    "experimental_sa_quant_k_fp8", "experimental_sa_quant_q_fp8", "final_logits_soft_cap", "grain_index_storage_option",
    "hf_access_token", "hf_data_dir", "hf_eval_files", "hf_eval_split", "hf_name", "hf_train_files", "image_size_for_vit",
    "jax_cache_dir", "local_sa_block_kv", "local_sa_block_kv_compute", "local_sa_block_kv_dkv", "local_sa_block_kv_dkv_compute",
    "local_sa_block_kv_dq", "local_sa_block_q", "local_sa_block_q_dkv", "local_sa_block_q_dq", "local_sa_fuse_reciprocal",
    "local_sa_k_layout", "local_sa_q_layout", "local_sa_use_base2_exp", "local_sa_use_fused_bwd_kernel", "local_sa_v_layout",
    "local_use_splash_scheduler", "lti_layer_indices", "max_num_batched_tokens", "max_num_checkpoints_to_keep", "max_num_seqs",
    "metrics_file", "multi_tier_checkpointing_backup_interval_minutes", "multi_tier_checkpointing_backup_interval_steps",
    "muon_consistent_rms", "num_diloco_fragments", "offline_data_dir", "padded_base_moe_mlp_dim", "quantization", "remat_policy",
    "remat_policy_for_vit", "sharding_strategy", "stop_strings", "student_params_to_update", "tokenizer_path", "use_grpo",
    "vertex_tensorboard_project", "vertex_tensorboard_region", "video_max_grid_h", "video_max_grid_t", "video_max_grid_w",
    "weight_sparsity_m", "weight_sparsity_n"};

TEST(Value, TakesNullWhereMaxTextDoes) {
  for (const char* name : kMayBeNone) {
    ASSERT_NE(find_key(name), nullptr) << name;
    const Key& key = *find_key(name);
    if (key.kind == Kind::nested) continue;  // kept as it is written, and never read
    const Value none = read(name, "null");
    const bool is_none = none == Value() || none == Value(std::string()) || none == Value(std::vector<std::string>()) ||
                         none == Value(std::vector<std::int64_t>());
    EXPECT_TRUE(is_none || none == read_value(key, key.initial, "the schema")) << name << " " << to_string(none);
    const bool is_empty_a_choice = std::string_view(name) == "remat_policy";
    for (const char* word : {"None", "none", is_empty_a_choice ? "null" : ""}) EXPECT_EQ(read(name, word), none) << name << " " << word;
    for (const char* text : {"null", "~", "None", "none", "'none'", "\"None\""}) {
      const YamlNode file = parse_yaml(std::string(name) + ": " + text + "\n", "f.yml");
      EXPECT_NO_THROW(read_value(key, file.items.at(0))) << name << " " << text;
    }
  }
  for (const char* word : {"null", "None", "none", "~", "'none'"}) EXPECT_EQ(shown("remat_policy", word), "full") << word;
  for (const char* word : {"", "''"}) EXPECT_EQ(shown("remat_policy", word), "''") << word;
}

TEST(Value, TakesIntegersHoweverTheyAreWritten) {
  for (const char* text : {"1000", "+1000", "1_000", "1e3", "1000.0", "1E3"}) {
    EXPECT_EQ(read("steps", text), Value(std::int64_t{1000})) << text;
  }
  EXPECT_EQ(read("steps", "-1"), Value(std::int64_t{-1}));
}

TEST(Value, RefusesWhatIsNoInteger) {
  for (const char* text : {"", "0x10", "1.5", "ten", "nan", "inf", "-inf", "1e30", "9223372036854775808", "--1", "1 2",
                           "1__0", "_1", "1_", "99999999999999999999999999"}) {
    EXPECT_EQ(value_refusal("steps", text), refused_value("steps", text, "an integer")) << text;
  }
}

TEST(Value, RefusesLeadingZeros) {
  for (const char* key : {"steps", "learning_rate", "mrope_section"}) {
    for (const char* text : {"0400", "+0400", "-01", "00", "0_400", "08"}) {
      EXPECT_EQ(value_refusal(key, text), refused_value(key, text, "a number without leading zeros") +
                                              "\n  fix: leave the zeros out, which YAML takes for an octal number: 0400 is 256");
    }
  }
  EXPECT_EQ(read("mrope_section", "[0, 10]"), Value(std::vector<std::int64_t>{0, 10}));
  EXPECT_EQ(read("learning_rate", "0.50"), Value(0.5));
  EXPECT_EQ(read("run_name", "007"), Value(std::string("007"))) << "text";
}

TEST(Value, SaysOfAnEmptyValueThatItIsEmptyAndOfANullThatItIsOne) {
  EXPECT_EQ(value_refusal("scan_layers", ""), refused_value("scan_layers", "", "true or false"));
  EXPECT_EQ(value_refusal("scan_layers", "null"), refused_value("scan_layers", "null", "true or false"));
  const YamlNode file = parse_yaml("scan_layers: null\n", "f.yml");
  EXPECT_EQ(message_of([&] { read_value(*find_key("scan_layers"), file.items[0]); }),
            "f.yml:1: scan_layers is 'null', true or false was expected");
}

TEST(Value, HoldsIntegersToTheirRange) {
  EXPECT_EQ(read("base_num_decoder_layers", "1000000"), Value(std::int64_t{1'000'000}));
  EXPECT_EQ(value_refusal("base_num_decoder_layers", "1000001"),
            refused_value("base_num_decoder_layers", "1000001", "an integer from 1 to 1000000"));
  EXPECT_EQ(value_refusal("base_num_decoder_layers", "0"),
            refused_value("base_num_decoder_layers", "0", "an integer from 1 to 1000000"));
  EXPECT_EQ(value_refusal("base_num_decoder_layers", "9223372036854775807"),
            refused_value("base_num_decoder_layers", "9223372036854775807", "an integer from 1 to 1000000"));
  EXPECT_EQ(value_refusal("o_groups", "-1"), refused_value("o_groups", "-1", "an integer from 0 to 1000000"));
}

TEST(Value, TakesRealsAndIntegersForReals) {
  EXPECT_EQ(read("learning_rate", "3e-4"), Value(3e-4));
  EXPECT_EQ(read("learning_rate", "1"), Value(1.0));
  EXPECT_EQ(read("per_device_batch_size", ".5"), Value(0.5));
}

TEST(Value, RefusesWhatIsNoFiniteNumber) {
  for (const char* text : {"nan", "NaN", "inf", "-inf", "infinity", "1e999", "0.5x", "1,5", "fast"}) {
    EXPECT_EQ(value_refusal("learning_rate", text), refused_value("learning_rate", text, "a finite number")) << text;
  }
  EXPECT_EQ(value_refusal("per_device_batch_size", "0"),
            refused_value("per_device_batch_size", "0", "a number from 0.000001 to 1000000"));
  EXPECT_EQ(value_refusal("warmup_steps_fraction", "1.5"), refused_value("warmup_steps_fraction", "1.5", "a number from 0 to 1"));
}

TEST(Value, KeepsTextAsItIsTyped) {
  EXPECT_EQ(read("run_name", "a: [b"), Value(std::string("a: [b")));
  EXPECT_EQ(read("run_name", "'quoted'"), Value(std::string("quoted")));
  EXPECT_EQ(read("run_name", "\"\""), Value(std::string()));
  EXPECT_EQ(read("run_name", "it's"), Value(std::string("it's")));
  EXPECT_EQ(read("run_name", ""), Value(std::string()));
  EXPECT_EQ(read("run_name", "None"), Value(std::string()));
  EXPECT_EQ(read("run_name", "'None'"), Value(std::string("None")));
  EXPECT_EQ(read("run_name", "/a=b/c"), Value(std::string("/a=b/c")));
}

TEST(Value, RefusesTextThatIsNoUtf8) {
  EXPECT_EQ(value_refusal("run_name", "\xff"), "here: the value of run_name is not valid UTF-8");
}

TEST(Value, KnowsNullFromAValueWhereTheDefaultIsNull) {
  EXPECT_EQ(read("sharding_strategy", "null"), Value());
  EXPECT_EQ(read("padded_base_moe_mlp_dim", "~"), Value());
  EXPECT_EQ(read("padded_base_moe_mlp_dim", "8"), Value(std::int64_t{8}));
}

TEST(Value, TakesTheWordsOfAChoiceInAnyCase) {
  EXPECT_EQ(read("dtype", "float32"), Value(std::string("float32")));
  EXPECT_EQ(read("dtype", "BFloat16"), Value(std::string("bfloat16")));
  EXPECT_EQ(read("expert_shard_attention_option", ""), Value(std::string()));
}

TEST(Value, NamesTheChoicesAndTheNearest) {
  EXPECT_EQ(value_refusal("dtype", "float23"),
            "here: dtype is 'float23', one of bfloat16, float32 was expected\n  fix: dtype=float32");
  EXPECT_EQ(value_refusal("expert_shard_attention_option", "everything"),
            "here: expert_shard_attention_option is 'everything', one of '', fsdp, context, tp was expected");
}

TEST(Value, SaysOfAKnownWordThatItIsNotSupported) {
  const auto value_refusal = [](const std::string& name, const std::string& word) {
    const Key& key = *find_key(name);
    return message_of([&] { check_supported(key, read_value(key, word, "here"), "here"); });
  };
  EXPECT_EQ(value_refusal("decoder_block", "gemma4_small"),
            "here: decoder_block=gemma4_small is not supported by moesh\n  fix: `moesh help decoder_block` lists what is");
  EXPECT_EQ(value_refusal("dtype", "float16"),
            "here: dtype=float16 is not supported by moesh\n  fix: `moesh help dtype` lists what is");
}

TEST(Value, ReadsListsOfWords) {
  const auto words = [](const std::vector<std::string>& all) { return Value(all); };
  EXPECT_EQ(read("mlp_activations", "[silu, linear]"), words({"silu", "linear"}));
  EXPECT_EQ(read("mlp_activations", "['silu',\"linear\"]"), words({"silu", "linear"}));
  EXPECT_EQ(read("mlp_activations", "silu"), words({"silu"}));
  EXPECT_EQ(read("mlp_activations", "[]"), words({}));
  EXPECT_EQ(read("mlp_activations", ""), words({}));
  EXPECT_EQ(read("data_sharding", "[[data, fsdp]]"), words({"data", "fsdp"}));
  EXPECT_EQ(value_refusal("mlp_activations", "{a: b}"),
            "here: mlp_activations is 'a mapping', a list of words was expected");
  EXPECT_EQ(value_refusal("mlp_activations", "[{a: b}]"), "here: mlp_activations holds something that is no word");
}

TEST(Value, ReadsListsOfIntegers) {
  EXPECT_EQ(read("mrope_section", "[1, 2e1]"), Value(std::vector<std::int64_t>{1, 20}));
  EXPECT_EQ(value_refusal("mrope_section", "[1, x]"), "here: mrope_section is 'x', a list of integers was expected");
}

TEST(Value, ReadsRules) {
  EXPECT_EQ(shown("logical_axis_rules", "[[a, [x, y]], [b, x], [c, []], [d, null], ['e', None]]"),
            "[[a, [x, y]], [b, [x]], [c, []], [d, []], [e, []]]");
  EXPECT_EQ(shown("logical_axis_rules", "[]"), "[]");
  EXPECT_EQ(shown("logical_axis_rules", ""), "[]");
}

TEST(Value, RefusesRulesThatAreNone) {
  const std::string key = "logical_axis_rules";
  EXPECT_EQ(value_refusal(key, "a"), "here: logical_axis_rules is 'a', a list of [label, [axis, ...]] was expected");
  for (const char* rule : {"a", "[a]", "[a, [b], c]", "[[a], b]", "{a: b}"}) {
    EXPECT_EQ(value_refusal(key, std::string("[") + rule + "]"),
              "here: logical_axis_rules holds an entry that is not [label, [axis, ...]]")
        << rule;
  }
  EXPECT_EQ(value_refusal(key, "[['', [x]]]"), "here: logical_axis_rules holds a rule without a label");
  EXPECT_EQ(value_refusal(key, "[[a, [x, '']]]"), "here: rule 'a' names an empty axis");
  EXPECT_EQ(value_refusal(key, "[[a, [x, y, x]]]"), "here: rule 'a' names axis 'x' twice\n  fix: name it once");
}

TEST(Value, ShortensTheLabelAndTheAxisOfARule) {
  const std::string label(10'000, 'l');
  const std::string axis(10'000, 'a');
  EXPECT_EQ(value_refusal("logical_axis_rules", "[[" + label + ", [" + axis + ", " + axis + "]]]"),
            "here: rule '" + std::string(79, 'l') + "…' names axis '" + std::string(79, 'a') +
                "…' twice\n  fix: name it once");
}

TEST(Value, SaysWhereAListIsNoYaml) {
  EXPECT_TRUE(value_refusal("mlp_activations", "[silu").starts_with("here: not readable as YAML: "));
}

TEST(Value, KeepsWhatItDoesNotReadAsText) {
  EXPECT_EQ(shown("vllm_hf_overrides", "{a: [1, 2], b: null}"), "{a: [1, 2], b: null}");
}

TEST(Value, RefusesAListWhereOneValueIsExpected) {
  const YamlNode list = parse_yaml("steps: [1, {a: 2}]", "f.yml");
  EXPECT_EQ(message_of([&] { read_value(*find_key("steps"), *list.find("steps")); }),
            "f.yml:1: steps is '[1, {a: 2}]', an integer was expected");
}

TEST(Value, ShortensWhatIsTooLongToQuote) { EXPECT_LT(value_refusal("steps", std::string(100'000, '9')).size(), 400u); }

TEST(Value, IsPrintedAsItWouldBeWritten) {
  EXPECT_EQ(to_string(Value()), "null");
  EXPECT_EQ(to_string(Value(true)), "true");
  EXPECT_EQ(to_string(Value(std::int64_t{-3})), "-3");
  EXPECT_EQ(to_string(Value(0.5)), "0.5");
  EXPECT_EQ(to_string(Value(std::string())), "''");
  EXPECT_EQ(to_string(Value(std::vector<std::int64_t>{1, 2})), "[1, 2]");
  EXPECT_EQ(to_string(Value(std::vector<std::string>{"embed", "gate/kernel", "a,b"})), "[embed, gate/kernel, 'a,b']");
}

TEST(Value, IsReadBackAsItWasPrinted) {
  const std::vector<std::string> words{"a", "a,b", "[x]+/y", "{1,2}", "it's", "''", "# c", "a: b", "", " ", "-", "~", "null", "true", "12", "*x",
                                       "&y", "!z", "%a", "@b", "`c`", "|", ">", "?", "\"q\"", "x #y", "^a.*b$", "(?:x|y)", "\\.w", "\xC3\xA9"};
  for (const std::string& word : words) {
    for (const Value& value : {Value(std::vector<std::string>{word}), Value(std::vector<std::string>{word, "x", word})})
      EXPECT_EQ(read("adamw_mask", to_string(value)), value) << to_string(value);
    EXPECT_EQ(read("run_name", to_string(Value(word))), Value(word)) << word;
  }
  const Value rules(std::vector<AxisRule>{test::rule("embed", {"fsdp", "a b"}), test::rule("x,y", {})});
  EXPECT_EQ(read("logical_axis_rules", to_string(rules)), rules) << to_string(rules);
}

}  // namespace
}  // namespace moesh::config
