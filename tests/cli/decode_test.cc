// `moesh decode`: continues texts with the model of a Hugging Face folder or of a run, and refuses wrong requests.
#include <algorithm>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/paths.h"
#include "tests/train/train_support.h"
#include "tests/train/trainer_support.h"

namespace moesh::cli {
namespace {

using ::testing::HasSubstr;
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
  EXPECT_THAT(refusal("\n{\"prompt\": \"a\", \"max_tokens\": 0}\n"), HasSubstr("p.jsonl:2: 'max_tokens' is 0, 1 or more was expected"));
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

}  // namespace
}  // namespace moesh::cli
