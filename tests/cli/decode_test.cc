// `moesh decode`: continues texts with the model of a Hugging Face folder or of a run, and refuses wrong requests.
#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/paths.h"
#include "tests/train/train_support.h"
#include "tests/train/trainer_support.h"

namespace moesh::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string llama() { return (test::source_folder() / "tests/golden/hf/llama").string(); }

// Without a tokenizer, each byte of the text is a token of the model.
Outcome decode(std::vector<std::string> words) {
  words.insert(words.begin(), {"decode", llama(), "tokenizer_path=", "dtype=float32"});
  return outcome_of(words);
}

std::vector<nlohmann::json> texts_of(std::vector<std::string> words) {
  words.emplace_back("--json");
  const Outcome made = decode(std::move(words));
  EXPECT_EQ(made.code, 0) << made.err;
  std::vector<nlohmann::json> texts;
  for (const std::string& line : split(made.out, '\n')) {
    if (!line.empty()) texts.push_back(nlohmann::json::parse(line));
  }
  return texts;
}

TEST(DecodeCommand, GoesOnWithAPrompt) {
  const Outcome made = decode({"abc", "--max-tokens", "9"});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, StartsWith("abc"));
  EXPECT_THAT(made.err, HasSubstr("the weights of " + llama()));
  EXPECT_THAT(made.err, HasSubstr("9 tokens in "));
  EXPECT_THAT(made.err, HasSubstr(" of weights, keys and values, and "));
  const auto text = texts_of({"abc", "--max-tokens", "9"}).at(0);
  EXPECT_EQ("abc" + text["text"].get<std::string>() + "\n", as_utf8(made.out));
  EXPECT_EQ(text["prompt_tokens"], 3);
  EXPECT_EQ(text["tokens"], 9);
  EXPECT_EQ(text["finish_reason"], "length");
}

// As MaxText's commands name weights: a file of settings, load_parameters_path and prompt.
TEST(DecodeCommand, TakesTheModelThatSettingsName) {
  const std::string weights = "load_parameters_path=" + llama();
  const Outcome named = decode({"abc", "--max-tokens", "5"});
  const Outcome settings = outcome("decode src/MaxText/configs/base.yml tokenizer_path= dtype=float32 " + weights + " prompt=abc --max-tokens 5 steps=3 remat_policy=full");
  EXPECT_EQ(settings.out, named.out) << settings.err;
  EXPECT_THAT(settings.err, HasSubstr("without effect on texts, as only training reads them: steps, remat_policy\n"));
  EXPECT_EQ(outcome("decode tokenizer_path= dtype=float32 " + weights + " --max-tokens 5 abc").out, named.out) << "a word that is no path is a prompt";
  EXPECT_THAT(decode({"abc", "load_parameters_path=/other"}).err,
              AllOf(HasSubstr("weights of " + llama()), HasSubstr(", and of load_parameters_path=/other\n  fix: name one of them")));
  EXPECT_THAT(outcome("decode base.yml").err, HasSubstr("which model?\n  fix: name a run, a checkpoint or a Hugging Face folder, or give load_par"));
  EXPECT_THAT(outcome("serve base.yml").err, HasSubstr("which model?"));
}

TEST(DecodeCommand, RefusesBeforeItReadsWeights) {
  const std::string gemma = (test::source_folder() / "tests/golden/hf/gemma").string();  // whose vocabulary ends before these bytes
  const Outcome other = outcome("decode " + gemma + " tokenizer_path= ABC abc");
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, AllOf(HasSubstr("prompt 2: token "), HasSubstr(" lies outside the vocabulary of "), Not(HasSubstr("the weights of"))));
}

TEST(DecodeCommandSlow, GivesTheSameTextsInAnyBatchAndOnAnyMesh) {
  const std::vector<std::string> prompts{"abc", "a longer prompt than the others have", "x", "de", "fghij", "k l"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), prompts.begin(), prompts.end());
    return texts_of(std::move(more));
  };
  for (const std::string drawn : {"decode_sampling_strategy=greedy", "decode_sampling_strategy=weighted"}) {
    const auto expected = with({drawn, "--max-tokens", "12", "--batch", "1"});
    ASSERT_EQ(expected.size(), prompts.size());
    EXPECT_EQ(with({drawn, "--max-tokens", "12", "--batch", "4"}), expected);
    EXPECT_EQ(with({drawn, "--max-tokens", "12", "ici_fsdp_parallelism=2", "ici_tensor_parallelism=2"}), expected);
  }
}

TEST(DecodeCommand, GoesOnWithThePromptOfTheSettings) {
  EXPECT_THAT(decode({"--max-tokens", "2"}).out, StartsWith("I love to"));
  EXPECT_THAT(decode({"--max-tokens", "2", "prompt=xyz"}).out, StartsWith("xyz"));
}

TEST(DecodeCommand, HoldsTextsToABeginning) {
  const std::string text = texts_of({"abc", "--max-tokens", "5"}).at(0)["text"];
  EXPECT_EQ(decode({"abc", "--max-tokens", "5", "autoregressive_decode_assert=" + text}).code, 0);
  const Outcome other = decode({"abc", "--max-tokens", "5", "autoregressive_decode_assert=no such text"});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.err, HasSubstr("moesh: error: 'abc' goes on with '"));
  EXPECT_THAT(other.err, HasSubstr("', autoregressive_decode_assert expects 'no such text'"));
}

TEST(DecodeCommand, TakesPromptsFromAFile) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("p.jsonl", "{\"prompt\": \"abc\", \"max_tokens\": 3}\n\n{\"prompt\": \"abc\"}\n");
  const auto texts = texts_of({"--file", path, "--max-tokens", "5"});
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[0]["tokens"], 3);
  EXPECT_EQ(texts[1]["tokens"], 5);
  EXPECT_THAT(texts[1]["text"].get<std::string>(), StartsWith(texts[0]["text"].get<std::string>()));
  const std::string whole = texts[1]["text"];
  const auto found = std::find_if(whole.begin() + 1, whole.end(), [](char c) { return c > ' '; });
  ASSERT_NE(found, whole.end());
  const std::string stop(1, *found);
  const auto stopped = texts_of({"abc", "--max-tokens", "5", "--stop", stop}).at(0);
  EXPECT_EQ(stopped["text"], whole.substr(0, whole.find(stop)));
  EXPECT_EQ(stopped["finish_reason"], "stop");
}

TEST(DecodeCommand, TakesWordsBehindDashesAsPrompts) {
  const std::vector<std::string> texts = split(decode({"--max-tokens", "2", "--json", "ab", "--", "x=1", "--stop"}).out, '\n');
  ASSERT_EQ(texts.size(), 4u) << "and nothing behind the last line";
  EXPECT_EQ(nlohmann::json::parse(texts[1])["prompt"], "x=1");
  EXPECT_EQ(nlohmann::json::parse(texts[2])["prompt"], "--stop");
  EXPECT_THAT(decode({"x=1"}).err, HasSubstr("unknown key"));
}

// A copy of the recorded llama with a tokenizer of one token for each byte, <0x00> to <0xFF>.
class LlamaWithTokenizer {
 public:
  explicit LlamaWithTokenizer(int tokens = 256) {
    std::filesystem::copy_file(llama() + "/model.safetensors", path() + "/model.safetensors");
    config_ = nlohmann::json::parse(test::read_text(llama() + "/config.json"));
    config_.erase("eos_token_id");
    folder_.write("config.json", config_.dump());
    nlohmann::json vocabulary = nlohmann::json::object();
    for (int byte = 0; byte < tokens; ++byte) vocabulary[fmt::format("<0x{:02X}>", byte)] = byte;
    tokenizer_["model"] = {{"type", "BPE"}, {"byte_fallback", true}, {"vocab", vocabulary}, {"merges", nlohmann::json::array()}};
    tokenizer_["decoder"] = {{"type", "ByteFallback"}};
    folder_.write("tokenizer.json", tokenizer_.dump());
  }

  std::string path() const { return folder_.path(); }
  void write(const std::string& name, const nlohmann::json& json) { folder_.write(name, json.dump()); }
  // Says in config.json, or in generation_config.json, which tokens end a text.
  void end_with(const nlohmann::json& ends, bool of_generation) {
    nlohmann::json config = of_generation ? nlohmann::json::object() : config_;
    config["eos_token_id"] = ends;
    write(of_generation ? "generation_config.json" : "config.json", config);
  }
  // Puts <0x01> before each text.
  void begin_texts() {
    const nlohmann::json special = {{"SpecialToken", {{"id", "<0x01>"}, {"type_id", 0}}}}, text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
    tokenizer_["post_processor"] = {{"type", "TemplateProcessing"},
                                    {"single", {special, text}},
                                    {"pair", {special, text}},
                                    {"special_tokens", {{"<0x01>", {{"id", "<0x01>"}, {"ids", {1}}, {"tokens", {"<0x01>"}}}}}}};
    write("tokenizer.json", tokenizer_);
  }

  nlohmann::json text(std::vector<std::string> more = {}) const {
    std::vector<std::string> words{"decode", path(), "abc", "--max-tokens", "6", "--json", "dtype=float32"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome made = outcome_of(words);
    EXPECT_EQ(made.code, 0) << made.err;
    EXPECT_THAT(made.err, Not(HasSubstr("without effect")));
    return made.code == 0 ? nlohmann::json::parse(made.out) : nlohmann::json();
  }

 private:
  test::TemporaryFolder folder_;
  nlohmann::json config_, tokenizer_ = {{"version", "1.0"}};
};

// The first token of the text, found by halves of all tokens as ends.
int first_token(LlamaWithTokenizer& model) {
  int begin = 0, end = 256;
  while (end - begin > 1) {
    const int middle = (begin + end) / 2;
    std::vector<int> half(static_cast<std::size_t>(middle - begin));
    std::iota(half.begin(), half.end(), begin);
    model.end_with(half, true);
    (model.text()["tokens"] == 1 ? end : begin) = middle;
  }
  return begin;
}

TEST(DecodeCommand, EndsATextWhereTheModelDoes) {
  LlamaWithTokenizer model;
  EXPECT_EQ(model.text()["finish_reason"], "length");
  const int first = first_token(model);
  for (const bool of_generation : {false, true}) {
    LlamaWithTokenizer other;
    for (const nlohmann::json& ends : {nlohmann::json(first), nlohmann::json({first == 0 ? 1 : 0, first})}) {
      other.end_with(ends, of_generation);
      EXPECT_EQ(other.text()["tokens"], 1);
      EXPECT_EQ(other.text()["finish_reason"], "stop");
      EXPECT_EQ(other.text({"--ignore-end"})["tokens"], 6);
    }
    other.end_with("x", of_generation);
    EXPECT_THAT(outcome_of({"decode", other.path(), "abc"}).err, HasSubstr("eos_token_id is \"x\", a token or a list of tokens was expected"));
  }
  LlamaWithTokenizer named;
  named.write("tokenizer_config.json", {{"eos_token", fmt::format("<0x{:02X}>", first)}});
  EXPECT_EQ(named.text()["finish_reason"], "stop");
}

TEST(DecodeCommand, BeginsATextAsItsTokenizerDoes) {
  LlamaWithTokenizer model;
  model.write("tokenizer_config.json", {{"bos_token", "<0x01>"}});
  EXPECT_EQ(model.text()["prompt_tokens"], 3) << "the tokenizer puts nothing before a text";
  EXPECT_EQ(model.text({"add_bos=true"})["prompt_tokens"], 4);
  model.begin_texts();
  EXPECT_EQ(model.text()["prompt_tokens"], 4);
  EXPECT_EQ(model.text({"add_bos=false"})["prompt_tokens"], 3);
}

// Tokens of the model that the tokenizer lacks have no text.
TEST(DecodeCommand, GoesOnThroughTokensWithoutText) {
  const LlamaWithTokenizer model(128);
  EXPECT_EQ(model.text()["tokens"], 6);
}

TEST(DecodeCommand, SaysWhatIsWrong) {
  const test::TemporaryFolder folder;
  EXPECT_THAT(outcome("decode").err, HasSubstr("which model?"));
  EXPECT_THAT(outcome("decode " + folder.path() + " abc").err, HasSubstr(folder.path()));
  EXPECT_THAT(outcome("decode " + llama() + " abc").err, HasSubstr("the folder has no tokenizer.json and no tokenizer.model"));
  EXPECT_THAT(decode({"abc", "ici_fsdp=2"}).err, HasSubstr("ici_fsdp"));
  const std::string large = "tokenizer_path=" + (test::source_folder() / "tests/golden/tokenizers/bytelevel-gpt2").string();
  EXPECT_THAT(decode({"abc", large}).err, HasSubstr("the tokenizer has ids up to"));
  EXPECT_THAT(decode({"abc", large, "tokenizer_type=tiktoken"}).err, HasSubstr("tokenizer_type=tiktoken is not read"));
  const auto refusal = [&](const std::string& lines) { return decode({"--file", folder.write("p.jsonl", lines)}).err; };
  EXPECT_THAT(refusal("{\"text\": 1}\n"), HasSubstr("p.jsonl:1: 'prompt' is missing"));
  EXPECT_THAT(refusal("\n{\"prompt\": \"a\", \"max_tokens\": 0}\n"), HasSubstr("p.jsonl:2: 'max_tokens' is 0, 1 to 1000000000 was expected"));
  EXPECT_THAT(refusal("{\"prompt\": \"a\", \"max_tokens\": 9223372036854775807}\n"), HasSubstr("'max_tokens' is 9223372036854775807, 1 to"));
  EXPECT_THAT(refusal("{\"prompt\": \"a\", \"stop\": 5}\n"), HasSubstr("'stop' is neither a text nor a list of texts"));
  EXPECT_THAT(refusal("{\"prompt\": \"a\", \"max_token\": 3}\n"), HasSubstr("p.jsonl:1: 'max_token' says nothing about a prompt"));
  EXPECT_THAT(refusal("\n"), HasSubstr("no line is a prompt"));
  EXPECT_THAT(decode({"abc", "max_target_length=3"}).err, HasSubstr("3 tokens, and 3 at most make a text with what follows"));
  EXPECT_THAT(decode({""}).err, HasSubstr("a prompt without any token"));
  folder.write("config.json", "{");
  EXPECT_THAT(outcome("decode " + folder.path() + " abc").err, HasSubstr(folder.path() + "/config.json"));
}

TEST(DecodeCommandSlow, GoesOnWithTheParametersOfARun) {
  const test::TemporaryFolder folder;
  const std::string request =
      test::kTinyMixtral + "vocab_size=256 enable_checkpointing=true steps=2 run_name=r compile_topology=cpu-4 ici_fsdp_parallelism=4 "
                           "max_target_length=16 base_output_directory=" + folder.path();
  ASSERT_EQ(test::train_with(request).code, 0);
  const Outcome made = outcome_of({"decode", folder.path() + "/r", "abc", "--max-tokens", "5"});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.err, HasSubstr("the parameters of step 1 from " + folder.path() + "/r/checkpoints/1"));
  const Outcome on_two = outcome_of({"decode", folder.path() + "/r", "abc", "--max-tokens", "5", "compile_topology=cpu-2", "scan_layers=false"});
  EXPECT_EQ(on_two.out, made.out) << on_two.err;
}

// What only training needs of a run's settings is left behind; what is not plain is read as it was written.
TEST(DecodeCommandSlow, GoesOnWithRunsOfAnySettings) {
  const test::TemporaryFolder folder;
  const std::string model = folder.write("small.yml", "base_num_decoder_layers: 1\n");
  const std::string kept = test::kTinyMixtral + "vocab_size=256 enable_checkpointing=true steps=1 max_target_length=16 base_output_directory=" +
                           folder.path() + " run_name=";
  const auto decoded = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> words = test::words_of("train " + kept + name);
    words.insert(words.end(), more.begin(), more.end());
    const Outcome trained = outcome_of(words);
    EXPECT_EQ(trained.code, 0) << trained.err;
    const Outcome made = outcome_of({"decode", folder.path() + "/" + name, "abc", "--max-tokens", "3", "--json"});
    EXPECT_EQ(made.code, 0) << name << ": " << made.err;
    EXPECT_THAT(made.err, AllOf(HasSubstr("1 row of 6 tokens"), Not(HasSubstr("gives way")))) << name;
  };
  decoded("words", {"adamw_mask=['[a-z]+/scale','sca{1,3}le,x','it''s']"});
  decoded("rows", {"per_device_batch_size=16"});
  decoded("shared", {"per_device_batch_size=0.5", "compile_topology=cpu-2", "ici_context_parallelism=2", "max_target_length=8"});
  decoded("passes", {"gradient_accumulation_steps=2"});
  decoded("rules", {"custom_mesh_and_rule=ep-tp", "logical_axis_rules=[[vocab,[fsdp]]]", "num_experts=4", "base_num_kv_heads=2",
                    "compile_topology=cpu-2", "ici_expert_parallelism=2"});
  ASSERT_EQ(outcome_of(test::words_of("compile " + kept + "planned --save-plan " + folder.path() + "/p.plan")).code, 0);
  decoded("planned", {"plan=" + folder.path() + "/p.plan"});
}

// Equal prompts crowd the same experts, which must have room for all of them.
TEST(DecodeCommandSlow, GivesTheSameTextWhateverIsBesideItHoweverARunReachedItsExperts) {
  for (const std::string more : {"ragged_buffer_factor=0.5", "sparse_matmul=false capacity_factor=0.5", "num_moe_token_chunks=2",
                                 "use_random_routing=true", "router_skew=2"}) {
    const test::TemporaryFolder folder;
    const std::string request = test::kTinyMixtral + "num_experts=8 dense_init_scale=30 vocab_size=256 enable_checkpointing=true steps=1 " +
                                "max_target_length=16 run_name=r base_output_directory=" + folder.path() + " ";
    ASSERT_EQ(test::train_with(request + more).code, 0) << more;
    const auto texts = [&](const std::string& options) {
      const Outcome made = outcome("decode " + folder.path() + "/r --max-tokens 5 --json " + options);
      EXPECT_EQ(made.code, 0) << more << ": " << made.err;
      std::set<std::string> different;
      for (const std::string& line : split(made.out, '\n')) {
        if (!line.empty()) different.insert(line);
      }
      return different;
    };
    const std::set<std::string> alone = texts("abcdefgh");
    std::string crowd = "--batch 8 compile_topology=cpu-4 ici_fsdp_parallelism=1 ici_expert_parallelism=4";
    for (int i = 0; i < 8; ++i) crowd += " abcdefgh";
    EXPECT_EQ(texts(crowd), alone) << more;
    EXPECT_EQ(texts("aaaa --batch 8"), texts("aaaa")) << more << ": the second is prefilled";
  }
}

TEST(DecodeCommandSlow, FindsFilesThatARunNamedFromAnotherFolder) {
  const test::TemporaryFolder folder;
  folder.write("small.yml", "base_num_decoder_layers: 1\n");
  folder.write("rules.yml", "logical_axis_rules: [[vocab, [fsdp]]]\n");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  std::string tiny = test::kTinyModel;
  const Outcome trained = test::train_with(tiny + "model_name=small.yml custom_mesh_and_rule=rules.yml vocab_size=256 enable_checkpointing=true "
                                                  "override_model_config=true steps=1 max_target_length=16 run_name=r base_output_directory=" +
                                           folder.path());
  std::filesystem::current_path(before);
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Outcome made = outcome_of({"decode", folder.path() + "/r", "abc", "--max-tokens", "3"});
  EXPECT_EQ(made.code, 0) << made.err;
}

// The recorded llama has 256 positions, and max_target_length is 2048 by default.
TEST(DecodeCommand, ATextEndsWithTheModelsPositionsUnlessALengthIsGiven) {
  const std::string prompt(250, 'a');
  const std::string beyond = "max_target_length=300 goes beyond the max_position_embeddings=256 that the model is meant for";
  const Outcome usual = decode({prompt, "--max-tokens", "20", "--json"});
  EXPECT_EQ(usual.code, 0) << usual.err;
  EXPECT_THAT(usual.err, AllOf(HasSubstr("1 row of 256 tokens at most"), Not(HasSubstr("goes beyond"))));
  EXPECT_EQ(nlohmann::json::parse(usual.out)["tokens"], 6);
  const Outcome given = decode({prompt, "--max-tokens", "20", "--json", "max_target_length=300"});
  EXPECT_THAT(given.err, AllOf(HasSubstr("1 row of 270 tokens at most"), HasSubstr(beyond)));
  EXPECT_EQ(nlohmann::json::parse(given.out)["tokens"], 20);
  EXPECT_THAT(decode({"abc", "--max-tokens", "5", "max_target_length=300"}).err, Not(HasSubstr("goes beyond")));
  EXPECT_THAT(decode({std::string(256, 'a')}).err, HasSubstr("256 tokens, and 256 at most make a text with what follows"));
}

TEST(DecodeCommand, RefusesACacheThatTheMachineHasNoRoomFor) {
  const Outcome made = outcome("decode " + llama() +
                               " tokenizer_path= abc --max-tokens 999999990 "
                               "max_target_length=1000000000 --batch 1000");
  EXPECT_EQ(made.code, 2);
  EXPECT_THAT(made.err,
              ::testing::ContainsRegex("weights and KV cache take [0-9.]+ [KMGT]iB, [0-9.]+ [KMGT]iB are free\n"
                                       "  fix: fewer texts at a time \\(--batch\\), a shorter max_target_length, or a smaller model"));
}

}  // namespace
}  // namespace moesh::cli
