// Compares layouts with those recorded in tests/golden/shardings: parameters, input and optimizer state one
// by one, while each recorded floating-point activation constraint must occur in the computed layout.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sharding/dump.h"
#include "tests/recorded.h"
#include "tests/support.h"

namespace moesh::cli {
namespace {

using Json = nlohmann::json;

const std::filesystem::path kFolder = test::source_folder() / "tests/golden/shardings";

std::vector<std::string> request_of(const Json& config) {
  const std::string scan = config.value("scan_layers", true) ? "true" : "false";
  std::vector<std::string> words{
      "model_name=" + config["model"].get<std::string>(), "compile_topology=" + config["topology"].get<std::string>(),
      "compile_topology_num_slices=" + std::to_string(config.value("slices", 1)), "scan_layers=" + scan};
  const std::string rule_set = config.value("custom_mesh_and_rule", "");
  if (!rule_set.empty()) words.push_back("custom_mesh_and_rule=" + rule_set);
  for (const auto& [key, value] : config["overrides"].items()) words.push_back(key + "=" + value.get<std::string>());
  return words;
}

using Sizes = std::map<std::string, std::int64_t>;
using PlainSpec = std::vector<std::vector<std::string>>;  // without axes of size 1 and without replicated dims at the end

Sizes sizes_in(const Json& mesh) {
  Sizes sizes;
  for (std::size_t i = 0; i < mesh["axes"].size(); ++i) {
    if (mesh["sizes"][i].get<std::int64_t>() > 1) sizes[mesh["axes"][i]] = mesh["sizes"][i];
  }
  return sizes;
}

PlainSpec plain(const Json& spec, const Sizes& sizes) {
  PlainSpec all;
  for (const Json& entry : spec) {
    std::vector<std::string> axes;
    if (entry.is_string()) axes = {entry.get<std::string>()};
    if (entry.is_array()) axes = entry.get<std::vector<std::string>>();
    std::erase_if(axes, [&](const std::string& axis) { return !sizes.contains(axis); });
    all.push_back(axes);
  }
  while (!all.empty() && all.back().empty()) all.pop_back();
  return all;
}

// Dims and their axes, in any order: a record without labels may be a transposed view of the activation here.
std::multiset<std::pair<std::int64_t, std::vector<std::string>>> dims_of(const Json& shape, const PlainSpec& spec) {
  std::multiset<std::pair<std::int64_t, std::vector<std::string>>> dims;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    dims.emplace(shape[i].get<std::int64_t>(), i < spec.size() ? spec[i] : std::vector<std::string>{});
  }
  return dims;
}

class GoldenShardings : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    golden_ = Json::parse(test::read_text(kFolder / (GetParam() + ".json")));
    ours_ = Json::parse(sharding::to_json(session::open(request_of(golden_["config"])).layout));
    sizes_ = sizes_in(golden_["mesh"]);
  }

  PlainSpec spec(const Json& value) const { return plain(value["spec"], sizes_); }

  Json golden_;
  Json ours_;
  Sizes sizes_;
};

TEST_P(GoldenShardings, LieAsRecorded) {
  EXPECT_EQ(sizes_in(ours_["mesh"]), sizes_);

  std::map<std::string, Json> mine;
  for (const Json& parameter : ours_["params"]) mine[parameter["path"]] = parameter;
  EXPECT_EQ(mine.size(), golden_["params"].size());
  for (const Json& want : golden_["params"]) {
    SCOPED_TRACE(want["path"].get<std::string>());
    ASSERT_TRUE(mine.contains(want["path"]));
    const Json& have = mine[want["path"]];
    EXPECT_EQ(have["shape"], want["shape"]);
    if (!want["logical"].is_null()) {
      EXPECT_EQ(have["logical"], want["logical"]);
    }
    EXPECT_EQ(spec(have), spec(want));
  }

  if (!golden_["input"].is_null()) {
    EXPECT_EQ(ours_["input"]["shape"], golden_["input"]["shape"]);
    EXPECT_EQ(ours_["input"]["logical"], golden_["input"]["logical"]);
    EXPECT_EQ(spec(ours_["input"]), spec(golden_["input"]));
  }

  const auto optimizer = [&](const Json& dump) {
    std::map<std::string, PlainSpec> moved;
    if (dump["optimizer"].is_array()) {
      for (const Json& entry : dump["optimizer"]) moved[entry["path"]] = spec(entry);
    }
    return moved;
  };
  EXPECT_EQ(optimizer(ours_), optimizer(golden_));

  std::set<std::tuple<Json, Json, PlainSpec>> labelled;
  std::set<std::multiset<std::pair<std::int64_t, std::vector<std::string>>>> bare;
  for (const Json& have : ours_["activations"]) {
    labelled.emplace(have["logical"], have["shape"], spec(have));
    bare.insert(dims_of(have["shape"], spec(have)));
  }
  for (const Json& want : golden_["activations"]) {
    const std::string dtype = want["dtype"];
    const bool helper = !dtype.starts_with("float") && !dtype.starts_with("bfloat");
    if (helper || want["where"] == "attention_op/arr") continue;
    const bool found = want["logical"].is_null() ? bare.contains(dims_of(want["shape"], spec(want)))
                                                 : labelled.contains({want["logical"], want["shape"], spec(want)});
    EXPECT_TRUE(found) << want.dump();
  }
}

INSTANTIATE_TEST_SUITE_P(Recorded, GoldenShardings, ::testing::ValuesIn(test::cases_in(kFolder)), test::test_name);

TEST(GoldenCases, AreAllHere) { EXPECT_EQ(test::cases_in(kFolder).size(), 83u); }

class GoldenRules : public ::testing::TestWithParam<std::string> {};

// A record holds the rules of the labels that its cases used, in order.
TEST_P(GoldenRules, AreThoseRecorded) {
  const Json recorded = Json::parse(test::read_text(kFolder / "_rules.json"))[GetParam()];
  std::vector<std::string> request;
  if (GetParam() != "default") request.push_back("custom_mesh_and_rule=" + GetParam());
  const config::Settings settings = config::load(request).settings;
  EXPECT_EQ(Json(settings.texts("mesh_axes")), recorded["mesh_axes"]);

  std::set<std::string> labels;
  for (const Json& entry : recorded["rules"]) labels.insert(entry[0]);
  Json ours = Json::array();
  for (const config::AxisRule& rule : settings.rules("logical_axis_rules")) {
    if (labels.contains(rule.label)) ours.push_back({rule.label, rule.axes});
  }
  EXPECT_EQ(ours, recorded["rules"]);
}

INSTANTIATE_TEST_SUITE_P(Recorded, GoldenRules,
                         ::testing::Values("default", "cp-as-ep", "ep-as-cp", "ep-as-dp", "pipeline-large-moe",
                                           "pure-fsdp", "shard-exp-on-fsdp"),
                         [](const auto& test) { return test::identifier(test.param); });

TEST(GoldenRuleSets, AreAllTested) { EXPECT_EQ(Json::parse(test::read_text(kFolder / "_rules.json")).size(), 7u); }

}  // namespace
}  // namespace moesh::cli
