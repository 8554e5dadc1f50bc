// How an ordered list of rules becomes a spec: each clause of the semantics, and random lists compared with a naive oracle.
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sharding/rules.h"
#include "tests/support.h"

namespace moesh::sharding {
namespace {

using config::AxisRule;
using test::mesh_of;
using test::message_of;
using test::rule;

const mesh::Mesh& mesh_of_rules() {
  static const mesh::Mesh mesh = mesh_of({{"data", 2}, {"fsdp", 4}, {"one", 1}, {"tensor", 2}, {"expert", 8}});
  return mesh;
}

std::string spec(const Labels& labels, const std::vector<AxisRule>& rules) {
  return to_string(resolve_spec(labels, rules, mesh_of_rules()), mesh_of_rules());
}

TEST(Rules, TheFirstRuleInTheListWinsTheAxisWhateverTheOrderOfDims) {
  const AxisRule batch = rule("batch", {"fsdp", "expert"});
  const AxisRule exp = rule("exp", {"expert"});
  EXPECT_EQ(spec({"exp", "batch"}, {batch, exp}), "[-, (fsdp, expert)]");
  EXPECT_EQ(spec({"batch", "exp"}, {batch, exp}), "[(fsdp, expert), -]");
  EXPECT_EQ(spec({"exp", "batch"}, {exp, batch}), "[expert, -]");
}

TEST(Rules, ARuleIsTakenWholeOrPassedOverWhole) {
  EXPECT_EQ(spec({"a", "b"}, {rule("a", {"fsdp"}), rule("b", {"data", "fsdp", "tensor"})}), "[fsdp, -]");
  EXPECT_EQ(spec({"a", "b"}, {rule("a", {"fsdp"}), rule("b", {"data", "tensor"})}), "[fsdp, (data, tensor)]");
}

TEST(Rules, ALaterRuleOfTheSameLabelIsTheFallback) {
  const std::vector<AxisRule> rules{rule("mlp", {"one", "tensor"}), rule("embed", {"fsdp", "one"}),
                                    rule("embed", {"fsdp"})};
  EXPECT_EQ(spec({"embed", "mlp"}, rules), "[fsdp, (one, tensor)]");
  EXPECT_EQ(spec({"embed"}, rules), "[(fsdp, one)]");
}

TEST(Rules, AnAxisOfSizeOneBlocksLikeAnyOther) {
  EXPECT_EQ(spec({"a", "b"}, {rule("a", {"one"}), rule("b", {"fsdp", "one"})}), "[one, -]");
}

TEST(Rules, AnAxisOutsideTheMeshDoesNotExist) {
  EXPECT_EQ(spec({"a", "b"}, {rule("a", {"nowhere", "data"}), rule("b", {"nowhere", "fsdp"})}), "[data, fsdp]");
}

TEST(Rules, ARuleWithoutAxesSettlesItsDim) {
  EXPECT_EQ(spec({"a"}, {rule("a", {}), rule("a", {"fsdp"})}), "[-]");
  EXPECT_EQ(spec({"a"}, {rule("a", {"nowhere"}), rule("a", {"fsdp"})}), "[-]");
}

TEST(Rules, ADimTakesOneRuleOnly) { EXPECT_EQ(spec({"a"}, {rule("a", {"data"}), rule("a", {"fsdp"})}), "[data]"); }

TEST(Rules, ADimThatNoRuleReachesIsReplicated) {
  EXPECT_EQ(spec({"a", "", "b"}, {rule("b", {"fsdp"}), rule("", {"data"})}), "[-, -, fsdp]");
  EXPECT_EQ(spec({}, {rule("a", {"fsdp"})}), "[]");
  EXPECT_EQ(spec({"a"}, {}), "[-]");
}

TEST(Rules, AxesKeepTheOrderOfTheRule) { EXPECT_EQ(spec({"a"}, {rule("a", {"tensor", "data"})}), "[(tensor, data)]"); }

TEST(Rules, ALabelOnTwoDimsIsRefused) {
  EXPECT_EQ(message_of([] {
              resolve({"x", "a", "", "", "a"}, {}, mesh_of_rules(), "decoder/w");
            }),
            "decoder/w: label 'a' stands on dims 1 and 4, a label names one dim");
}

TEST(Rules, TheStepsTellWhatBecameOfEachRule) {
  const std::vector<AxisRule> rules{rule("other", {"data"}), rule("b", {"tensor", "fsdp"}),
                                    rule("a", {"fsdp"}),     rule("b", {"data"}),
                                    rule("a", {}),           rule("c", {"nowhere"})};
  const Resolution found = resolve({"a", "b", "c"}, rules, mesh_of_rules());
  ASSERT_EQ(found.steps.size(), 5u);
  EXPECT_EQ(found.steps[0].rule, 1u);
  EXPECT_EQ(found.steps[0].dim, 1u);
  EXPECT_EQ(found.steps[0].outcome, Outcome::taken);
  EXPECT_EQ(found.steps[1].outcome, Outcome::axis_taken);
  EXPECT_EQ(found.steps[1].dim, 0u);
  EXPECT_EQ(found.steps[1].blocking_dim, 1u);
  EXPECT_EQ(mesh_of_rules().axis(found.steps[1].blocking_axis).name, "fsdp");
  EXPECT_EQ(found.steps[2].outcome, Outcome::dim_assigned);
  EXPECT_EQ(found.steps[2].settling_rule, 1u);
  EXPECT_EQ(found.steps[3].outcome, Outcome::settled);
  EXPECT_EQ(found.steps[3].rule, 4u);
  EXPECT_EQ(found.steps[4].outcome, Outcome::settled);
  EXPECT_EQ(to_string(found.spec, mesh_of_rules()), "[-, (tensor, fsdp), -]");
}

// The semantics written again from their description alone, with names and sets and one dim at a time.
std::vector<std::vector<std::string>> oracle(const Labels& labels, const std::vector<AxisRule>& rules,
                                             const std::set<std::string>& axes_of_mesh) {
  std::map<std::size_t, std::vector<std::string>> given;
  std::set<std::string> used;
  for (const AxisRule& r : rules) {
    for (std::size_t dim = 0; dim < labels.size(); ++dim) {
      if (labels[dim].empty() || labels[dim] != r.label) continue;
      std::vector<std::string> wanted;
      bool free = !given.contains(dim);
      for (const std::string& axis : r.axes) {
        if (!axes_of_mesh.contains(axis)) continue;
        wanted.push_back(axis);
        if (used.contains(axis)) free = false;
      }
      if (!free) continue;
      given[dim] = wanted;
      used.insert(wanted.begin(), wanted.end());
    }
  }
  std::vector<std::vector<std::string>> spec(labels.size());
  for (const auto& [dim, axes] : given) spec[dim] = axes;
  return spec;
}

class Random {
 public:
  std::size_t below(std::size_t bound) { return std::uniform_int_distribution<std::size_t>(0, bound - 1)(engine_); }

  std::vector<std::string> some(std::vector<std::string> pool, std::size_t most) {
    std::shuffle(pool.begin(), pool.end(), engine_);
    pool.resize(below(std::min(most, pool.size()) + 1));
    return pool;
  }

 private:
  std::mt19937_64 engine_{20240229};
};

const std::vector<std::string> kAxes{"a", "b", "c", "d", "e", "f"};
const std::vector<std::string> kLabels{"l0", "l1", "l2", "l3", "l4", "l5"};

TEST(Rules, AgreeWithANaiveOracleOn100000RandomCases) {
  Random random;
  std::int64_t sharded = 0;
  std::int64_t blocked = 0;
  for (int n = 0; n < 100'000; ++n) {
    std::vector<std::pair<std::string, std::int64_t>> sizes;
    for (const std::string& axis : random.some(kAxes, 5)) sizes.emplace_back(axis, 1 + random.below(4));
    const mesh::Mesh mesh = mesh_of(sizes);
    std::set<std::string> in_mesh;
    for (const auto& [axis, size] : sizes) in_mesh.insert(axis);
    Labels labels = random.some(kLabels, 5);
    if (random.below(4) == 0)
      labels.insert(labels.begin() + static_cast<std::ptrdiff_t>(random.below(labels.size() + 1)), 2, "");
    std::vector<AxisRule> rules;
    for (std::size_t r = random.below(12); r > 0; --r) {
      rules.push_back(rule(random.below(20) == 0 ? "" : kLabels[random.below(kLabels.size())], random.some(kAxes, 4)));
    }

    const Resolution found = resolve(labels, rules, mesh);
    std::vector<std::vector<std::string>> names;
    for (const AxisList& axes : found.spec.dims) {
      names.emplace_back();
      for (const AxisIndex axis : axes) names.back().push_back(mesh.axis(axis).name);
      sharded += axes.empty() ? 0 : 1;
    }
    ASSERT_EQ(names, oracle(labels, rules, in_mesh)) << "case " << n;
    ASSERT_TRUE(found.spec.partial.empty());
    for (const RuleStep& step : found.steps) blocked += step.outcome == Outcome::axis_taken ? 1 : 0;
  }
  // Enough of the random cases shard a dim, and enough are blocked by a taken axis.
  EXPECT_GT(sharded, 40'000);
  EXPECT_GT(blocked, 20'000);
}

}  // namespace
}  // namespace moesh::sharding
