// From a command line to settings: which source wins, what contradicts, and what is suggested.
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/builtin.h"
#include "config/hugging_face.h"
#include "config/load.h"
#include "config/support.h"
#include "tests/config/loaded.h"
#include "tests/paths.h"
#include "tests/support.h"

namespace moesh::config {
namespace {

using test::message_of;
using test::TemporaryFolder;
using test::Variable;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Load, GivesTheDefaultsWhenNothingIsAsked) {
  const Loaded plain = loaded("");
  EXPECT_THAT(plain.notices, IsEmpty());
  EXPECT_EQ(plain.settings.integer("base_emb_dim"), 2048);
  EXPECT_EQ(plain.settings.texts("mesh_axes").size(), 12u);
  EXPECT_FALSE(plain.settings.is_given("mesh_axes"));
  EXPECT_FALSE(plain.settings.is_given("steps"));
}

TEST(Load, TakesTheLaterOfTwoOverrides) { EXPECT_EQ(settings_of("steps=1 steps=2 steps=3").integer("steps"), 3); }

TEST(Load, TakesAValueThatHoldsAnEqualsSign) { EXPECT_EQ(settings_of("run_name=a=b").text("run_name"), "a=b"); }

TEST(Load, RanksSchemaFilePresetEnvironmentAndCommandLine) {
  const TemporaryFolder folder;
  const std::string file = folder.write(
      "a.yml", "steps: 5\nlearning_rate: 0.5\nbase_emb_dim: 64\nmodel_name: llama2-7b\nz_loss_multiplier: 0.25\n");
  const Variable variable("M_LEARNING_RATE", "0.75");
  const Settings settings = settings_of(file + " z_loss_multiplier=0.5");
  EXPECT_EQ(settings.integer("steps"), 5);
  EXPECT_EQ(settings.origin("steps").source, Source::file);
  EXPECT_EQ(settings.origin("steps").where, file + ":1");
  EXPECT_EQ(settings.real("learning_rate"), 0.75);
  EXPECT_EQ(settings.origin("learning_rate").where, "M_LEARNING_RATE");
  EXPECT_EQ(settings.real("z_loss_multiplier"), 0.5);
  EXPECT_EQ(settings.origin("z_loss_multiplier").source, Source::command_line);
  EXPECT_EQ(settings.integer("base_emb_dim"), 4096) << "the preset wins over the file";
  EXPECT_EQ(settings.origin("base_emb_dim").source, Source::preset);
  EXPECT_THAT(settings.origin("base_emb_dim").where, HasSubstr("configs/models/llama2-7b.yml:"));
  EXPECT_EQ(settings.origin("z_loss_multiplier").where, "the command line");
  EXPECT_EQ(settings.origin("gradient_accumulation_steps").source, Source::schema);
}

TEST(Load, KnowsWhatIsADefault) {
  const Settings settings = settings_of("steps=150001 learning_rate=1");
  EXPECT_TRUE(settings.is_default("steps"));
  EXPECT_TRUE(settings.is_given("steps"));
  EXPECT_FALSE(settings.is_default("learning_rate"));
  EXPECT_TRUE(settings.is_null("base_config"));
}

TEST(Load, RefusesAValueGivenByTheEnvironmentAndTheCommandLine) {
  const Variable variable("M_STEPS", "7");
  EXPECT_EQ(settings_of("").integer("steps"), 7);
  EXPECT_EQ(refusal("steps=8"),
            "the command line: steps is given by M_STEPS and on the command line\n  fix: unset one of them");
}

TEST(Load, RefusesAVariableThatNamesAFileToInherit) {
  const Variable variable("M_BASE_CONFIG", "a.yml");
  EXPECT_EQ(refusal(""), "M_BASE_CONFIG: base_config belongs in a file\n  fix: unset it, and name FILE.yml");
}

TEST(Load, ChecksWhatTheEnvironmentSays) {
  const Variable variable("M_STEPS", "many");
  EXPECT_EQ(refusal(""), "M_STEPS: steps is 'many', an integer was expected");
}

// For MaxText those are two axes of -1, which it refuses.
TEST(Load, SaysWhenTheAxisThatIsOpenByDefaultGivesWay) {
  for (const auto& [level, usual, axes] : {std::tuple("ici", "ici_fsdp_parallelism", "data expert tensor context"),
                                           std::tuple("dcn", "dcn_data_parallelism", "fsdp expert")}) {
    for (const std::string& axis : test::words_of(axes)) {
      const std::string key = std::string(level) + "_" + axis + "_parallelism";
      const std::string note = fmt::format("{} is 1 beside {}=-1; MaxText refuses two axes of -1, and {} is one by default", usual, key, usual);
      EXPECT_THAT(loaded(key + "=-1").notices, ElementsAre(note));
      EXPECT_THAT(loaded(key + "=-1 " + usual + "=1").notices, IsEmpty()) << key;
      EXPECT_THAT(loaded(key + "=2").notices, IsEmpty()) << key;
    }
    EXPECT_THAT(loaded(std::string(usual) + "=-1").notices, IsEmpty());
  }
}

TEST(Load, KeepsOldCheckpointsOnlyInAFolderBesideTheOthers) {
  const std::string kept = "enable_checkpointing=true max_num_checkpoints_to_keep=2 checkpoint_todelete_subdir=";
  for (const std::string name : {".todelete", "old", "old/ones", "null", "None", "a.b"}) EXPECT_EQ(refusal(kept + name), "no error") << name;
  for (const std::string name : {"5", "0old", "/tmp/a", "../a", "a/../..", ".", "a//b", "a/", "''"}) {
    EXPECT_THAT(refusal(kept + name), HasSubstr("', the name of a folder beside the checkpoints was expected, which begins with no digit\n"
                                                "  fix: checkpoint_todelete_subdir=.todelete, or null to remove old checkpoints"))
        << name;
  }
}

TEST(Load, SuggestsTheNearestKeys) {
  EXPECT_THAT(
      refusal("ici_fdsp_parallelism=2"),
      StartsWith("the command line: unknown key 'ici_fdsp_parallelism'\n  fix: did you mean ici_fsdp_parallelism"));
  EXPECT_EQ(refusal("xyzzyxyzzyxyzzyxyzzy=2"),
            "the command line: unknown key 'xyzzyxyzzyxyzzyxyzzy'\n  fix: `moesh help keys` lists all keys");
  EXPECT_EQ(refusal("=2"), "the command line: unknown key ''\n  fix: `moesh help keys` lists all keys");
  EXPECT_LT(refusal(std::string(5'000, 'x') + "=1").size(), 300u);
}

// Searching for similar names must not cost the product of two huge lengths, which would take a minute here.
TEST(Load, RefusesAHugeKeyAtOnce) {
  const TemporaryFolder folder;
  EXPECT_LT(refusal(folder.write("a.yml", "? " + std::string(3'000'000, 'x') + "\n: 1\n")).size(), 300u);
}

TEST(Load, SaysInWhichLineOfAFileAKeyIsUnknown) {
  const TemporaryFolder folder;
  const std::string file = folder.write("a.yml", "steps: 5\nstepz: 6\n");
  EXPECT_THAT(refusal(file), HasSubstr(file + ":2: unknown key 'stepz'\n  fix: did you mean steps"));
}

TEST(Load, RefusesKeysThatAskForWhatIsNotDone) {
  EXPECT_EQ(
      refusal("prefuse_moe_weights=true"),
      "the command line: prefuse_moe_weights=true asks for what moesh does not do (stores the two input projections of an expert as one)\n"
      "  fix: leave prefuse_moe_weights at false");
  EXPECT_EQ(refusal("prefuse_moe_weights=false"), "no error");
}

// What changes a run, and hardly its layout, is planned without; every run refuses it, with data or without.
TEST(Load, NotesWhatPlansLeaveOut) {
  EXPECT_EQ(
      loaded("use_sft=true context_parallel_strategy=ring").notices,
      (std::vector<std::string>{"planned without: context_parallel_strategy=ring (how context shards reach each other's keys and values; "
                                "only all_gather here); use_sft=true (supervised fine-tuning on prompts and answers)"}));
  EXPECT_THAT(loaded("use_sft=false dropout_rate=0.0 context_parallel_strategy=all_gather").notices, IsEmpty());
  for (const auto run : {config::Run::steps, config::Run::texts, config::Run::training}) {
    EXPECT_THAT(test::message_of([&] { check_run(loaded("enable_rampup_batch_size=true").settings, run); }),
                HasSubstr("enable_rampup_batch_size=true asks for what moesh does not do (starts with a small batch that grows)"));
  }
}

// What counts beside the entropy is a mean already, and is divided by the tokens of the batch once more if there are several microbatches.
TEST(Load, TellsLossesThatHardlyTrain) {
  const std::string experts = "model_name=mixtral-8x7b load_balance_loss_weight=0.01 ";
  const auto told = [](const std::string& request) { return diluted_losses(loaded(request).settings); };
  EXPECT_EQ(told(experts), "");
  EXPECT_EQ(told("model_name=mixtral-8x7b gradient_accumulation_steps=2"), "");
  EXPECT_EQ(told(experts + "gradient_accumulation_steps=2"),
            "load_balance_loss_weight hardly trains with gradient_accumulation_steps=2: as in MaxText, its share of the gradient is divided "
            "by the number of tokens in the batch");
  EXPECT_THAT(told(experts + "mtp_num_layers=1 gradient_accumulation_steps=4"),
              StartsWith("load_balance_loss_weight and mtp_loss_scaling_factor hardly trains"));
}

TEST(Load, NotesKeysWithoutEffectInOneLine) {
  EXPECT_EQ(loaded("dump_hlo=true use_iota_embed=true").notices,
            (std::vector<std::string>{"without effect here (`moesh help KEY` says why): dump_hlo, use_iota_embed"}));
  const std::vector<std::string> many = loaded(
                                            "dump_hlo=true use_iota_embed=true shardy=false max_checkify=true "
                                            "enable_nnx=false pure_nnx=false hardware=gpu "
                                            "dump_step=3")
                                            .notices;
  ASSERT_EQ(many.size(), 1u);
  EXPECT_THAT(many[0], HasSubstr(" and 3 more"));
  EXPECT_THAT(loaded("dump_hlo=false").notices, IsEmpty()) << "its default";
}

TEST(Load, TakesOneFile) {
  const std::string endless = std::string(10'000, 'f') + ".yml";
  EXPECT_EQ(refusal(endless + " " + endless),
            "the command line: a second file, '" + std::string(79, 'f') + "…', after '" + std::string(79, 'f') +
                "…'\n  fix: name one FILE.yml, then key=value");
  EXPECT_EQ(refusal("a.yml b.yml"),
            "the command line: a second file, 'b.yml', after 'a.yml'\n  fix: name one FILE.yml, then key=value");
  EXPECT_EQ(refusal("a.yml"),
            "a.yml: no such file\n  fix: name a YAML file, or leave it out to use the built-in defaults");
  EXPECT_EQ(refusal("/tmp"), "/tmp: not a regular file\n  fix: name a YAML file");
}

TEST(Load, TakesTheBuiltInBaseYmlForOneThatIsNotThere) {
  for (const char* path :
       {"base.yml", "elsewhere/configs/base.yml", "src/maxtext/configs/base.yml", "/no/where/configs/base.yml"}) {
    const Loaded found = loaded(std::string(path) + " steps=3");
    EXPECT_THAT(found.notices, Contains(std::string(path) + " is not there; the built-in base.yml is used"));
    EXPECT_EQ(found.settings.integer("steps"), 3);
  }
}

TEST(Load, RefusesAFileThatIsNoMapping) {
  const TemporaryFolder folder;
  const std::string file = folder.write("a.yml", "- steps\n");
  EXPECT_EQ(refusal(file), file + ":1: a mapping of keys to values was expected");
}

TEST(Load, TakesAFileThatSaysNothing) {
  const TemporaryFolder folder;
  EXPECT_EQ(refusal(folder.write("a.yml", "# nothing\n")), "no error");
}

TEST(Load, ReadsWhatAFileInheritsBeforeIt) {
  const TemporaryFolder folder;
  folder.write("oldest.yml", "steps: 1\nlearning_rate: 1\nz_loss_multiplier: 1\n");
  folder.write("older.yml", "base_config: oldest.yml\nlearning_rate: 2\nz_loss_multiplier: 2\n");
  const Settings settings = settings_of(folder.write("young.yml", "z_loss_multiplier: 3\nbase_config: older.yml\n"));
  EXPECT_EQ(settings.integer("steps"), 1);
  EXPECT_EQ(settings.real("learning_rate"), 2);
  EXPECT_EQ(settings.real("z_loss_multiplier"), 3);
}

TEST(Load, TakesAnInheritedBaseYmlThatIsNotThereForTheBuiltIn) {
  const TemporaryFolder folder;
  EXPECT_EQ(settings_of(folder.write("a.yml", "base_config: base.yml\nsteps: 4\n")).integer("steps"), 4);
}

// A folder of other people's settings may have a configs/base.yml of its own, or none.
TEST(Load, ABuiltInFileInheritsFromTheBuiltInBaseWhateverLiesHere) {
  const TemporaryFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const Loaded without = loaded("configs/first.yml");
  std::filesystem::create_directory("configs");
  folder.write("configs/base.yml", "adam_b2: 0.5\n");
  const Loaded with = loaded("configs/first.yml");
  std::filesystem::current_path(before);
  EXPECT_THAT(without.notices, Each(Not(HasSubstr("base.yml"))));
  EXPECT_EQ(without.settings.integer("base_emb_dim"), 160);
  EXPECT_EQ(with.settings.real("adam_b2"), without.settings.real("adam_b2"));
}

TEST(Load, SaysWhenAnInheritedBaseYmlIsTheBuiltInOne) {
  const TemporaryFolder folder;
  EXPECT_THAT(loaded(folder.write("a.yml", "base_config: base.yml\n")).notices,
              ElementsAre(folder.path() + "/base.yml is not there; the built-in base.yml is used"));
  EXPECT_EQ(refusal(folder.write("a.yml", "base_config: ../configs/base.yml\n")), "no error");
  for (const std::string name : {"foo/mybase.yml", "mybase.yml", "database.yml"}) {
    const std::string file = folder.write("a.yml", "base_config: " + name + "\n");
    EXPECT_EQ(refusal(file), file + ":1: base_config '" + name + "' is not there\n  fix: name a file beside this one, or in the folder `configs` around it");
  }
  EXPECT_THAT(refusal("myconfigs/base.yml"), HasSubstr("no such file"));
}

TEST(Load, RefusesInheritanceThatLeadsNowhereOrInACircle) {
  const TemporaryFolder folder;
  const std::string lost = folder.write("lost.yml", "steps: 1\nbase_config: none.yml\n");
  EXPECT_EQ(refusal(lost), lost + ":2: base_config 'none.yml' is not there\n  fix: name a file beside this one, or in the folder `configs` around it");
  const std::string endless = folder.write("endless.yml", "base_config: " + std::string(10'000, 'n') + "\n");
  EXPECT_EQ(refusal(endless), endless + ":1: base_config '" + std::string(79, 'n') +
                                  "…' is not there\n  fix: name a file beside this one, or in the folder `configs` around it");
  const std::string circle = folder.write("circle.yml", "base_config: other.yml\n");
  folder.write("other.yml", "base_config: circle.yml\n");
  EXPECT_THAT(refusal(circle), HasSubstr("base_config leads through more than 16 files\n  fix: break the circle"));
  const std::string list = folder.write("list.yml", "base_config: [a]\n");
  EXPECT_EQ(refusal(list), list + ":1: base_config: text was expected");
  EXPECT_EQ(refusal("base_config=a.yml"), "the command line: base_config belongs in a file\n  fix: name FILE.yml");
}

TEST(LoadModel, SuggestsTheNearestModels) {
  EXPECT_EQ(refusal("model_name=mixtral-8x7"),
            "the command line: unknown model 'mixtral-8x7'\n  fix: did you mean mixtral-8x7b? `moesh help models` "
            "lists them; "
            "model_name may also be the path of a YAML file or of a Hugging Face folder");
  EXPECT_EQ(refusal("model_name=grok-314b"),
            "the command line: unknown model 'grok-314b'\n  fix: `moesh help models` lists them; model_name may also be "
            "the path of a YAML file or of a Hugging Face folder");
  EXPECT_THAT(refusal("model_name="), HasSubstr("unknown model ''"));
  for (const char* name : {"deepseek-custom", "gemma4-e2b", "gemma4-e4b"})
    EXPECT_THAT(refusal(std::string("model_name=") + name), HasSubstr(", which moesh lacks")) << name;
}

TEST(LoadModel, TakesATunedVariantForItsBase) {
  EXPECT_EQ(settings_of("model_name=llama3-8b-Instruct").integer("base_emb_dim"),
            settings_of("model_name=llama3-8b").integer("base_emb_dim"));
}

TEST(LoadModel, RefusesAnOverrideThatContradictsThePreset) {
  EXPECT_EQ(refusal("model_name=mixtral-8x7b num_experts=16"),
            "the command line: num_experts=16 contradicts num_experts=8 of the model mixtral-8x7b\n"
            "  fix: add override_model_config=true, or leave the key out");
  EXPECT_EQ(refusal("model_name=mixtral-8x7b num_experts=8"), "no error");
  EXPECT_EQ(settings_of("model_name=mixtral-8x7b num_experts=16 override_model_config=true").integer("num_experts"),
            16);
  EXPECT_EQ(settings_of("model_name=mixtral-8x7b steps=3").integer("steps"), 3)
      << "what the preset does not say is free";
}

// GPT-3 175B is trained as in MLPerf: until an evaluation reaches a loss.
TEST(LoadModel, PresetsMaySayMoreThanWhatTheModelIs) {
  const Settings settings = settings_of("model_name=gpt3-175b");
  EXPECT_EQ(settings.real("target_eval_loss"), 2.69);
  EXPECT_EQ(settings.real("eval_per_device_batch_size"), 1);
  EXPECT_EQ(settings.text("opt_type"), "adam_pax");
  EXPECT_EQ(settings.real("adam_weight_decay"), 0.1);
}

TEST(LoadModel, ReadsAModelFromAFile) {
  const TemporaryFolder folder;
  const std::string file = folder.write("mine.yml", "decoder_block: llama2\nbase_emb_dim: 128\n");
  EXPECT_EQ(settings_of("model_name=" + file).integer("base_emb_dim"), 128);
  EXPECT_EQ(refusal("model_name=none.yml"), "none.yml: no such file\n  fix: check the path");
}

TEST(LoadModel, TakesBothEndingsOfYaml) {
  const TemporaryFolder folder;
  const std::string file = folder.write("mine.yaml", "decoder_block: llama2\nbase_emb_dim: 128\n");
  EXPECT_EQ(settings_of("model_name=" + file).integer("base_emb_dim"), 128);
  EXPECT_EQ(settings_of("model_name=" + file).text("model_name"), file);
  EXPECT_EQ(refusal("model_name=none.yaml"), "none.yaml: no such file\n  fix: check the path");
}

TEST(LoadModel, ReadsWhatAFileOfAModelInherits) {
  const TemporaryFolder folder;
  folder.write("older.yml", "decoder_block: mixtral\nbase_emb_dim: 64\nnum_experts: 8\n");
  const std::string file = folder.write("young.yml", "base_config: older.yml\nnum_experts: 16\n");
  const Settings settings = settings_of("model_name=" + file + " num_experts=16");
  EXPECT_EQ(settings.integer("base_emb_dim"), 64);
  EXPECT_EQ(settings.integer("num_experts"), 16);
  EXPECT_EQ(settings.origin("base_emb_dim").source, Source::preset);
  EXPECT_THAT(refusal("model_name=" + file + " num_experts=8"), HasSubstr("num_experts=8 contradicts num_experts=16"));
  const std::string lost = folder.write("lost.yml", "base_config: none.yml\n");
  EXPECT_THAT(refusal("model_name=" + lost), HasSubstr("base_config 'none.yml' is not there"));
}

TEST(LoadModel, RefusesAVariableThatContradictsThePreset) {
  const Variable variable("M_NUM_EXPERTS", "4");
  EXPECT_EQ(refusal("model_name=mixtral-8x7b"),
            "M_NUM_EXPERTS: num_experts=4 contradicts num_experts=8 of the model mixtral-8x7b\n"
            "  fix: add override_model_config=true, or leave the key out");
  EXPECT_EQ(settings_of("model_name=mixtral-8x7b override_model_config=true").integer("num_experts"), 4);
  EXPECT_EQ(settings_of("num_experts_per_tok=1 decoder_block=mixtral").integer("num_experts"), 4) << "no preset says otherwise";
}

TEST(LoadModel, NotesWhatOfAFileGivesWayToThePreset) {
  const TemporaryFolder folder;
  const std::string note = "the file gives way to the model mixtral-8x7b in base_emb_dim, num_experts; on the command line, beside "
                           "override_model_config=true, they win";
  const std::string keys = "model_name: mixtral-8x7b\nnum_experts: 4\nbase_emb_dim: 64\nvocab_size: 32000\nbase_mlp_dim: 7168\nsteps: 3\n";
  EXPECT_THAT(loaded(folder.write("a.yml", keys)).notices, ElementsAre(note)) << "7168 is the default, 32000 what the model has too";
  const std::string file = folder.write("b.yml", keys + "override_model_config: true\n");
  EXPECT_THAT(loaded(file).notices, ElementsAre(note));
  EXPECT_EQ(settings_of(file).integer("num_experts"), 8) << "as in MaxText";
  EXPECT_THAT(loaded(file + " num_experts=4 base_emb_dim=64").notices, IsEmpty());
}

TEST(LoadModel, LetsTheEnvironmentNameTheModel) {
  const Variable variable("M_MODEL_NAME", "llama2-7b");
  EXPECT_EQ(settings_of("").integer("base_emb_dim"), 4096);
}

TEST(CheckSettings, RefusesWindowsAndChunksWithoutALength) {
  EXPECT_THAT(
      refusal("attention_type=local_sliding"),
      HasSubstr(
          "attention_type=local_sliding needs a window, sliding_window_size is 0\n  fix: sliding_window_size=4096"));
  EXPECT_EQ(refusal("attention_type=local_sliding sliding_window_size=128"), "no error");
  EXPECT_THAT(refusal("attention_type=chunk"),
              HasSubstr("attention_type=chunk needs a length, chunk_attn_window_size is 0\n  fix: chunk_attn_window_size=8192"));
  EXPECT_EQ(refusal("attention_type=chunk chunk_attn_window_size=128"), "no error");
}

TEST(CheckSettings, RefusesForLatentAttentionWhatOthersDoNotHeed) {
  for (const char* type : {"local_sliding", "chunk", "full"}) {
    EXPECT_EQ(refusal(fmt::format("decoder_block=deepseek attention_type={} sliding_window_size=128 chunk_attn_window_size=128", type)),
              fmt::format("the command line: attention_type={} is no kind of attention of decoder_block=deepseek\n"
                          "  fix: attention_type=mla", type));
  }
}

TEST(CheckSettings, RefusesABoundOfARingThatDoesNotSort) {
  const std::string ring = "decoder_block=mixtral num_experts=4 use_ring_of_experts=true ragged_buffer_factor=1.5";
  EXPECT_EQ(refusal(ring),
            "the command line: ragged_buffer_factor=1.5 bounds the rows of a ring of experts only with "
            "use_ragged_sort=true\n  fix: use_ragged_sort=true, or ragged_buffer_factor=-1");
  EXPECT_EQ(refusal(ring + " use_ragged_sort=true"), "no error");
  EXPECT_EQ(refusal(ring + " use_ring_of_experts=false"), "no error");
}

TEST(CheckSettings, RefusesTwoWidthsWhereEveryLayerHasExperts) {
  const std::string experts =
      "decoder_block=mixtral num_experts=4 num_experts_per_tok=2 base_mlp_dim=512 base_moe_mlp_dim=";
  EXPECT_EQ(refusal(experts + "256"),
            "the command line: base_mlp_dim=512 and base_moe_mlp_dim=256 differ, but every layer has experts\n  fix: "
            "base_mlp_dim=256");
  EXPECT_EQ(refusal(experts + "512"), "no error");
  EXPECT_EQ(refusal(experts + "-1"), "no error");
  EXPECT_EQ(refusal("decoder_block=deepseek first_num_dense_layers=1 num_experts=4 base_moe_mlp_dim=256"), "no error");
}

TEST(CheckSettings, RefusesRoutingThatDoesNotAddUp) {
  EXPECT_EQ(refusal("num_experts=8 n_routing_groups=3 decoder_block=deepseek"),
            "the command line: n_routing_groups=3 does not divide 8 experts");
  EXPECT_EQ(refusal("num_experts=8 n_routing_groups=4 topk_routing_group=5 decoder_block=deepseek"),
            "the command line: topk_routing_group=5 of n_routing_groups=4");
  EXPECT_EQ(refusal("routed_bias=true routed_bias_update_rate=0.001 decoder_block=mixtral num_experts=4"),
            "the command line: routed_bias_update_rate balances the load of decoder_block=deepseek and deepseek4 only\n"
            "  fix: routed_bias_update_rate=0");
  const std::string split = "model_name=deepseek3-tiny use_batch_split_schedule=true batch_split_factor=2 ";
  EXPECT_EQ(refusal(split + "sparse_matmul=false"),
            "the command line: use_batch_split_schedule=true with sparse_matmul=false, whose rows no part can wait for\n"
            "  fix: sparse_matmul=true, or use_batch_split_schedule=false");
  EXPECT_EQ(refusal(split + "ici_pipeline_parallelism=2"),
            "the command line: use_batch_split_schedule=true with pipeline stages, which split the batch too\n"
            "  fix: ici_pipeline_parallelism=1 dcn_pipeline_parallelism=1, or use_batch_split_schedule=false");
  EXPECT_EQ(refusal("model_name=gemma4-26b use_batch_split_schedule=true"),
            "the command line: use_batch_split_schedule=true with stacks within stacks of layers, which parts would go through one after "
            "the other\n  fix: scan_layers=false, or use_batch_split_schedule=false");
  EXPECT_EQ(refusal("model_name=gemma4-26b use_batch_split_schedule=true scan_layers=false"), "no error");
  EXPECT_EQ(refusal(split + "use_qk_clip=true"),
            "the command line: use_batch_split_schedule=true with use_qk_clip=true, which needs the highest scores of the whole batch\n"
            "  fix: use_qk_clip=false, or use_batch_split_schedule=false");
  EXPECT_EQ(refusal("opt_type=muon model_name=llama2-7b param_scan_axis=0"),
            "the command line: param_scan_axis=0 with opt_type=muon: MaxText takes the layers of a stacked weight for dims of its matrix\n"
            "  fix: param_scan_axis=1");
  EXPECT_EQ(refusal("num_moe_token_chunks=3 max_target_length=2048"),
            "the command line: num_moe_token_chunks=3 does not divide max_target_length=2048");
}

TEST(CheckSettings, RefusesAScheduleOfMoreThanItsWhole) {
  EXPECT_EQ(
      refusal("lr_schedule_type=wsd warmup_steps_fraction=0.6 wsd_decay_steps_fraction=0.5"),
      "the command line: warmup_steps_fraction=0.6 and wsd_decay_steps_fraction=0.5 make more than the whole schedule\n"
      "  fix: let them sum to at most 1");
  EXPECT_EQ(refusal("lr_schedule_type=wsd warmup_steps_fraction=0.5 wsd_decay_steps_fraction=0.5"), "no error");
}

TEST(Builtin, HasTheFilesOfConfigs) {
  ASSERT_NE(find_builtin("base.yml"), nullptr);
  EXPECT_EQ(find_builtin("nothing.yml"), nullptr);
  EXPECT_EQ(test::read_text(test::source_folder() / "configs/base.yml"),
            std::string(find_builtin("base.yml")->text));
  EXPECT_THAT(builtin_names("models"), Contains("mixtral-8x7b"));
  EXPECT_THAT(builtin_names("nothing"), IsEmpty());
}

// A checkpoint's settings name what its model's folder has settled, and are no contradiction.
TEST(Load, TakesTheSettingsOfAModelsFolderBesideTheFolder) {
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(test::source_folder() / "tests/golden/hf")) {
    const std::string path = entry.path().string();
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("config") || !name.ends_with(".json")) continue;
    ++files;
    const Settings settings = load({"model_name=" + path}).settings;
    std::vector<std::string> words{"model_name=" + path};
    for (const HuggingFaceKey& given : hugging_face_keys(path)) words.push_back(given.key + "=" + to_string(settings.value(given.key)));
    EXPECT_EQ(test::message_of([&] { load(words); }), "no error") << path;
  }
  EXPECT_GE(files, 30);
}

}  // namespace
}  // namespace moesh::config
