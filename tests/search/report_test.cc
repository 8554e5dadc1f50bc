// What a search tells of its front: as text, as JSON and on a page.
#include "search/report.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/search/found.h"

namespace moesh::search {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(SearchReport, TellsWhatIsNotTriedWhereNothingFitsToo) {
  Outcome outcome;
  const auto text_of = [&] {
    const Told told{.machines = {{"v5p-8", {"model_name=llama2-7b"}, 4, outcome}}, .against = {}};
    const std::string text = to_text(told, 0);
    for (const auto& what : nlohmann::json::parse(to_json(told))["not_tried"]) EXPECT_THAT(text, HasSubstr(what.get<std::string>()));
    return text;
  };
  EXPECT_THAT(text_of(), ::testing::Not(HasSubstr("rows a device at a time")));
  outcome.has_open_batch = true;
  EXPECT_THAT(text_of(), HasSubstr("; more than 64 rows a device at a time; of batches between powers of two any but the largest that fits; "));
}

TEST(SearchReport, TellsOfDecodingFromManyRowsToFew) {
  Outcome outcome;
  outcome.beside = Beside::step;
  for (int i = 0; i < 30; ++i) {
    outcome.front.push_back(found(1.0 + i, 50));
    outcome.front.back().offer.keys = {fmt::format("per_device_batch_size={}", 30 - i)};
  }
  const Told told{.stage = session::DecodeStage::prompt, .machines = {{"v5p-8", {"model_name=llama2-7b"}, 4, outcome}}, .against = {}};
  const std::string text = to_text(told, 0);
  EXPECT_THAT(text, HasSubstr("\n 1  ./moesh compile --prefill model_name=llama2-7b per_device_batch_size=30\n"));
  EXPECT_THAT(text, HasSubstr("\n12  ./moesh compile --prefill model_name=llama2-7b per_device_batch_size=1\n"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("MFU"))) << "which decoding does not have";
  EXPECT_THAT(text, ::testing::Not(HasSubstr("remat_policy")));
  EXPECT_EQ(nlohmann::json::parse(to_json(told))["machines"][0]["front"].size(), 30u);
  EXPECT_THAT(front_of(told, "").sentences.back(), HasSubstr("better in both speed and the time of a step"));
}

TEST(SearchReport, TellsWhichChunksMaxTextTakes) {
  const auto told = [](const std::string& request, const std::vector<std::string>& keys) {
    Outcome outcome;
    outcome.front = {found(1.0, 50)};
    outcome.front.back().offer.keys = keys;
    return to_text(Told{.machines = {{"v5p-8", {"model_name=mixtral-8x7b", request}, 4, outcome}}, .against = {}}, 0);
  };
  const std::string words = "\nMaxText takes num_moe_token_chunks with use_ring_of_experts=true only.\n";
  EXPECT_THAT(told("steps=1", {"num_moe_token_chunks=2"}), HasSubstr(words));
  EXPECT_THAT(told("use_ring_of_experts=True", {"num_moe_token_chunks=2"}), ::testing::Not(HasSubstr(words)));
  EXPECT_THAT(told("steps=1", {"use_ring_of_experts=true", "num_moe_token_chunks=2"}), ::testing::Not(HasSubstr(words)));
  EXPECT_THAT(told("steps=1", {"remat_policy=full"}), ::testing::Not(HasSubstr(words)));
  EXPECT_THAT(told("steps=1", {"use_batch_split_schedule=true", "batch_split_factor=2"}),
              HasSubstr("\nMaxText takes use_batch_split_schedule with decoder_block=deepseek and shard_mode=explicit only.\n"));
}

// What differs stands alone, and with the rest it makes up both steps.
TEST(SearchReport, TellsAllOfTheTimeOfYoursAndOfTheBest) {
  Found yours = found(2.0, 50), best = found(1.0, 50);
  yours.limits = {{"products", 0.5}, {"all-gather over fsdp", 0.3}, {"attention", 0.1}, {"norms", 0.1}};
  best.limits = {{"products", 0.5}, {"attention", 0.2}, {"norms", 0.2}, {"all-reduce over data", 0.1}};
  Outcome outcome;
  outcome.front = {best};
  const Told told{.machines = {{"v5p-8", {"model_name=llama2-7b"}, 4, outcome}}, .against = Yours{{"model_name=llama2-7b"}, yours}};
  const std::string text = to_text(told, 0), table = text.substr(text.find("of a step "));
  EXPECT_THAT(table, StartsWith("of a step               yours  the best\n"
                                "all-gather over fsdp   600 ms   0.00 ms\n"));
  EXPECT_THAT(table, ::testing::AllOf(HasSubstr("\nproducts "), HasSubstr("\nall-reduce over data "), ::testing::Not(HasSubstr("\nattention ")),
                                      ::testing::Not(HasSubstr("\nnorms "))));
  EXPECT_THAT(table, ::testing::ContainsRegex("\nthe rest +400 ms +400 ms\nall +2\\.00 s +1\\.00 s\n"));
}

TEST(SearchReport, TellsTheTimeOfTheBestForTheTokensOfYours) {
  Found yours = found(2.0, 50), best = found(4.0, 50);
  yours.offer.tokens = 1000;
  best.offer.tokens = 4000;
  yours.limits = best.limits = {{"products", 1.0}};
  Outcome outcome;
  outcome.front = {best};
  const std::string text =
      to_text(Told{.machines = {{"v5p-8", {"model_name=llama2-7b"}, 4, outcome}}, .against = Yours{{"model_name=llama2-7b"}, yours}}, 0);
  EXPECT_THAT(text, HasSubstr("\nfor 1,000 tokens    yours  the best\nproducts           2.00 s    1.00 s\n"));
}

TEST(SearchReport, QuotesItsCommandsForAShell) {
  const Found best = found(1.0, 50);
  Found other = best;
  other.offer.keys = {"logical_axis_rules=[[embed, [fsdp]], [mlp, tensor]]"};
  Outcome outcome;
  outcome.front = {best, other};
  const Told told{.machines = {{"v5p-8", {"model_name=llama2-7b", "run_name=it's mine"}, 4, outcome}}, .against = {}};
  const std::string first = "./moesh compile model_name=llama2-7b 'run_name=it'\\''s mine'";
  const std::string second = first + " 'logical_axis_rules=[[embed, [fsdp]], [mlp, tensor]]'";
  EXPECT_THAT(to_text(told, 0), HasSubstr("\n 1  " + first + "\n 2  " + second + "\n"));
  EXPECT_EQ(nlohmann::json::parse(to_json(told))["machines"][0]["front"][1]["command"], second);
  EXPECT_EQ(front_of(told, "").table->rows[1].back().text, second);
}

}  // namespace
}  // namespace moesh::search
