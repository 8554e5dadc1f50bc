// A model that decodes on eight devices writes the same tokens as on one device.
#include <limits>
#include <map>

#include <gmock/gmock.h>

#include "partition/collectives.h"
#include "partition/lay_out.h"
#include "tests/decode/decode_support.h"
#include "tests/layout_draws.h"
#include "tests/paths.h"

namespace moesh::decode {
namespace {

using test::Decoding;
using test::kSmallWidths;
using ::testing::HasSubstr;

constexpr std::int64_t kPrompt = 6;
constexpr std::int64_t kSlotsOfMeshes = 16;

// The tolerance: devices add partial sums in another order than one device does.
constexpr float kNoiseOfMeshes = 5e-4f;

struct Written {
  std::vector<std::int32_t> ids;  // [steps, rows]
  std::vector<float> logits;      // [steps, rows, V]
};

NewTokens at_positions(std::vector<std::int32_t> ids, std::int64_t rows, std::int64_t first, std::int64_t count) {
  NewTokens tokens{std::move(ids), {}, {}};
  for (std::int64_t i = 0; i < rows * count; ++i) tokens.positions.push_back(static_cast<std::int32_t>(first + i % count));
  tokens.segments.assign(tokens.positions.size(), 1);
  return tokens;
}

// Decodes a prompt, and then always takes the most likely token.
Written write(const std::string& request, std::int64_t rows) {
  Decoding decoding(test::with_whole_key_head(kSmallWidths + request), rows, kSlotsOfMeshes);
  Written written;
  std::vector<float> logits = decoding.logits(
      decoding.program(kPrompt), at_positions(test::some_tokens(rows, kPrompt, decoding.session.shape.vocab_size), rows, 0, kPrompt));
  std::vector<std::int32_t> next = test::likeliest(logits, rows, kPrompt, kPrompt - 1);
  for (std::int64_t position = kPrompt; position < kSlotsOfMeshes; ++position) {
    written.ids.insert(written.ids.end(), next.begin(), next.end());
    logits = decoding.logits(decoding.step(), at_positions(next, rows, position, 1));
    written.logits.insert(written.logits.end(), logits.begin(), logits.end());
    next = test::likeliest(logits, rows, 1, 0);
  }
  return written;
}

const Written& on_one_device(const std::string& family, std::int64_t rows) {
  static std::map<std::pair<std::string, std::int64_t>, Written> all;
  Written& written = all[{family, rows}];
  if (written.ids.empty()) written = write(test::small_model(family).request + "compile_topology=cpu-1", rows);
  return written;
}

float furthest(const Written& a, const Written& b) {
  float off = a.logits.size() == b.logits.size() ? 0 : std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < std::min(a.logits.size(), b.logits.size()); ++i) {
    const float here = std::abs(a.logits[i] - b.logits[i]);
    if (!(here <= off)) off = here;  // also if it is NaN
  }
  return off;
}

void expect_same_as_one_device(const std::string& family, const std::string& layout, std::int64_t rows) {
  SCOPED_TRACE(family + " " + layout);
  const Written& one = on_one_device(family, rows);
  const Written eight = write(test::small_model(family).request + "compile_topology=cpu-8 ici_fsdp_parallelism=1 " + layout, rows);
  EXPECT_EQ(eight.ids, one.ids);
  EXPECT_LT(furthest(eight, one), kNoiseOfMeshes);
}

// The same on drawn layouts, except for those that are refused as wrong requests.
void expect_same_on_drawn_layouts(const std::string& family, std::int64_t rows, std::uint64_t draws) {
  const Written& one = on_one_device(family, rows);
  const session::Session session = test::session(kSmallWidths + test::small_model(family).request + "compile_topology=cpu-1");
  const test::RunTraits traits = test::traits_of(session);
  std::uint64_t equal = 0;
  for (std::uint64_t i = 0; i < draws; ++i) {
    const std::uint64_t seed = test::sweep_setting("MOESH_SWEEP_SEED", 1) * 100 + static_cast<std::uint64_t>(rows);
    const std::string layout = join(test::LayoutDraw(seed, i).layout(traits), " ");
    SCOPED_TRACE(fmt::format("draw {}, {} rows of {}: {}", i, rows, family, layout));
    try {
      const Written made = write(test::small_model(family).request + layout, rows);
      EXPECT_EQ(made.ids, one.ids);
      EXPECT_LT(furthest(made, one), kNoiseOfMeshes);
      ++equal;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2) << error.what();
    }
  }
  EXPECT_GE(3 * equal, draws) << "draws that are refused show little";
}

const std::string kExpertTensor = "custom_mesh_and_rule=ep-tp use_ring_of_experts=true ";

constexpr const char* kLayouts[] = {
    "ici_tensor_parallelism=8",
    "ici_tensor_parallelism=4 ici_fsdp_parallelism=2",
    "ici_fsdp_parallelism=8",
};
constexpr const char* kExpertLayouts[] = {
    "ici_expert_parallelism=8",
    "ici_expert_parallelism=8 use_ring_of_experts=true",
    "ici_expert_parallelism=4 ici_fsdp_parallelism=2",
    "ici_expert_parallelism=4 ici_fsdp_parallelism=2 use_ring_of_experts=true",
    "ici_expert_parallelism=4 ici_tensor_parallelism=2",
    "ici_expert_parallelism=8 custom_mesh_and_rule=ep-tp use_ring_of_experts=true",
    "ici_expert_parallelism=4 ici_tensor_parallelism=2 custom_mesh_and_rule=ep-tp use_ring_of_experts=true",
    "ici_expert_parallelism=4 ici_fsdp_parallelism=2 custom_mesh_and_rule=ep-tp use_ring_of_experts=true",
    "ici_expert_parallelism=8 sparse_matmul=false",
};

class DecodingOnMeshesSlow : public ::testing::TestWithParam<test::SmallModel> {};

TEST_P(DecodingOnMeshesSlow, WritesWhatOneDeviceWrites) {
  for (const char* layout : kLayouts) expect_same_as_one_device(GetParam().family, layout, 8);
  if (GetParam().family == "llama2") return expect_same_as_one_device("llama2", "ici_fsdp_parallelism=4 ici_context_parallelism=2", 8);
  for (const char* layout : kExpertLayouts) expect_same_as_one_device(GetParam().family, layout, 8);
}

// A single row cannot be sharded over the expert axis.
TEST_P(DecodingOnMeshesSlow, WritesALoneRow) {
  expect_same_as_one_device(GetParam().family, "ici_tensor_parallelism=8", 1);
  if (GetParam().family == "llama2") return;
  expect_same_as_one_device(GetParam().family, kExpertTensor + "ici_expert_parallelism=8", 1);
  expect_same_as_one_device(GetParam().family, "ici_expert_parallelism=8", 1);
}

TEST_P(DecodingOnMeshesSlow, WritesTheSameOnDrawnLayouts) {
  const std::uint64_t draws = test::sweep_draws(300);
  expect_same_on_drawn_layouts(GetParam().family, 8, draws / 20);
  expect_same_on_drawn_layouts(GetParam().family, 1, draws / 40);
}

INSTANTIATE_TEST_SUITE_P(All, DecodingOnMeshesSlow, ::testing::ValuesIn(test::small_models()),
                         [](const auto& test) { return test.param.family; });

sharding::Layout laid_out(const std::string& request, std::int64_t rows, partition::Evenness evenness = partition::Evenness::demanded) {
  const session::Session found = test::session(kSmallWidths + request);
  const graph::Graph graph =
      models::build_decode_model({found.loaded.settings, found.shape, rows, 1, &found.mesh}, {1, kSlotsOfMeshes});
  return partition::lay_out_decoding(graph, found.loaded.settings, found.mesh, evenness);
}

std::string state_lies(const std::string& request, const std::string& path) {
  const sharding::Layout layout = laid_out(request, 8);
  return test::lies(layout, test::tensor_at(layout.states, path));
}

TEST(CacheLayout, FollowsTheRulesOfItsLabels) {
  const std::string mixtral = test::small_model("mixtral").request + "compile_topology=cpu-8 ici_fsdp_parallelism=1 ";
  const std::string key = "decoder/layers/self_attention/cache/key";
  EXPECT_EQ(state_lies(mixtral + kExpertTensor + "ici_expert_parallelism=8", key), "[-, -, -, expert, -]");
  EXPECT_EQ(state_lies(mixtral + kExpertTensor + "ici_expert_parallelism=4 ici_tensor_parallelism=2", key),
            "[-, -, -, (tensor, expert), -]");
  EXPECT_EQ(state_lies(mixtral + "ici_tensor_parallelism=8", key), "[-, -, -, tensor, -]");
  EXPECT_EQ(state_lies(mixtral + "ici_expert_parallelism=8", key), "[-, -, -, -, -]");
  const std::string deepseek = test::small_model("deepseek3").request + "compile_topology=cpu-8 ici_fsdp_parallelism=1 ";
  EXPECT_EQ(state_lies(deepseek + kExpertTensor + "ici_expert_parallelism=8", "decoder/moe_layers/self_attention/cache/latent"),
            "[-, -, -, -]");
}

TEST(CacheLayout, HasTheShapesOfAStackAndOfItsLayers) {
  const sharding::Layout scanned = laid_out(test::small_model("gpt_oss").request + "compile_topology=cpu-1", 2);
  const std::string path = "decoder/layers/layers_1/GptOssAttention/cache/value";
  EXPECT_EQ(test::tensor_at(scanned.states, path).shape, (Shape{2, 2, kSlotsOfMeshes, 8, 16}));
  EXPECT_EQ(test::tensor_at(scanned.states, path).labels(),
            (Labels{"layers", "cache_batch", "cache_sequence", "cache_heads", "cache_kv"}));
  const sharding::Layout flat = laid_out(test::small_model("gpt_oss").request + "compile_topology=cpu-1 scan_layers=false", 2);
  EXPECT_EQ(test::tensor_at(flat.states, "decoder/layers_3/GptOssAttention/cache/value").shape, (Shape{2, kSlotsOfMeshes, 8, 16}));
}

TEST(CacheLayout, RefusesHeadsThatDoNotDivide) {
  const test::TemporaryFolder folder;
  std::string rules = test::read_text(test::source_folder() / "configs/rules/ep-tp.yml");
  const std::string of_weights = "- [kv_heads, [tensor, expert]]";
  ASSERT_NE(rules.find(of_weights), std::string::npos);
  rules.replace(rules.find(of_weights), of_weights.size(), "- [kv_heads, []]");
  const std::string request = test::small_model("mixtral").request + "custom_mesh_and_rule=" + folder.write("cache.yml", rules) +
                              " base_num_kv_heads=4 compile_topology=cpu-8 ici_fsdp_parallelism=1 ici_expert_parallelism=8";
  EXPECT_THAT(test::message_of([&] { laid_out(request, 8); }),
              HasSubstr("decoder/layers/self_attention/cache/key: dim 3 ('cache_heads', size 4) does not divide over expert=8 = 8 shards"));
}

// A step sends the rows of its new tokens, but never the caches.
TEST(CacheLayout, KeepsCachesWhereTheyAre) {
  for (const std::string layout : {"ici_expert_parallelism=8", "ici_tensor_parallelism=8", "ici_fsdp_parallelism=8"}) {
    // With the bytes of the keys of one layer: of all heads, and of one with its pools of four tokens.
    for (const auto& [family, cache_bytes] : std::vector<std::pair<std::string, std::int64_t>>{
             {"mixtral", 8 * 512 * 8 * 16 * 4}, {"deepseek4", 8 * (512 + 128) * 16 * 4}}) {
      Decoding decoding(kSmallWidths + test::small_model(family).request + "compile_topology=cpu-8 ici_fsdp_parallelism=1 " + layout, 8,
                        512);
      for (const partition::Collective& c : partition::collectives_of(decoding.graph_program(1).graph, decoding.session.mesh)) {
        if (c.path.find("cache") == std::string::npos) continue;
        EXPECT_LT(c.wire_bytes, 0.01 * static_cast<double>(cache_bytes)) << family << " " << layout << " " << c.path;
      }
    }
  }
}

// With experts, heads, widths and the vocabulary all on the expert axis, a step sends only activations of the
// new tokens: no table, no weight, and nothing that the latents of earlier tokens expand to.
TEST(DecodeStep, SendsOnlyNewTokensUnderExpertTensorRules) {
  for (const std::string family : {"mixtral", "deepseek3", "gpt_oss"}) {
    const Decoding decoding(kSmallWidths + test::small_model(family).request + kExpertTensor +
                                "compile_topology=cpu-8 ici_fsdp_parallelism=1 ici_expert_parallelism=8 vocab_size=4096",
                            8, 512);
    const std::vector<partition::Collective> all = partition::collectives_of(decoding.graph_program(1).graph, decoding.session.mesh);
    EXPECT_FALSE(all.empty());
    for (const partition::Collective& c : all) EXPECT_LE(c.operand_bytes, 8 * 64 * 4) << family << " " << name_of(c.kind) << " " << to_string(c.shape) << " " << c.path;
  }
}

}  // namespace
}  // namespace moesh::decode
