// What a model that is gone on with makes of a request.
#include "decode/source.h"

#include <gmock/gmock.h>

#include "config/load.h"
#include "store/index.h"
#include "tests/paths.h"
#include "tests/support.h"

namespace moesh::decode {
namespace {

using ::testing::Contains;
using ::testing::Not;

std::vector<std::string> request_for(const store::Settings& settings, const std::vector<std::string>& words = {}) {
  test::TemporaryFolder folder;
  store::Index index;
  index.about.settings = settings;
  folder.write("index.json", store::to_json(index));
  return decode::request_of(folder.path(), words);
}

TEST(Source, TakesOfARunWhatItsModelAndItsTextsAre) {
  const std::vector<std::string> request =
      request_for({{"base_emb_dim", "64"}, {"model_name", "mixtral-8x7b"}, {"steps", "7"}, {"tokenizer_path", "t.json"}});
  for (const char* word : {"base_emb_dim=64", "model_name=mixtral-8x7b", "tokenizer_path=t.json"}) EXPECT_THAT(request, Contains(word));
  EXPECT_THAT(request, Not(Contains("steps=7")));
}

TEST(Source, LeavesBehindHowARunSentItsBatchesToExperts) {
  const std::vector<std::string> left{"capacity_factor=1",        "moe_dispatch_no_expert_sharding=true", "ragged_buffer_factor=1.5",
                                      "use_ragged_sort=true",     "num_moe_token_chunks=2",               "moe_chunk_barrier=true",
                                      "use_random_routing=true",  "router_skew=1"};
  store::Settings saved{{"sparse_matmul", "false"}};
  for (const std::string& word : left) saved.emplace_back(word.substr(0, word.find('=')), word.substr(word.find('=') + 1));
  EXPECT_THAT(request_for(saved), Contains("sparse_matmul=false"));
  for (const std::string& word : left) EXPECT_THAT(request_for(saved), Not(Contains(word)));
  EXPECT_THAT(request_for(saved, {left[0]}), Contains(left[0])) << "words come behind a run's settings";
}

// A run writes down all its rules; those of a rule set come from its name.
TEST(Source, TakesTheRulesOfARunFromItsRuleSetIfItHasOne) {
  const std::string rules = "[[batch,[fsdp]]]";
  EXPECT_THAT(request_for({{"logical_axis_rules", rules}}), Contains("logical_axis_rules=" + rules));
  const std::vector<std::string> named = request_for({{"custom_mesh_and_rule", "ep-as-dp"}, {"logical_axis_rules", rules}});
  EXPECT_THAT(named, Contains("custom_mesh_and_rule=ep-as-dp"));
  EXPECT_THAT(named, Not(Contains("logical_axis_rules=" + rules)));
}

// A file gives way to a run's settings, and these to words; a word that names a file by a key is no file.
TEST(Source, PutsFilesBeforeARunsSettingsAndWordsBehindThem) {
  const store::Settings saved{{"custom_mesh_and_rule", "ep-tp"}};
  const std::string rules = "custom_mesh_and_rule=mine.yml", of_run = "custom_mesh_and_rule=ep-tp";
  const auto place = [](const std::vector<std::string>& request, const std::string& word) {
    return std::find(request.begin(), request.end(), word) - request.begin();
  };
  for (const std::vector<std::string>& words : {std::vector<std::string>{rules}, {rules, "base.yml"}, {"base.yml", rules}}) {
    const std::vector<std::string> request = request_for(saved, words);
    EXPECT_LT(place(request, of_run), place(request, rules)) << words.front();
    EXPECT_EQ(request.back(), rules);
    EXPECT_EQ(request.front() == "base.yml", words.size() > 1);
  }
}

TEST(Source, RunsOnOneDeviceUnlessDevicesAreNamed) {
  EXPECT_THAT(request_for({}), Contains("compile_topology=cpu-1"));
  EXPECT_THAT(request_for({}, {"dtype=float32"}), Contains("compile_topology=cpu-1"));
  for (const char* word : {"compile_topology=cpu-4", "ici_tensor_parallelism=2", "dcn_data_parallelism=2", "num_slices=2"})
    EXPECT_THAT(request_for({}, {word}), Not(Contains("compile_topology=cpu-1"))) << word;
}

TEST(Source, ATextOfAHuggingFaceModelHasNoMoreTokensThanItHasPositions) {
  const std::string llama = (test::source_folder() / "tests/golden/hf/llama").string();  // 256
  const auto slots = [](const std::string& words, std::int64_t longest) {
    return slots_of(config::load(test::words_of(words)).settings, longest);
  };
  EXPECT_EQ(slots_of(config::load({"model_name=" + llama}).settings), 256);
  EXPECT_EQ(slots("model_name=" + llama, 300), 256);
  EXPECT_EQ(slots("model_name=" + llama, 40), 40);
  EXPECT_EQ(slots("model_name=" + llama + " max_target_length=100", 300), 100);
  EXPECT_EQ(slots("model_name=" + llama + " max_target_length=400", 300), 300) << "as the user says";
  EXPECT_EQ(slots("model_name=llama2-7b max_position_embeddings=64", 300), 300) << "what MaxText does not heed";
  EXPECT_EQ(slots("model_name=llama2-7b", 3000), 2048);
}

TEST(Source, TakesAsManyRowsAsDevicesTake) {
  const auto rows = [](const std::string& request, std::int64_t usual, std::optional<std::int64_t> asked = {}) {
    return rows_for(
        session::open_to_decode(test::words_of("model_name=llama2-7b compile_topology=cpu-4 " + request), session::DecodeStage::token),
        asked, usual);
  };
  EXPECT_EQ(rows("", 3), 4);
  EXPECT_EQ(rows("", 4), 4);
  EXPECT_EQ(rows("", 5), 8);
  EXPECT_EQ(rows("per_device_batch_size=4", 5), 16) << "as the user says";
  EXPECT_EQ(rows("", 5, 3), 3);
  testing::internal::CaptureStderr();
  EXPECT_EQ(rows("per_device_batch_size=4", 5, 3), 3);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "moesh: note: per_device_batch_size is without effect beside --batch 3\n");
}

}  // namespace
}  // namespace moesh::decode
