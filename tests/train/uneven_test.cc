// Training where sizes do not divide over the mesh: each drawn layout gives what one device gives, or is refused as a wrong request.
#include <random>
#include <string>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "tests/train/train_support.h"

namespace moesh {
namespace {

// Parameters whose sizes do not divide are refused, so rules leave them whole.
const std::string kWholeParameters =
    "logical_axis_rules=[[vocab,[]],[heads,[]],[q_heads,[]],[kv_heads,[]],[mlp,[]],[mlp_moe,[]],[embed,[]],[embed_moe,[]],"
    "[embed_vocab,[]],[norm,[]],[q_lora,[]],[kv_lora,[]]";

class Draw {
 public:
  explicit Draw(std::uint64_t number) : random_(number) {}

  template <typename T>
  T of(std::initializer_list<T> choices) {
    return *(choices.begin() + static_cast<std::ptrdiff_t>(random_() % choices.size()));
  }
  bool coin() { return random_() % 2 == 0; }

 private:
  std::mt19937_64 random_;
};

std::string drawn(std::uint64_t number) {
  Draw draw(number);
  const int tensor = draw.of({2, 3, 4}), context = draw.of({1, 1, 2, 3}), fsdp = draw.of({1, 1, 2, 3});
  const int kv_heads = draw.of({1, 2, 3, 4, 6}), heads = kv_heads * draw.of({1, 2});
  const std::string family = draw.of<const char*>({"mixtral", "llama2", "qwen3_moe", "gemma2", "deepseek"});
  const bool has_experts = family == "mixtral" || family == "qwen3_moe" || family == "deepseek";
  std::string request = fmt::format(
      "decoder_block={} dtype=float32 steps=2 dataset_type=synthetic enable_checkpointing=false compile_topology=cpu-{} "
      "ici_tensor_parallelism={} ici_context_parallelism={} ici_fsdp_parallelism={} base_num_query_heads={} base_num_kv_heads={} head_dim={} "
      "base_emb_dim={} base_mlp_dim={} base_moe_mlp_dim={} vocab_size={} max_target_length={} per_device_batch_size={} "
      "base_num_decoder_layers={} num_experts={} num_experts_per_tok={}",
      family, tensor * context * fsdp, tensor, context, fsdp, heads, kv_heads, draw.of({4, 6, 10}), draw.of({7, 12, 25, 31}),
      draw.of({5, 11, 33}), draw.of({5, 11, 33}), draw.of({36, 37, 38, 39}), draw.of({5, 7, 12, 18}), draw.of({1, 2}), draw.of({1, 2}),
      has_experts ? draw.of({3, 4}) : 1, has_experts ? 2 : 1);
  if (has_experts && draw.coin()) request += " sparse_matmul=false capacity_factor=" + std::string(draw.of<const char*>({"-1", "1.0", "1.25"}));
  if (draw.coin()) request += " logits_via_embedding=true";
  if (draw.coin()) request += " z_loss_multiplier=0.01";
  const std::string more = draw.of<const char*>(
      {"", ",[activation_embed,[]]", ",[activation_vocab,[]]", ",[activation_mlp,[]]", ",[activation_heads,[]],[activation_kv_heads,[]]"});
  return request + " " + kWholeParameters + more + "]";
}

TEST(Uneven, LayoutsGiveWhatOneDeviceGives) {
  constexpr std::uint64_t kDraws = 600;
  std::uint64_t equal = 0;
  for (std::uint64_t number = 0; number < kDraws; ++number) {
    const std::string request = drawn(number);
    const test::Outcome made = test::outcome_of(test::words_of("verify --against-one-device " + request));
    if (made.code == 0) ++equal;
    else EXPECT_EQ(made.code, 2) << request << "\n" << made.out << made.err;
  }
  EXPECT_GE(equal, kDraws / 5) << "or nearly all are refused";
}

}  // namespace
}  // namespace moesh
