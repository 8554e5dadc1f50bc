// Compares the gradients of sparse experts on meshes with finite differences of the same program, in float64.
#include "tests/nn/moe/layer_support.h"

namespace moesh::nn::test {
namespace {

struct SlopeCase {
  std::string name;
  LayerCase of;
};

void PrintTo(const SlopeCase& of, std::ostream* out) { *out << of.name; }

SlopeCase slope_case(const std::string& name, const std::map<std::string, std::int64_t>& axes, bool ring, const std::string& rules = {}) {
  SlopeCase made{name, {.rules = rules, .axes = axes, .rows = 4, .length = 4, .emb = 4}};
  made.of.moe = {.experts = 4, .experts_per_token = 2, .mlp_dim = 4, .bias = true, .ring = ring};
  made.of.skew = 1;
  return made;
}

std::vector<SlopeCase> slope_cases() {
  std::vector<SlopeCase> all;
  for (const bool ring : {false, true}) {
    const std::string way = ring ? "ring_" : "all_to_all_";
    all.push_back(slope_case(way + "expert2", {{"expert", 2}}, ring));
    all.push_back(slope_case(way + "expert4", {{"expert", 4}}, ring));
    all.push_back(slope_case(way + "expert4_data2", {{"expert", 4}, {"data", 2}}, ring));
    all.push_back(slope_case(way + "expert2_tensor2", {{"expert", 2}, {"tensor", 2}}, ring));
    all.push_back(slope_case(way + "expert2_context2_fsdp2", {{"expert", 2}, {"context", 2}, {"fsdp", 2}}, ring));
    all.push_back(slope_case(way + "cp_as_ep", {{"expert", 2}, {"context", 2}}, ring, "cp-as-ep"));
    all.push_back(slope_case(way + "ep_tp", {{"expert", 4}}, ring, "ep-tp"));
    all.push_back(slope_case(way + "weighted_inputs", {{"expert", 2}, {"data", 2}}, ring));
    all.back().of.moe.weights_inputs = true;
    all.push_back(slope_case(way + "chunks", {{"expert", 2}, {"tensor", 2}}, ring));
    all.back().of.moe.token_chunks = all.back().of.moe.width_chunks = 2;
    all.push_back(slope_case(way + "row_limit", {{"expert", 2}, {"data", 2}}, ring));
    all.back().of.moe.buffer_factor = 0.75;
    all.push_back(slope_case(way + "lone_row", {{"expert", 2}, {"tensor", 2}}, ring));
    all.back().of.rows = 1;
  }
  for (SlopeCase& made : all) made.of.rows = made.of.rows > 1 && made.of.axes.contains("data") ? 8 : made.of.rows;
  return all;
}

class SparseGradient : public ::testing::TestWithParam<SlopeCase> {};

TEST_P(SparseGradient, IsTheSlope) {
  // Differences with a step of 1e-5 are off by 1e-10 from rounding and by some 1e-9 from the third derivative.
  constexpr double kStep = 1e-5, kTolerance = 1e-7;
  const LayerCase& of = GetParam().of;
  const Layer layer(of);
  std::vector<Numbers> feeds = feeds_of(of, layer);
  const std::vector<Numbers> results = layer.run(feeds);
  const auto loss = [&] {
    const Numbers out = layer.run(feeds)[0];
    double sum = 0;
    for (std::int64_t i = 0; i < out.count(); ++i) sum += out.at(i) * feeds[3].at(i);
    return sum;
  };
  std::vector<std::size_t> roots{0, 2};
  for (std::size_t feed = 4; feed < feeds.size(); ++feed) roots.push_back(feed);
  ASSERT_EQ(roots.size(), layer.gradients());
  for (std::size_t g = 0; g < roots.size(); ++g) {
    const Numbers before = feeds[roots[g]];
    double largest = 0;
    for (unsigned seed = 0; seed < 3; ++seed) {
      const Numbers direction = graph::test::noise(DType::float64, before.shape, 700 + seed);
      double along = 0;
      for (std::int64_t i = 0; i < before.count(); ++i) along += results[2 + g].at(i) * direction.at(i);
      const auto moved = [&](double step) {
        for (std::int64_t i = 0; i < before.count(); ++i) feeds[roots[g]].set(i, before.at(i) + step * direction.at(i));
        return loss();
      };
      const double slope = (moved(kStep) - moved(-kStep)) / (2 * kStep);
      EXPECT_NEAR(along, slope, kTolerance * (1 + std::abs(slope))) << "root " << roots[g];
      largest = std::max(largest, std::abs(slope));
    }
    EXPECT_GT(largest, 0.001) << "root " << roots[g] << " moves nothing: the case tests nothing";
    feeds[roots[g]] = before;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, SparseGradient, ::testing::ValuesIn(slope_cases()), [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace moesh::nn::test
