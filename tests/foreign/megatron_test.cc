// What each flag of Megatron-LM translates to, one behaviour per test; whole commands are in tests/golden/foreign/.
#include "foreign/megatron.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "foreign/import.h"
#include "tests/foreign/megatron_commands.h"
#include "tests/paths.h"
#include "tests/support.h"

namespace moesh::foreign {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string refusal(const std::string& command, const std::vector<std::string>& own = {}) {
  return test::message_of([&] { imported(command, own); });
}

TEST(FromMegatron, TheBatchIsThatOfADevice) {
  const auto batch = [](const std::string& flags) {
    const Imported made = imported(kDense + flags);
    return given(made, "per_device_batch_size") + " " + given(made, "gradient_accumulation_steps") + " " + given(made, "num_pipeline_microbatches");
  };
  const std::string no_stages = " num_pipeline_microbatches is not given";
  EXPECT_EQ(batch("--world-size 4 --global-batch-size 24"), "per_device_batch_size=2 gradient_accumulation_steps=3" + no_stages);
  EXPECT_EQ(batch("--world-size 4"), "per_device_batch_size=2 gradient_accumulation_steps is not given" + no_stages);
  EXPECT_EQ(batch("--world-size 4 --tensor-model-parallel-size 4 --global-batch-size 2"),
            "per_device_batch_size=0.5 gradient_accumulation_steps is not given" + no_stages);
  EXPECT_EQ(batch("--world-size 4 --pipeline-model-parallel-size 2 --global-batch-size 16"),
            "per_device_batch_size=4 gradient_accumulation_steps is not given num_pipeline_microbatches=4");
  EXPECT_EQ(batch("--world-size 4 --pipeline-model-parallel-size 2"),
            "per_device_batch_size=2 gradient_accumulation_steps is not given num_pipeline_microbatches=2");
  EXPECT_THAT(notes(kDense + "--pipeline-model-parallel-size 2 --global-batch-size 6"),
              HasSubstr("differs: 4 microbatches are planned, a multiple of the stages, rather than 3\n"));
  EXPECT_THAT(notes(kDense + "--pipeline-model-parallel-size 2"), HasSubstr("assumed: no --global-batch-size: as many microbatches as stages\n"));
}

TEST(FromMegatron, RecomputesWhatItsFlagsSay) {
  const auto policy = [](const std::string& flags) { return given(kSparse + flags, "remat_policy").substr(13); };
  EXPECT_EQ(policy(""), "everything");
  EXPECT_EQ(policy("--recompute-activations"), "everything") << "fused attention makes its scores again anyway";
  EXPECT_EQ(policy("--recompute-granularity selective --recompute-modules core_attn"), "everything");
  EXPECT_EQ(policy("--recompute-modules moe"), "everything") << "without a granularity nothing is recomputed";
  EXPECT_EQ(policy("--recompute-granularity selective --recompute-modules layernorm moe_act"), "minimal_with_context");
  EXPECT_THAT(notes(kSparse + "--recompute-granularity selective --recompute-modules layernorm moe_act"),
              HasSubstr("differs: --recompute-modules layernorm moe_act: products are kept, and all between them is made again, exchanges of "
                        "rows too\n"));
  EXPECT_EQ(policy("--recompute-granularity selective --recompute-modules core_attn moe"), "save_dot_with_context_except_mlp");
  EXPECT_EQ(policy("--moe-layer-recompute"), "save_dot_with_context_except_mlp");
  EXPECT_EQ(policy("--checkpoint-activations"), "full");
  EXPECT_THAT(notes(kDense + "--checkpoint-activations"),
              HasSubstr("assumed: --checkpoint-activations, which Megatron-LM has no more, recomputes every layer"));
  EXPECT_EQ(policy("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"), "full");
  EXPECT_THAT(notes(kDense + "--recompute-granularity full --recompute-method block --recompute-num-layers 2"),
              HasSubstr("differs: --recompute-method block: every layer is recomputed, not the first ones of a stage\n"));
  EXPECT_THAT(notes(kDense + "--recompute-granularity full --recompute-num-layers 2"),
              HasSubstr("differs: --recompute-num-layers 2: every layer's input is kept, not every 2th\n"));
}

TEST(FromMegatron, NumbersHaveTheirFormats) {
  std::string wide = kDense;
  wide.erase(wide.find("--bf16"), 6);
  EXPECT_EQ(given(kDense, "dtype"), "dtype is not given");
  EXPECT_EQ(given(wide, "dtype"), "dtype=float32");
  EXPECT_EQ(given(kDense + "--grad-reduce-in-bf16", "grad_dtype"), "grad_dtype=bfloat16");
  EXPECT_EQ(given(kDense + "--fp8-format hybrid", "quantization"), "quantization=te_fp8_delayedscaling");
  EXPECT_EQ(given(kDense + "--fp8-format e4m3 --fp8-recipe mxfp8", "quantization"), "quantization=te_mxfp8");
  EXPECT_EQ(given(kDense + "--fp8-format hybrid --fp8-recipe tensorwise", "quantization"), "quantization=te_fp8_currentscaling");
  EXPECT_THAT(notes(wide + "--fp16"), HasSubstr("differs: --fp16: bfloat16 is planned"));
}

TEST(FromMegatron, TheScheduleIsInShares) {
  const std::string steps = kDense + "--lr 1e-3 --min-lr 1e-4 --train-iters 1000 --lr-warmup-iters 100 ";
  const auto keys = [](const std::string& command) {
    const Imported made = imported(command);
    std::string all;
    for (const char* key : {"steps", "warmup_steps_fraction", "learning_rate_final_fraction", "lr_schedule_type", "wsd_decay_steps_fraction"})
      all += given(made, key) + "\n";
    return all;
  };
  EXPECT_EQ(keys(steps + "--lr-decay-style cosine"), "steps=1000\nwarmup_steps_fraction=0.1\nlearning_rate_final_fraction=0.1\n"
                                                      "lr_schedule_type is not given\nwsd_decay_steps_fraction is not given\n");
  EXPECT_EQ(keys(steps + "--lr-decay-style linear"), "steps=1000\nwarmup_steps_fraction=0.1\nlearning_rate_final_fraction=0.1\n"
                                                      "lr_schedule_type=wsd\nwsd_decay_steps_fraction=0.9\n");
  EXPECT_EQ(keys(steps + "--lr-decay-style WSD --lr-wsd-decay-iters 200"), "steps=1000\nwarmup_steps_fraction=0.1\nlearning_rate_final_fraction=0.1\n"
                                                                            "lr_schedule_type=wsd\nwsd_decay_steps_fraction=0.2\n");
  EXPECT_EQ(keys(steps + "--lr-decay-style constant"), "steps=1000\nwarmup_steps_fraction=0.1\nlearning_rate_final_fraction=1\n"
                                                        "lr_schedule_type=wsd\nwsd_decay_steps_fraction=0.9\n");
  EXPECT_EQ(given(kDense + "--lr 1 --train-samples 800 --global-batch-size 8", "steps"), "steps=100");
}

TEST(FromMegatron, TheVocabularyIsPadded) {
  EXPECT_EQ(given(kDense + "--vocab-size 300", "vocab_size"), "vocab_size=384");
  EXPECT_EQ(given(kDense + "--vocab-size 300 --tensor-model-parallel-size 4", "vocab_size"), "vocab_size=512");
  EXPECT_EQ(given(kDense + "--vocab-size 300 --make-vocab-size-divisible-by 100", "vocab_size"), "vocab_size=300");
  EXPECT_EQ(given(kDense + "--vocab-size 300 --padded-vocab-size 333", "vocab_size"), "vocab_size=333");
}

// Without --vocab-size the tokenizer says it; the number that is told is the one that is planned.
TEST(FromMegatron, TheVocabularyIsThatOfTheTokenizer) {
  std::string open = kDense;
  open.erase(open.find("--vocab-size 256"));
  struct Tokenizer {
    std::string flags, words, planned, of;
  };
  const Tokenizer all[] = {
      {"", "50,257", "50304", "gpt2"},
      {"--tokenizer-type GPT2BPETokenizer --tensor-model-parallel-size 4", "50,257", "50688", "gpt2"},
      {"--tokenizer-type Llama2Tokenizer --tokenizer-model tokenizer.model", "32,000", "32000", "llama2-7b"},
      {"--tokenizer-type Llama3Tokenizer", "128,256", "128256", "llama3.1-8b"},
      {"--tokenizer-type HuggingFaceTokenizer --tokenizer-model meta-llama/Meta-Llama-3.1-8B", "128,256", "128256", "llama3.1-8b"},
      {"--tokenizer-type HuggingFaceTokenizer --tokenizer-model deepseek-ai/DeepSeek-V3 --tensor-model-parallel-size 8", "129,280",
       "130048", "deepseek3-671b"},
      {"--tokenizer-type HuggingFaceTokenizer --tokenizer-model /models/Qwen3-30B-A3B", "151,936", "151936", "qwen3-8b"},
      {"--tokenizer-type HuggingFaceTokenizer --tokenizer-model openai/gpt-oss-20b", "201,088", "201088", "gpt-oss-20b"},
      {"--tokenizer-model mistralai/Mixtral-8x7B-v0.1", "32,000", "32000", "mixtral-8x7b"},
  };
  for (const Tokenizer& one : all) {
    SCOPED_TRACE(one.flags);
    const Imported made = imported(open + one.flags);
    EXPECT_EQ(given(made, "vocab_size"), "vocab_size=" + one.planned);
    EXPECT_THAT(told(made.notes), HasSubstr("assumed: no --vocab-size: " + one.words + " words of " + one.of));
  }
  EXPECT_THAT(notes(open), HasSubstr("50,257 words of gpt2, padded to 50,304, are planned; vocab_size= says otherwise\n"));
  EXPECT_THAT(notes(open + "--tokenizer-type SentencePieceTokenizer --tokenizer-model x --make-vocab-size-divisible-by 32768"),
              HasSubstr("assumed: no --vocab-size, and moesh does not know the tokenizer's: 32,000 words, padded to 32,768, are planned;"));
  EXPECT_THAT(notes(open + "--tokenizer-type HuggingFaceTokenizer --tokenizer-model $TOKENIZER"),
              HasSubstr("does not know the tokenizer's"));
  EXPECT_THAT(notes(kDense + "--tokenizer-model x"), HasSubstr("not needed: --tokenizer-model (data and tokenizers)\n"));
  EXPECT_THAT(told(imported(open, {"vocab_size=100"}).notes), Not(HasSubstr("vocab")));
}

TEST(FromMegatron, LayersThatDifferGoRoundInACycle) {
  const auto keys = [](const std::string& flags, const std::string& key) { return given(kSparse + flags, key); };
  EXPECT_EQ(keys("--moe-layer-freq 2", "layer_mlp"), "layer_mlp=[moe,dense]");
  EXPECT_EQ(keys("--moe-layer-freq [0,1]*2", "layer_mlp"), "layer_mlp=[dense,moe]");
  EXPECT_EQ(keys("--moe-layer-freq ([0]*1+[1]*3)", "first_num_dense_layers"), "first_num_dense_layers=1");
  EXPECT_EQ(keys("--window-size 127,0 --window-attn-skip-freq 2", "layer_attention"), "layer_attention=[sliding,full]");
  EXPECT_EQ(keys("--window-size (127,0)", "sliding_window_size"), "sliding_window_size=128");
  EXPECT_EQ(keys("--no-rope-freq 4", "layer_positions"), "layer_positions=[rotary,rotary,rotary,none]");
  EXPECT_EQ(keys("--moe-layer-freq [0]*4", "num_experts"), "num_experts is not given");
}

TEST(FromMegatron, SparseAttentionIsAnIndexers) {
  const std::string latent = kSparse + "--multi-latent-attention --q-lora-rank 64 ", sparse = latent + "--experimental-attention-variant dsa ";
  const auto keys = [](const std::string& flags, const std::string& key) { return given(flags, key); };
  EXPECT_EQ(keys(latent, "use_indexer"), "use_indexer is not given");
  EXPECT_EQ(keys(sparse, "use_indexer"), "use_indexer=true");
  EXPECT_EQ(keys(sparse + "--dsa-indexer-n-heads 8", "indexer_n_heads"), "indexer_n_heads=8");
  EXPECT_EQ(keys(sparse + "--dsa-indexer-head-dim 96", "indexer_head_dim"), "indexer_head_dim=96");
  EXPECT_EQ(keys(sparse + "--dsa-indexer-topk 512", "indexer_topk"), "indexer_topk=512");
  const std::string learns = sparse + "--dsa-indexer-topk 16 --dsa-indexer-loss-coeff 0.01 ";
  EXPECT_EQ(keys(learns, "indexer_loss_scaling_factor"), "indexer_loss_scaling_factor=0.01");
  EXPECT_EQ(keys(learns, "indexer_sparse_training"), "indexer_sparse_training=true");
  const std::string over_all = "--dsa-indexer-loss-coeff: the indexer's loss is planned over the keys that it chooses, not over all";
  EXPECT_THAT(notes(learns), HasSubstr(over_all));
  EXPECT_THAT(notes(learns + "--dsa-indexer-use-sparse-loss"), Not(HasSubstr(over_all)));
  const std::string idle = sparse + "--dsa-indexer-topk 1000000 --dsa-indexer-loss-coeff 0.01";
  EXPECT_EQ(keys(idle, "indexer_loss_scaling_factor"), "indexer_loss_scaling_factor is not given");
  EXPECT_THAT(notes(idle), HasSubstr("--dsa-indexer-loss-coeff: no loss is planned for an indexer that chooses 1000000 of "));
  EXPECT_THAT(notes(sparse + "--dsa-indexer-top-k 64"), HasSubstr("unknown: --dsa-indexer-top-k is no flag of Megatron-LM"));
  EXPECT_EQ(keys(sparse + "--num-attention-heads 8", "base_num_kv_heads"), "base_num_kv_heads is not given") << "a latent is all heads'";
  for (const std::string& flags : {kDense + "--experimental-attention-variant dsa", latent + "--experimental-attention-variant gated_delta_net"}) {
    EXPECT_EQ(keys(flags, "use_indexer"), "use_indexer is not given");
    EXPECT_THAT(notes(flags), HasSubstr(": full attention is planned"));
  }
}

TEST(FromMegatron, AModelOfTheUsersOwnTakesThePlaceOfItsSizes) {
  const Imported made = imported(kSparse + "--expert-model-parallel-size 4 --multi-latent-attention", {"model_name=mixtral-8x7b"});
  EXPECT_EQ(given(made, "base_emb_dim"), "base_emb_dim is not given");
  EXPECT_EQ(given(made, "decoder_block"), "decoder_block is not given");
  EXPECT_EQ(given(made, "ici_expert_parallelism"), "ici_expert_parallelism=4");
  EXPECT_THAT(told(made.notes), HasSubstr("assumed: model_name is yours: what the flags say of the model's sizes is left out\n"));
  EXPECT_THAT(told(made.notes), Not(HasSubstr("unknown")));
}

TEST(FromMegatron, NamesFlagsThatItDoesNotHaveWithTheNearest) {
  EXPECT_THAT(notes(kDense + "--tensor-model-paralel-size 8"),
              HasSubstr("unknown: --tensor-model-paralel-size is no flag of Megatron-LM, and says nothing here; the nearest is --tensor-model-parallel-size\n"));
  EXPECT_THAT(notes(kDense + "--qwertyuiop"), HasSubstr("unknown: --qwertyuiop is no flag of Megatron-LM, and says nothing here\n"));
  EXPECT_THAT(notes(kDense + "--tensor_model_parallel_size 1"), Not(HasSubstr("unknown")));
  std::string many = kDense;
  for (int i = 0; i < 25; ++i) many += "--qwertyuiop" + std::to_string(i) + " ";
  EXPECT_THAT(notes(many), HasSubstr("unknown: 5 flags more that Megatron-LM does not have\n"));
}

// A misspelled letter counts less than a word that is another one.
TEST(FromMegatron, TheNearestFlagHasTheMostWordsInCommon) {
  const auto nearest_to = [](const std::string& name) {
    const std::string all = notes(kDense + "--" + name), begin = "the nearest is --";
    const std::size_t at = all.find(begin);
    return at == std::string::npos ? "none" : all.substr(at + begin.size(), all.find('\n', at) - at - begin.size());
  };
  EXPECT_EQ(nearest_to("moe-expert-parallel-size"), "expert-model-parallel-size");
  EXPECT_EQ(nearest_to("expert-parallel-size"), "expert-model-parallel-size");
  EXPECT_EQ(nearest_to("tensor-parallel-size"), "tensor-model-parallel-size");
  EXPECT_EQ(nearest_to("pipeline-parallel-size"), "pipeline-model-parallel-size");
  EXPECT_EQ(nearest_to("moe-num-experts"), "num-experts");
  EXPECT_EQ(nearest_to("moe-topk"), "moe-router-topk");
  EXPECT_EQ(nearest_to("moe-router-topkk"), "moe-router-topk");
  EXPECT_EQ(nearest_to("use-fsdp"), "use-megatron-fsdp");
  EXPECT_EQ(nearest_to("global-batchsize"), "global-batch-size");
  EXPECT_EQ(nearest_to("zero-stage"), "none");
}

TEST(FromMegatron, KnowsFlagsOfEarlierVersionsByTheirNamesOfToday) {
  std::set<std::string_view> known;
  for (const std::string_view name : translated_megatron_flags()) known.insert(name);
  for (const DifferingFlag& flag : differing_megatron_flags()) known.insert(flag.name);
  for (const std::string_view earlier : earlier_megatron_flags()) {
    EXPECT_FALSE(known.contains(earlier)) << earlier;
    for (const Flag& flag : spelled_as_now({{std::string(earlier), {}, "a test"}})) EXPECT_TRUE(known.contains(flag.name)) << earlier;
  }
  const auto earlier = [](const std::string& flags, const std::string& key) { return given(kDense + flags, key); };
  EXPECT_EQ(earlier("--layernorm-epsilon 1e-6", "normalization_layer_epsilon"), "normalization_layer_epsilon=1e-06");
  EXPECT_EQ(earlier("--use-custom-fsdp --world-size 8", "ici_fsdp_parallelism"), "ici_fsdp_parallelism=8");
  EXPECT_EQ(earlier("--fp8-hybrid", "quantization"), "quantization=te_fp8_delayedscaling");
  EXPECT_EQ(earlier("--fp8-e4m3", "quantization"), "quantization=te_fp8_delayedscaling");
  EXPECT_EQ(earlier("--activations-checkpoint-method uniform", "remat_policy"), "remat_policy=full");
  EXPECT_EQ(earlier("--multi-query-attention", "base_num_kv_heads"), "base_num_kv_heads=1");
  EXPECT_EQ(earlier("--model-parallel-size 2 --batch-size 4", "ici_tensor_parallelism"), "ici_tensor_parallelism=2");
  EXPECT_EQ(refusal(kDense + "--layernorm-epsilon x"),
            "--from megatron: --layernorm-epsilon: 'x', a number was expected\n  fix: correct it, or leave it out");
  EXPECT_THAT(
      notes(kDense + "--DDP-impl local --data-impl mmap --overlap-p2p-communication"),
      HasSubstr("not needed: --DDP-impl, --data-impl, --overlap-p2p-communication (of an older Megatron-LM, and not needed here)\n"));
}

TEST(FromMegatron, PlansFurtherTokensWhereAFamilyPredictsThem) {
  const std::string two = kDense + "--mtp-num-layers 2 --mtp-loss-scaling-factor 0.3";
  EXPECT_EQ(given(two, "mtp_num_layers"), "mtp_num_layers=2");
  EXPECT_EQ(given(two, "mtp_loss_scaling_factor"), "mtp_loss_scaling_factor=0.3");
  EXPECT_THAT(notes(kDense + "--mtp-num-layers 2"), HasSubstr("its modules have no norm of their own before the output projection"));
  const std::string windows = kDense + "--window-size 127,0 --window-attn-skip-freq 2 --mtp-num-layers 1";
  EXPECT_EQ(given(windows, "mtp_num_layers"), "mtp_num_layers is not given");
  EXPECT_THAT(notes(windows), HasSubstr("--mtp-num-layers: this family predicts no further tokens: those layers' parameters, memory and "
                                        "time are missing"));
}

TEST(FromMegatron, NamesFlagsWithoutACounterpart) {
  EXPECT_THAT(notes(kDense + "--moe-input-jitter-eps 0.1"), HasSubstr("differs: --moe-input-jitter-eps: the router has no jitter"));
  EXPECT_THAT(notes(kDense + "--log-interval 1 --save x --ckpt-format torch_dist"),
              HasSubstr("not needed: --log-interval, --save, --ckpt-format (logging, profiling, evaluation, checkpoints and restarts)\n"));
  EXPECT_THAT(notes(kDense + "--q-lora-rank 8"), HasSubstr("not needed: --q-lora-rank (without effect beside the other flags)\n"));
}

TEST(FromMegatron, TellsOfEveryFlagThatIsThere) {
  for (const KnownFlags& flags : idle_megatron_flags()) {
    for (std::string name : split(flags.names, ' ')) {
      if (name.ends_with('*')) name.back() = 'x';
      EXPECT_THAT(notes(kSparse + "--" + name), HasSubstr("not needed: --" + name + " (" + std::string(flags.topic))) << name;
    }
  }
  for (const DifferingFlag& flag : differing_megatron_flags())
    EXPECT_THAT(notes(kSparse + "--" + std::string(flag.name)), HasSubstr(std::string(flag.why))) << flag.name;
}

// Extracts from the sources the names that they ask for; these must be the listed ones.
TEST(FromMegatron, KnowsTheNamesOfTheFlagsThatItTranslates) {
  std::set<std::string> asked;
  for (const char* name : {"megatron.cc", "megatron_model.cc"}) {
    const std::string source = test::read_text(test::source_folder() / "src/foreign" / name);
    const std::regex call("(?:flags_\\.(?:find|has|is_set|text|integer|real|boolean|choice)|needed|words_of|steps_of|size)\\((?:flags_, )?\"([a-z0-9-]+)\""
                          "(?:, \"([a-z]+-[a-z-]+)\"\\))?");
    for (std::sregex_iterator at(source.begin(), source.end(), call), end; at != end; ++at) {
      asked.insert((*at)[1]);
      if ((*at)[2].matched) asked.insert((*at)[2]);
    }
  }
  std::set<std::string> listed;
  for (const std::string_view name : translated_megatron_flags()) listed.emplace(name);
  EXPECT_EQ(listed.size(), translated_megatron_flags().size());
  EXPECT_EQ(asked, listed);
}

TEST(FromMegatron, RefusesBatchesAndStagesThatDoNotFit) {
  EXPECT_EQ(refusal(kDense + "--world-size 8 --global-batch-size 24"),
            "--from megatron: a batch of 24, a multiple of 16 was expected: 2 for each of 8 devices along data parallelism\n"
            "  fix: a batch of 32, or other degrees");
  EXPECT_EQ(refusal(kDense + "--pipeline-model-parallel-size 3"),
            "--from megatron: 4 layers for 3 stages, which do not divide them\n"
            "  fix: another --pipeline-model-parallel-size, or --pipeline-model-parallel-layout beside it");
  EXPECT_EQ(refusal(kDense + "--pipeline-model-parallel-size 8 --pipeline-model-parallel-layout x"),
            "--from megatron: 4 layers for 8 stages of 1 layer at a time\n  fix: fewer stages, or more layers");
}

TEST(FromMegatron, RefusesModelsThatNoFamilyHas) {
  EXPECT_EQ(refusal("--hidden-size 64"), "--from megatron: no --num-layers, which a model's size needs\n"
                                         "  fix: give all flags of the model, or model_name= for one of `moesh help models`");
  EXPECT_EQ(refusal(kDense + "--multi-latent-attention"),
            "--from megatron: --multi-latent-attention without experts: no family has such layers\n"
            "  fix: model_name= for one of `moesh help models`, and the other flags as they are");
  std::string plain = kSparse;
  plain.erase(plain.find("--swiglu"), 8);
  EXPECT_EQ(refusal(plain + "--moe-ffn-hidden-size 96"), "--from megatron: experts without a gate, which no family has\n"
                                                         "  fix: --swiglu --moe-ffn-hidden-size 64, with about as many parameters");
}

TEST(FromMegatron, RefusesValuesWithWhatWasExpected) {
  EXPECT_EQ(refusal(kSparse + "--moe-layer-freq [0]*3"),
            "--from megatron: --moe-layer-freq: '[0]*3', a number, or a pattern such as [0]*3+[1]*1 of 4 layers was expected\n"
            "  fix: correct it, or leave it out");
  EXPECT_EQ(refusal(kDense + "--window-size wide"),
            "--from megatron: --window-size: 'wide', two numbers, such as 127,0 was expected\n  fix: correct it, or leave it out");
  EXPECT_EQ(refusal(kDense + "--num-layers 100001"),
            "--from megatron: --num-layers: '100001', at most 100,000 was expected\n  fix: correct it, or leave it out");
  EXPECT_EQ(refusal(kDense + "--hidden-size 65"),
            "--from megatron: --hidden-size: '65', a multiple of 4 heads, or --kv-channels was expected\n  fix: correct it, or leave it out");
  EXPECT_EQ(refusal(kDense + "--tensor-model-parallel-size $TP"),
            "--from megatron: --tensor-model-parallel-size: '$TP', a whole number from 1 was expected\n  fix: write the value of the shell's variable");
  EXPECT_EQ(refusal(kSparse + "--moe-aux-loss-coeff -1"),
            "--from megatron: --moe-aux-loss-coeff: '-1', a number from 0 was expected\n  fix: correct it, or leave it out");
}

}  // namespace
}  // namespace moesh::foreign
