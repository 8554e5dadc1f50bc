// Sparse experts on random meshes: the output and the gradients are the same as on one device.
#include <algorithm>
#include <random>
#include <set>

#include "nn/moe/dispatch.h"
#include "tests/nn/moe/layer_support.h"

namespace moesh::nn::test {
namespace {

using moesh::test::message_of;

class Draw {
 public:
  explicit Draw(unsigned seed) : engine_(seed) {}
  std::int64_t below(std::int64_t count) { return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(count)); }
  bool chance(int percent) { return below(100) < percent; }
  template <typename T>
  T one_of(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(below(static_cast<std::int64_t>(all.size())))];
  }

 private:
  std::mt19937 engine_;
};

std::int64_t rounded_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

// Rules by which an axis may shard both the tokens and the experts' width, and by which experts are sharded over several axes.
constexpr const char* kTokensOverTensor = "logical_axis_rules=[[activation_batch,[fsdp,expert,tensor]],[mlp_no_fsdp,[tensor]]]";
constexpr const char* kAllOverEverything =
    "logical_axis_rules=[[activation_batch,[tensor,data,fsdp]],[activation_norm_length,[context,autoregressive,expert]],"
    "[exp,[expert,data]],[mlp_no_fsdp,[context,tensor,fsdp_transpose]]]";

// Every axis other than the expert axis. The axes of stages and of copies of the model are left out, because they shard nothing here.
std::vector<std::string> axes_beside(const std::string& rules) {
  std::vector<std::string> names;
  for (const mesh::Axis& axis : session_with(rules).mesh.axes()) {
    if (axis.name != "expert" && axis.name != "stage" && axis.name != "diloco") names.push_back(axis.name);
  }
  return names;
}

LayerCase random_case(unsigned seed) {
  Draw draw(seed);
  LayerCase made;
  made.seed = seed;
  made.rules = draw.one_of<std::string>({"", "", "", "ep-as-cp", "cp-as-ep", "ep-as-dp", "ep-tp", "shard-exp-on-fsdp", kTokensOverTensor, kAllOverEverything});
  const std::int64_t expert = draw.one_of<std::int64_t>({1, 2, 2, 4, 4, 8});
  made.axes["expert"] = expert;
  const std::vector<std::string> beside = axes_beside(made.rules);
  for (std::int64_t left = 8 / expert; left > 1; left /= 2) {
    if (draw.chance(80)) made.axes[draw.one_of(beside)] = 2;
  }
  if (made.axes.size() == 1 && expert == 1) made.axes["fsdp"] = 2;
  const bool lone_row = draw.chance(10);
  if (lone_row && made.rules.empty()) {
    for (const char* axis : {"data", "fsdp", "fsdp_transpose"}) made.axes.erase(axis);
  }
  const bool has_more_axes = made.rules == "shard-exp-on-fsdp" || made.rules == "cp-as-ep" || made.rules == kAllOverEverything;
  const std::int64_t share = has_more_axes ? 8 : expert;
  const std::int64_t each = draw.one_of<std::int64_t>({1, 1, 2, 3, 8});
  made.moe = {.experts = std::max<std::int64_t>(2, std::min<std::int64_t>(64, share * each)), .mlp_dim = 8};
  made.moe.experts_per_token = 1 + draw.below(std::min<std::int64_t>(8, made.moe.experts));
  made.emb = 8;
  made.moe.ring = draw.chance(50);
  made.moe.bias = draw.chance(40);
  made.moe.token_chunks = draw.one_of<std::int64_t>({1, 1, 2, 3});
  made.moe.width_chunks = draw.one_of<std::int64_t>({1, 1, 2, 4});
  made.skew = draw.one_of<double>({0, 0, 1, 4});
  if (draw.chance(15)) made.favourite = static_cast<int>(draw.below(made.moe.experts));
  made.plain_weights = draw.chance(30);
  made.rows = 1 + draw.below(3);
  made.length = (1 + draw.below(7)) * made.moe.token_chunks;
  // Rows and positions are rounded up, so that the mesh can shard them.
  const Context context{session_with(made.rules).loaded.settings, session_with(made.rules).shape, 2, 1};
  const mesh::Mesh mesh = mesh_of(made);
  const sharding::Spec tokens = sharding::lay({{labels::activation_batch, labels::activation_norm_length}, false, {}, {}, false},
                                              context.settings.rules("logical_axis_rules"), mesh);
  made.rows = rounded_up(made.rows, sharding::shards(tokens.dims[0], mesh));
  made.length = rounded_up(made.length, sharding::shards(tokens.dims[1], mesh) * made.moe.token_chunks);
  if (lone_row && made.rules.empty()) made.rows = 1;
  return made;
}

// The tolerance is for float64 sums of some hundred terms. Counts must be equal, and sums of squares are float32.
void expect_alike(const std::vector<Numbers>& made, const std::vector<Numbers>& expected, const Layer& layer, const LayerCase& of,
                  double tolerance = 1e-12) {
  ASSERT_EQ(made.size(), expected.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    const double allowed = i == 1 ? 0 : i < 2 + layer.gradients() ? tolerance : 1e-6;
    backend::test::expect_near(made[i], expected[i], allowed, fmt::format("result {} of {}", i, of.text()));
  }
}

// Cases are divided among several tests, so that these can run in parallel.
class RandomLayers : public ::testing::TestWithParam<unsigned> {};

TEST_P(RandomLayers, AreOnAMeshWhatTheyAreOnOneDevice) {
  constexpr unsigned kCases = 100;
  for (unsigned i = 0; i < kCases && !HasFailure(); ++i) {
    const LayerCase of = random_case(GetParam() * kCases + i);
    const Layer layer(of), one(of.on_one_device());
    const std::vector<Numbers> feeds = feeds_of(of, layer);
    const std::vector<Numbers> made = layer.run(feeds, 1);
    expect_alike(made, one.run(feeds, 1), layer, of);
    if (i % 10 != 0) continue;
    for (const int threads : {1, 2}) {
      const std::vector<Numbers> again = layer.run(feeds, threads);
      for (std::size_t r = 0; r < made.size(); ++r) EXPECT_EQ(again[r].bytes, made[r].bytes) << threads << " threads " << of.text();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomLayers, ::testing::Range(0u, 10u));

TEST(RandomCases, HoldEveryKindOften) {
  std::map<std::string, int> counts;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    const LayerCase of = random_case(seed);
    for (const auto& [axis, size] : of.axes) ++counts[fmt::format("{}={}", axis, size)];
    counts["rules " + of.rules] += 1;
    counts["ring"] += of.moe.ring;
    counts["all-to-all"] += !of.moe.ring && of.axes.at("expert") > 1;
    counts["a lone row"] += of.rows == 1;
    counts["odd tokens"] += of.rows * of.length % 2 == 1;
    counts["64 experts"] += of.moe.experts == 64;
    counts["8 choices"] += of.moe.experts_per_token == 8;
    counts["token chunks"] += of.moe.token_chunks > 1;
    counts["width chunks"] += of.moe.width_chunks > 1;
    counts["one expert has all"] += of.favourite >= 0 && of.moe.experts_per_token == 1;
  }
  for (const char* axis : {"expert=1", "expert=2", "expert=4", "expert=8", "data=2", "fsdp=2", "fsdp_transpose=2", "tensor=2",
                           "tensor_sequence=2", "context=2", "autoregressive=2"}) {
    EXPECT_GT(counts[axis], 50) << axis;
  }
  for (const auto& [kind, count] : counts) EXPECT_GT(count, 10) << kind;
  EXPECT_EQ(counts.size(), 13 + 8 + 9u);
}

// The choices that are dropped for lack of room, found one by one.
class Drops {
 public:
  Drops(const LayerCase& of, const Layer& layer, const Numbers& ids)
      : of_(of), mesh_(layer.mesh()), ids_(ids), tokens_(layer.tokens()), experts_(layer.kernels().dims[0]) {
    tokens_.dims.resize(2);
    for (const sharding::AxisIndex axis : experts_) {
      if (sharding::holds(sharding::distinct_axes(tokens_), axis)) shared_.push_back(axis);
    }
    for (std::int64_t device = 0; device < mesh_.devices(); ++device) {
      for (std::int64_t chunk = 0; chunk < of.moe.token_chunks; ++chunk) add(mesh_.coordinates_of(device), chunk);
    }
  }

  // Dropped choices of tokens, as indices into the ids.
  const std::set<std::int64_t>& slots() const { return slots_; }

 private:
  // The tokens of a device in one chunk, in order.
  std::vector<std::int64_t> tokens_of(const sharding::Coordinates& at, std::int64_t chunk) const {
    const std::vector<sharding::Range> block = sharding::block_of({of_.rows, of_.length}, tokens_, mesh_, at);
    const std::int64_t length = block[1].size() / of_.moe.token_chunks;
    std::vector<std::int64_t> all;
    for (std::int64_t b = block[0].begin; b < block[0].end; ++b) {
      for (std::int64_t s = 0; s < length; ++s) all.push_back(b * of_.length + block[1].begin + chunk * length + s);
    }
    return all;
  }

  // The tokens of the devices that the experts are sharded over, separately for each device.
  std::vector<std::vector<std::int64_t>> tokens_of_group(const sharding::Coordinates& at, std::int64_t chunk) const {
    std::map<std::int64_t, std::vector<std::int64_t>> by_member;
    for (std::int64_t device = 0; device < mesh_.devices(); ++device) {
      sharding::Coordinates other = mesh_.coordinates_of(device), same = other;
      for (const sharding::AxisIndex axis : shared_) same[axis] = at[axis];
      if (same == at) by_member[sharding::block_index(shared_, mesh_, other)] = tokens_of(other, chunk);
    }
    std::vector<std::vector<std::int64_t>> all;
    for (auto& [member, tokens] : by_member) all.push_back(std::move(tokens));
    return all;
  }

  void add(const sharding::Coordinates& at, std::int64_t chunk) {
    std::vector<std::vector<std::int64_t>> senders = tokens_of_group(at, chunk);
    const std::int64_t devices = sharding::shards(experts_, mesh_);
    std::int64_t even = 0;
    for (const auto& tokens : senders) even += static_cast<std::int64_t>(tokens.size());
    const auto room = std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(even / devices * of_.moe.experts_per_token) * of_.moe.buffer_factor));
    if (of_.moe.ring || shared_ != experts_) {
      std::vector<std::int64_t> joined;
      for (const auto& tokens : senders) joined.insert(joined.end(), tokens.begin(), tokens.end());
      senders = {joined};
    }
    const std::int64_t here = of_.moe.experts / devices, first = sharding::block_index(experts_, mesh_, at) * here;
    std::int64_t kept = 0;
    for (const auto& tokens : senders) {
      for (std::int64_t e = first; e < first + here; ++e) {
        for (const std::int64_t token : tokens) {
          for (std::int64_t slot = token * of_.moe.experts_per_token; slot < (token + 1) * of_.moe.experts_per_token; ++slot) {
            if (static_cast<std::int64_t>(ids_.at(slot)) == e && ++kept > room) slots_.insert(slot);
          }
        }
      }
    }
  }

  const LayerCase& of_;
  const mesh::Mesh& mesh_;
  const Numbers& ids_;
  sharding::Spec tokens_;
  sharding::AxisList experts_, shared_;
  std::set<std::int64_t> slots_;
};

Numbers ids_of(const LayerCase& of, const Layer& layer, const std::vector<Numbers>& feeds) {
  Builder builder;
  const Tensor choosing = graph::test::input_like(builder, "choosing", feeds[1]);
  builder.mark_result(route(builder, layer.context(), {choosing, choosing}).ids);
  Numbers ids = graph::test::run_graph(builder.graph(), {feeds[1]})[0];
  EXPECT_EQ(ids.count(), of.rows * of.length * of.moe.experts_per_token);
  return ids;
}

// If the weights are the scores themselves, dropping a choice is the same as setting its score to zero. Expected values come from one
// device with such scores.
TEST_P(RandomLayers, DropWhatFindsNoRoomAndNothingElse) {
  constexpr unsigned kCases = 25;
  std::size_t dropped = 0;
  for (unsigned i = 0; i < kCases && !HasFailure(); ++i) {
    LayerCase of = random_case(90000 + GetParam() * kCases + i);
    of.plain_weights = true;
    of.moe.buffer_factor = i % 2 == 0 ? 1 : 0.5;
    if (of.axes["expert"] == 1) of.moe.ring = true;
    const Layer layer(of), one(of.on_one_device());
    std::vector<Numbers> feeds = feeds_of(of, layer);
    std::vector<Numbers> made = layer.run(feeds);
    const Numbers ids = ids_of(of, layer, feeds);
    const Drops drops(of, layer, ids);
    dropped += drops.slots().size();
    std::vector<std::int64_t> scores;
    for (const std::int64_t slot : drops.slots()) {
      scores.push_back(slot / of.moe.experts_per_token * of.moe.experts + static_cast<std::int64_t>(ids.at(slot)));
      feeds[2].set(scores.back(), 0);
    }
    std::vector<Numbers> expected = one.run(feeds);
    for (const std::int64_t score : scores) expected[3].set(score, 0);
    expected[1].set(of.moe.experts, static_cast<double>(drops.slots().size()));
    made.erase(made.begin() + static_cast<std::ptrdiff_t>(2 + layer.gradients()), made.end());
    expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(2 + layer.gradients()), expected.end());
    expect_alike(made, expected, layer, of);
  }
  EXPECT_GT(dropped, 100u);
}

LayerCase eight_devices(bool ring, DType dtype) {
  LayerCase of{.axes = {{"expert", 4}, {"fsdp", 2}}, .rows = 16, .length = 12, .emb = 16};
  of.moe = {.experts = 8, .experts_per_token = 3, .mlp_dim = 16, .ring = ring};
  of.dtype = dtype;
  return of;
}

TEST(TokenChunks, DoNotChangeABitOfTheOutput) {
  for (const bool ring : {false, true}) {
    LayerCase of = eight_devices(ring, DType::float32);
    const Layer whole(of);
    const std::vector<Numbers> feeds = feeds_of(of, whole);
    const std::vector<Numbers> expected = whole.run(feeds);
    for (const std::int64_t chunks : {2, 4}) {
      of.moe.token_chunks = chunks;
      const Layer layer(of);
      const std::vector<Numbers> made = layer.run(feeds);
      EXPECT_EQ(made[0].bytes, expected[0].bytes) << chunks;
      // float32 sums of some hundred terms, added up in another order.
      expect_alike(made, expected, layer, of, 1e-5);
    }
  }
}

TEST(WidthChunks, ChangeTheOrderOfSumsOnly) {
  for (const bool ring : {false, true}) {
    LayerCase of = eight_devices(ring, DType::float32);
    const Layer whole(of);
    const std::vector<Numbers> feeds = feeds_of(of, whole);
    const std::vector<Numbers> expected = whole.run(feeds);
    of.moe.width_chunks = 4;
    const Layer layer(of);
    expect_alike(layer.run(feeds), expected, layer, of, 1e-5);
  }
}

TEST(Chunks, HaveToDivideWhatTheyCut) {
  LayerCase of = eight_devices(true, DType::float32);
  of.moe.token_chunks = 5;
  EXPECT_EQ(message_of([&] { const Layer layer(of); }),
            "experts/experts: num_moe_token_chunks=5 does not divide the 12 positions that a device has\n  fix: choose a divisor");
  of.moe.token_chunks = 1;
  of.moe.width_chunks = 3;
  EXPECT_EQ(message_of([&] { const Layer layer(of); }),
            "experts/experts: num_moe_emb_chunks=3 does not divide the width of 16\n  fix: choose a divisor");
}

// With one expert per device, the rows of an exchange are in the same order as those of a ring, so the same rows are dropped.
TEST(RowLimits, OfAnExpertADeviceDropTheSameInBothWays) {
  LayerCase of = eight_devices(false, DType::float64);
  of.axes = {{"expert", 8}};
  of.moe.buffer_factor = 0.75;
  const Layer exchanged(of);
  const std::vector<Numbers> feeds = feeds_of(of, exchanged);
  const std::vector<Numbers> expected = exchanged.run(feeds);
  EXPECT_GT(expected[1].at(of.moe.experts), 100);
  of.moe.ring = true;
  const Layer ring(of);
  expect_alike(ring.run(feeds), expected, ring, of);
}

TEST(Experts, HaveToDivideOverTheirAxis) {
  EXPECT_EQ(message_of([] {
              moesh::test::session("model_name=mixtral-8x7b override_model_config=true num_experts=6 compile_topology=cpu-8 "
                                   "ici_expert_parallelism=4 ici_fsdp_parallelism=2");
            }),
            "decoder/layers/MoeBlock_0/wi_0: dim 0 ('exp', size 6) does not divide over expert=4 = 4 shards (rule at "
            "configs/base.yml:42)\n  fix: choose axis sizes that divide it (ici_expert_parallelism), or a rule that lays the dim elsewhere "
            "(logical_axis_rules=[[exp,[]]]: whole); `moesh lint` tries what would");
}

// If an axis may shard either the tokens or the experts' width, the smaller of the two is gathered: few tokens, or narrow experts.
TEST(AnAxisOfTokensAndWidth, GoesToTheDearerOne) {
  LayerCase of{.axes = {{"tensor_sequence", 2}, {"fsdp", 2}}, .rows = 4, .length = 6, .emb = 8};
  const auto lies = [&](std::int64_t mlp_dim) {
    of.moe.mlp_dim = mlp_dim;
    const Layer layer(of);
    const auto words = [&](const sharding::Spec& spec) { return sharding::to_string(spec, layer.mesh()); };
    return words(layer.tokens()) + " " + words(layer.kernels());
  };
  // The tokens of a shard, there and back, have 2 * 2 * 3 * 8 elements; its three weights have 3 * 4 * 8 * mlp_dim / 2.
  EXPECT_EQ(lies(4), "[fsdp, -, -] [-, -, tensor_sequence]");
  EXPECT_EQ(lies(2), "[fsdp, tensor_sequence, -] [-, -, -]") << "as much either way";
  of.axes = {{"data", 2}, {"expert", 2}, {"tensor", 2}};
  of.rules = kTokensOverTensor;
  EXPECT_EQ(lies(8), "[expert, -, -] [expert, -, tensor]");
  of.moe.experts = 2;
  EXPECT_EQ(lies(2), "[(expert, tensor), -, -] [expert, -, -]");
}

TEST(Strategies, AreChosenByWhoSharesTheExperts) {
  config::MoeShape moe;
  const graph::GroupOf alone, four{{1}, 4};
  using sharding::Dispatch;
  EXPECT_EQ(strategy_of({alone, alone, 1, moe}), Dispatch::local);
  EXPECT_EQ(strategy_of({four, four, 1, moe}), Dispatch::all_to_all);
  EXPECT_EQ(strategy_of({four, alone, 1, moe}), Dispatch::local) << "each device has all tokens";
  moe.ring = true;
  EXPECT_EQ(strategy_of({four, four, 1, moe}), Dispatch::ring);
}

}  // namespace
}  // namespace moesh::nn::test
