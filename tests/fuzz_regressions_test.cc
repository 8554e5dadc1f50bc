// Inputs found by fuzzing and hostile command lines: each goes through the function that it broke, and must end in an error
// or in a result.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "base/log.h"
#include "config/pipeline.h"
#include "fuzz/targets.h"
#include "tests/paths.h"

namespace moesh::fuzz {
namespace {

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename Target>
void run_cases(const std::string& folder, Target target) {
  std::set<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_folder() / "tests/fuzz_regressions" / folder)) {
    paths.insert(entry.path());
  }
  ASSERT_FALSE(paths.empty());
  for (const std::filesystem::path& path : paths) {
    SCOPED_TRACE(path.string());
    EXPECT_NO_THROW(target(bytes_of(path)));
  }
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(FuzzRegressions, YamlEndsInATreeOrAnError) { run_cases("yaml", fuzz_yaml); }
TEST(FuzzRegressions, CommandLinesEndInALayoutOrAnError) { run_cases("overrides", fuzz_overrides); }
TEST(FuzzRegressions, RuleFilesEndInALayoutOrAnError) { run_cases("rules", fuzz_rules); }
TEST(FuzzRegressions, HardwareFilesEndInAMachineOrAnError) { run_cases("hardware", fuzz_hardware); }
TEST(FuzzRegressions, SafetensorsFilesEndInTensorsOrAnError) { run_cases("safetensors", fuzz_safetensors); }
TEST(FuzzRegressions, IndicesOfCheckpointsKeepTheirRulesOrEndInAnError) { run_cases("index", fuzz_index); }
TEST(FuzzRegressions, ConfigsOfHuggingFaceEndInAModelOrAnError) { run_cases("hugging_face", fuzz_hugging_face); }
TEST(FuzzRegressions, PrintedGraphsEndInAGraphOrAnError) { run_cases("graph", fuzz_graph); }
TEST(FuzzRegressions, TokenizersKeepTheirRulesOrEndInAnError) { run_cases("tokenizer", fuzz_tokenizer); }
TEST(FuzzRegressions, TextsHaveTokensThatKeepTheRules) {
  const auto tokenizers = tokenizers_of((test::source_folder() / "tests/golden/tokenizers").string());
  run_cases("text", [&](const std::string& text) { fuzz_text(text, tokenizers); });
}
TEST(FuzzRegressions, CompletionsKeepTheServersBoundsOrEndInWordsForTheClient) { run_cases("completion", fuzz_completion); }
TEST(FuzzRegressions, JsonLinesEndInDocumentsOrAnError) { run_cases("lines", fuzz_lines); }
TEST(FuzzRegressions, MegatronsIndicesEndInDocumentsOrAnError) { run_cases("megatron", fuzz_megatron); }
TEST(FuzzRegressions, SavedPlansEndInAPlanOrAnError) { run_cases("plan", fuzz_plan); }

// Deletes, duplicates, swaps or replaces lines, and changes single characters.
std::string mutated(const std::string& text, std::mt19937& random) {
  std::vector<std::string> lines = split(text, '\n');
  for (std::size_t times = 1 + random() % 3; times > 0; --times) {
    std::string& line = lines[random() % lines.size()];
    const std::string& other = lines[random() % lines.size()];
    switch (random() % 5) {
      case 0: line = other; break;
      case 1: std::swap(line, lines[random() % lines.size()]); break;
      case 2: lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(random() % lines.size()), other); break;
      default:
        if (!line.empty()) line[random() % line.size()] = "0123456789-=[](){}, fsx"[random() % 23];
    }
  }
  return join(lines, "\n");
}

// A small share of the fuzzers' work, for builds that have no fuzzers.
TEST(FuzzRegressions, MutatedPlansAndGraphsEndWellOrInAnError) {
  std::mt19937 random(1);
  const std::string loop = bytes_of(test::source_folder() / "fuzz/corpus/plan/loop"), rows = bytes_of(test::source_folder() / "fuzz/corpus/plan/rows");
  const session::Session session = session::open(small_request());
  const std::string graph = graph::to_text(session.graph);
  for (int i = 0; i < 3000; ++i) {
    EXPECT_NO_THROW(fuzz_plan(mutated(i % 2 == 0 ? loop : rows, random)));
    if (i % 10 != 0) continue;
    EXPECT_NO_THROW(fuzz_graph(mutated(graph, random)));
  }
}

// The same for tokenizers, starting from the fuzzer's corpus.
TEST(FuzzRegressions, MutatedTokenizersEndWellOrInAnError) {
  std::mt19937 random(2);
  hear_notices(false);
  std::vector<std::string> seeds;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_folder() / "fuzz/corpus/tokenizer")) {
    seeds.push_back(bytes_of(entry.path()));
    EXPECT_NO_THROW(tokenizer::read_tokenizer_json(parse_json(after_first_line(seeds.back()), "seed"), "seed")) << entry.path();
  }
  for (int i = 0; i < 3000; ++i) {
    std::string input = seeds[random() % seeds.size()];
    for (std::size_t times = 1 + random() % 3; times > 0; --times) {
      const std::string &other = seeds[random() % seeds.size()];
      const std::size_t from = random() % other.size(), at = random() % input.size();
      if (random() % 2 == 0) input[at] = "0123456789-\"[]{}:,abx"[random() % 21];
      else input.replace(at, random() % 12, other.substr(from, random() % 12));
    }
    EXPECT_NO_THROW(fuzz_tokenizer(input));
  }
  hear_notices(true);
}

// The same for completion requests.
TEST(FuzzRegressions, MutatedCompletionsKeepTheServersBoundsOrEndInWordsForTheClient) {
  std::mt19937 random(3);
  const std::string folder = (test::source_folder() / "fuzz/corpus/completion").string();
  const std::vector<std::string> seeds{bytes_of(folder + "/text"), bytes_of(folder + "/tokens")};
  for (int i = 0; i < 3000; ++i) {
    std::string input = seeds[random() % seeds.size()];
    const std::string& other = seeds[random() % seeds.size()];
    for (std::size_t times = 1 + random() % 3; times > 0; --times) {
      const std::size_t from = random() % other.size(), at = random() % input.size();
      if (random() % 2 == 0) input[at] = "0123456789-\"[]{}:,abx"[random() % 21];
      else input.replace(at, random() % 12, other.substr(from, random() % 12));
    }
    EXPECT_NO_THROW(fuzz_completion(input));
  }
}

// The fuzzer's seeds must be valid plans, or it would hardly get past the parser.
TEST(FuzzRegressions, SavedPlansInTheCorpusAreRead) {
  for (const auto& entry : std::filesystem::directory_iterator(test::source_folder() / "fuzz/corpus/plan")) {
    EXPECT_NO_THROW(plan::parse_file(with_good_head(bytes_of(entry.path())), entry.path().string()));
  }
}

// A layer that is not stacked has a graph of its own, so the number of such layers must be bounded before memory runs out.
TEST(FuzzRegressions, LayersThatAreWrittenOutOneByOneAreBounded) {
  const auto shape_of = [](const std::vector<std::string>& words) { config::model_shape(config::load(words).settings); };
  const std::string layers = "base_num_decoder_layers=1000000";
  EXPECT_NO_THROW(shape_of({layers}));
  EXPECT_THROW(shape_of({layers, "scan_layers=false"}), Error);
  EXPECT_THROW(shape_of({layers, "inhomogeneous_layer_cycle_interval=1000000", "decoder_block=gpt_oss", "num_experts=4",
                         "num_experts_per_tok=2", "mlp_activations_limit=7"}),
               Error);
}

TEST(FuzzRegressions, LayersOfAStageThatAreWrittenOutOneByOneAreBounded) {
  const auto shape_of = [](const std::vector<std::string>& words) {
    config::pipeline_shape(config::load(words).settings, 1'000'000, 8);
  };
  EXPECT_NO_THROW(shape_of({"ici_pipeline_parallelism=8"}));
  EXPECT_THROW(shape_of({"ici_pipeline_parallelism=8", "num_layers_per_pipeline_stage=125000"}), Error);
}

TEST(FuzzRegressions, BoundsSayWhichIsTooLarge) {
  const auto message = [](const std::string& text) {
    try {
      config::load({text});
    } catch (const Error& e) { return std::string(e.what()); }
    return std::string();
  };
  std::string axes;
  for (int i = 0; i < 65; ++i) axes += "a" + std::to_string(i) + ",";
  EXPECT_NE(message("logical_axis_rules=[[embed, [" + axes + "]]]").find("rule 'embed' names 65 axes, at most 64 are held"), std::string::npos);
  const auto refused = [](const std::vector<std::string>& words) {
    try {
      const config::Settings settings = config::load(words).settings;
      config::model_shape(settings);
      config::pipeline_shape(settings, 1'000'000, 8);
    } catch (const Error& e) { return std::string(e.what()); }
    return std::string();
  };
  EXPECT_NE(refused({"decoder_block=olmo3", "base_num_decoder_layers=5000", "inhomogeneous_layer_cycle_interval=5000"}).find("a cycle of 5,000 layers, at most 4096 are written out"), std::string::npos);
  EXPECT_NE(refused({"ici_pipeline_parallelism=8", "num_layers_per_pipeline_stage=5000"}).find("5,000 layers of a stage one by one, at most 4096 are written out"), std::string::npos);
}

// Each anchor keeps a copy of everything below it, so nested anchors multiply the size.
TEST(FuzzRegressions, CopiesKeptForAnchorsCountAgainstTheLimit) {
  const std::string text = repeated("&a [", 100) + repeated("x, ", 500) + "x" + repeated("]", 100);
  EXPECT_NO_THROW(config::parse_yaml(repeated("[", 100) + repeated("x, ", 500) + "x" + repeated("]", 100), "nested"));
  EXPECT_THROW(config::parse_yaml(text, "nested", {100'000, 2000}), Error);
}

TEST(FuzzRegressions, TextThatAliasesRepeatCountsAgainstTheLimitOfBytes) {
  const std::string text = "- &a " + std::string(50'000, 'x') + "\n" + repeated("- *a\n", 20);
  EXPECT_THROW(config::parse_yaml(text, "aliases", {100'000, 2000}), Error);
}

TEST(FuzzRegressions, AMegabyteOfAKeyIsRefusedAtOnce) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(config::nearest_keys(std::string(1'000'000, 'k')).size(), 0u);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(FuzzRegressions, ARuleOfManyAxesIsRefusedAtOnce) {
  std::string axes;
  for (int i = 0; i < 100'000; ++i) axes += "a" + std::to_string(i) + ",";
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(config::load({"logical_axis_rules=[[embed, [" + axes + "]]]"}), Error);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(FuzzRegressions, ThousandsOfOverridesOfOneKeyCostNoMoreThanTheirReading) {
  std::vector<std::string> words;
  for (int i = 0; i < 10'000; ++i) words.push_back("logical_axis_rules=[[a" + std::to_string(i) + ", [fsdp]]]");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_NO_THROW(config::load(words));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

// The same for the commands of other programs.
TEST(FuzzRegressions, MutatedCommandsOfOtherProgramsEndInKeysOrAnError) {
  std::mt19937 random(4);
  std::vector<std::string> seeds, words;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_folder() / "fuzz/corpus/foreign")) {
    seeds.push_back(bytes_of(entry.path()));
    for (std::string& word : split(seeds.back(), ' ')) words.push_back(std::move(word));
    EXPECT_NO_THROW(fuzz_foreign(seeds.back()));
  }
  for (int i = 0; i < 1500; ++i) {
    std::vector<std::string> command = split(seeds[random() % seeds.size()], ' ');
    for (std::size_t times = 1 + random() % 3; times > 0; --times) {
      std::string& word = command[random() % command.size()];
      switch (random() % 4) {
        case 0: word = words[random() % words.size()]; break;
        case 1: command.push_back(words[random() % words.size()]); break;
        case 2: command.erase(command.begin() + static_cast<std::ptrdiff_t>(random() % command.size())); break;
        default: if (!word.empty()) word[random() % word.size()] = "0123456789-=[](){}*+'\"\\$ fsx"[random() % 29];
      }
      if (command.empty()) command.emplace_back("0");
    }
    EXPECT_NO_THROW(fuzz_foreign(join(command, " ")));
  }
}

TEST(FuzzRegressions, CommandsOfOtherProgramsEndInKeysOrAnError) { run_cases("foreign", fuzz_foreign); }

}  // namespace
}  // namespace moesh::fuzz
