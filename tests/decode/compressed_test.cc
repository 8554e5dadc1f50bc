// Compressed attention decodes to the logits of training: pools of tokens that come in any pieces, in rows of different lengths that begin
// anew with other texts.
#include <random>

#include <gmock/gmock.h>

#include "graph/segments.h"
#include "tests/decode/decode_support.h"

namespace moesh::decode {
namespace {

using test::Decoding;
using test::kSmallWidths;

constexpr std::int64_t kRowsOfPools = 3, kTokensOfTexts = 47;  // the last tokens make no whole pool
constexpr std::int64_t kMostOfPools = 11;

struct Pooled {
  std::string name, changes;
};

void PrintTo(const Pooled& pooled, std::ostream* out) { *out << pooled.name; }

std::string request_with(const Pooled& pooled) {
  return kSmallWidths + test::small_model("deepseek4_pools").request + pooled.changes + " compile_topology=cpu-1 max_target_length=" +
         std::to_string(kTokensOfTexts);
}

// Rows take tokens at a pace of their own and go from text to text. What is new in a row may be padded in either way that decoders do.
class TextsInPieces {
 public:
  TextsInPieces(std::vector<std::int32_t> ids, std::uint32_t seed) : ids_(std::move(ids)), random_(seed), rows_(kRowsOfPools) {
    for (std::size_t row = 0; row < rows_.size(); ++row) rows_[row].text = static_cast<std::int64_t>(row);
  }

  NewTokens next(std::int64_t length) {
    NewTokens tokens;
    const bool repeats = random_() % 2 == 0;
    for (Row& row : rows_) {
      row.kept += row.count;
      if (row.kept + length > kTokensOfTexts || random_() % 40 == 0) row = {0, 0, (row.text + 1) % kRowsOfPools, row.segment + 1};
      row.count = length == 1 ? 1 : static_cast<std::int64_t>(random_() % static_cast<unsigned>(length + 1));
      for (std::int64_t i = 0; i < length; ++i) {
        const bool is_there = i < row.count;
        const std::int64_t position = row.kept + (repeats ? std::min(i, row.count) : i);
        tokens.ids.push_back(is_there ? ids_[static_cast<std::size_t>(row.text * kTokensOfTexts + position)] : 3);
        tokens.positions.push_back(static_cast<std::int32_t>(position));
        tokens.segments.push_back(is_there ? row.segment : repeats ? graph::kSegmentOfNewPadding : 0);
      }
    }
    return tokens;
  }

  // Calls see(text, position, index among the new tokens) for what was last taken.
  template <typename See>
  void each(std::int64_t length, const See& see) const {
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      for (std::int64_t i = 0; i < rows_[row].count; ++i)
        see(rows_[row].text, rows_[row].kept + i, static_cast<std::int64_t>(row) * length + i);
    }
  }

 private:
  struct Row {
    std::int64_t kept = 0, count = 0, text = 0;
    std::int32_t segment = 1;
  };
  std::vector<std::int32_t> ids_;
  std::mt19937 random_;
  std::vector<Row> rows_;
};

// The largest and the mean distance from the logits of training.
struct Distance {
  double largest = 0, sum = 0, count = 0;

  void see(double off) {
    largest = std::max(largest, off);
    sum += off;
    ++count;
  }
};

Distance distance_from_training(const std::string& request, std::int64_t most_new_tokens, int runs) {
  Decoding decoding(request, kRowsOfPools, kTokensOfTexts, most_new_tokens);
  const std::int64_t vocabulary = decoding.session.shape.vocab_size;
  const std::vector<std::int32_t> ids = test::some_tokens(kRowsOfPools, kTokensOfTexts, vocabulary);
  const std::vector<float> expected = test::trained_logits(decoding, ids, kTokensOfTexts);
  std::vector<Ready> programs;
  const std::vector<std::int64_t> lengths{1, 3, 8, kMostOfPools};
  for (const std::int64_t length : lengths) programs.push_back(decoding.program(length));
  TextsInPieces texts(ids, 5);
  std::mt19937 random(9);
  Distance distance;
  for (int run = 0; run < runs; ++run) {
    const std::size_t of = random() % 3 != 0 ? 0 : random() % lengths.size();
    const std::vector<float> made = decoding.logits(programs[of], texts.next(lengths[of]));
    texts.each(lengths[of], [&](std::int64_t text, std::int64_t position, std::int64_t at) {
      for (std::int64_t i = 0; i < vocabulary; ++i) {
        distance.see(std::abs(made[static_cast<std::size_t>(at * vocabulary + i)] -
                              expected[static_cast<std::size_t>((text * kTokensOfTexts + position) * vocabulary + i)]));
      }
    });
  }
  return distance;
}

class PoolsInDecoding : public ::testing::TestWithParam<Pooled> {};

// The tolerance: matrix products of one token and of many are summed in different blocks.
TEST_P(PoolsInDecoding, GiveTheLogitsOfTraining) {
  for (const std::int64_t most_new_tokens : {std::int64_t{512}, kMostOfPools})
    EXPECT_LT(distance_from_training(request_with(GetParam()), most_new_tokens, 160).largest, 3e-4) << most_new_tokens;
}

// Each layer rounds to eight bits, and of nearly equal keys others may be chosen.
TEST_P(PoolsInDecoding, GiveNearlyTheLogitsOfTrainingInBfloat16) {
  const Distance distance = distance_from_training(request_with(GetParam()) + " dtype=bfloat16", kMostOfPools, 80);
  EXPECT_LT(distance.sum / distance.count, 0.02);
}

INSTANTIATE_TEST_SUITE_P(
    All, PoolsInDecoding,
    ::testing::Values(Pooled{"chosen", "compress_ratios=[4,4,4,4] indexer_topk=2"},
                      Pooled{"overlapping", "compress_ratios=[4,4,4,4] indexer_topk=32"},
                      Pooled{"of_five", "compress_ratios=[5,5,5,5]"}, Pooled{"of_eight_and_sixteen", "compress_ratios=[8,16,8,16]"},
                      Pooled{"mixed", "compress_ratios=[0,4,8,4] indexer_topk=3"},
                      Pooled{"stacked", "compress_ratios=[0,4,128,4] indexer_topk=3 scan_layers=true first_num_hash_layers=2"},
                      Pooled{"larger_than_rows", "compress_ratios=[0,48,128,47]"},
                      Pooled{"behind_long_windows", "compress_ratios=[4,4,8,8] indexer_topk=3 sliding_window_size=64"},
                      Pooled{"of_whole_heads", "compress_ratios=[4,6,8,4] indexer_topk=4 qk_rope_head_dim=8 indexer_head_dim=8"}),
    [](const auto& test) { return test.param.name; });

// The logits of a prompt of six tokens and of the tokens behind it, one by one.
std::vector<float> written_on(const std::string& mesh) {
  constexpr std::int64_t kRowsOfMesh = 4, kPromptOfMesh = 6, kTokens = 21;
  const std::string pools = "compress_ratios=[0,4,8,4] indexer_topk=2 compile_topology=" + mesh;
  Decoding decoding(test::with_whole_key_head(kSmallWidths + test::small_model("deepseek4_pools").request + pools), kRowsOfMesh, kTokens);
  const std::vector<std::int32_t> ids = test::some_tokens(kRowsOfMesh, kTokens, decoding.session.shape.vocab_size);
  const auto tokens_at = [&](std::int64_t first, std::int64_t count) {
    NewTokens tokens;
    for (std::int64_t i = 0; i < kRowsOfMesh * count; ++i) {
      tokens.positions.push_back(static_cast<std::int32_t>(first + i % count));
      tokens.ids.push_back(ids[static_cast<std::size_t>(i / count * kTokens + first + i % count)]);
      tokens.segments.push_back(1);
    }
    return tokens;
  };
  std::vector<float> all = decoding.logits(decoding.program(kPromptOfMesh), tokens_at(0, kPromptOfMesh));
  for (std::int64_t position = kPromptOfMesh; position < kTokens; ++position) {
    const std::vector<float> logits = decoding.logits(decoding.step(), tokens_at(position, 1));
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

// The tolerance: devices add partial sums in another order than one device does.
TEST(PoolsOnMeshes, GiveTheLogitsOfOneDevice) {
  const std::vector<float> one = written_on("cpu-1");
  for (const std::string mesh :
       {"cpu-4 ici_fsdp_parallelism=1 ici_tensor_parallelism=4", "cpu-4 ici_fsdp_parallelism=2 ici_tensor_parallelism=2",
        "cpu-4 ici_fsdp_parallelism=2 ici_expert_parallelism=2", "cpu-4 ici_fsdp_parallelism=4",
        "cpu-4 ici_fsdp_parallelism=1 ici_expert_parallelism=4 custom_mesh_and_rule=ep-tp use_ring_of_experts=true",
        "cpu-4 ici_fsdp_parallelism=2 ici_tensor_parallelism=2 logical_axis_rules=[[kv_heads,[]],[cache_batch,[fsdp]]]",
        "cpu-2 ici_fsdp_parallelism=2 logical_axis_rules=[[kv_heads,[]],[cache_kv,[fsdp]]]"}) {
    const std::vector<float> made = written_on(mesh);
    ASSERT_EQ(made.size(), one.size());
    float off = 0;
    for (std::size_t i = 0; i < one.size(); ++i) off = std::max(off, std::abs(made[i] - one[i]));
    EXPECT_LT(off, 5e-4) << mesh;
  }
}

}  // namespace
}  // namespace moesh::decode
