// Groups of experts in Hugging Face's files: what transformers would fill up with experts that it gives no weight, or with any, is refused.
#include <string>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/hugging_face.h"
#include "tests/support.h"

namespace moesh::config {
namespace {

using ::testing::HasSubstr;

struct GroupedFamily {
  const char *type, *architecture;
};

constexpr GroupedFamily kGrouped[] = {{"deepseek_v2", "DeepseekV2ForCausalLM"},
                                      {"deepseek_v3", "DeepseekV3ForCausalLM"},
                                      {"deepseek_v32", "DeepseekV32ForCausalLM"},
                                      {"glm4_moe", "Glm4MoeForCausalLM"}};

// A file of 8 experts. Only Deepseek 2 needs to be told that it chooses by groups.
std::string routing_refusal(const GroupedFamily& family, int groups, int chosen, int asked,
                            const std::string& method = "group_limited_greedy") {
  const bool says_method = std::string(family.type) == "deepseek_v2";
  const std::string text = fmt::format(
      R"({{"model_type": "{}", "architectures": ["{}"], "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 4, "vocab_size": 128, "intermediate_size": 96, "n_routed_experts": 8, "moe_intermediate_size": 32,
          "n_group": {}, "topk_group": {}, "num_experts_per_tok": {}{}}})",
      family.type, family.architecture, groups, chosen, asked, says_method ? fmt::format(R"(, "topk_method": "{}")", method) : "");
  return test::message_of([&] { hugging_face_keys_in(text, "config.json"); });
}

TEST(HuggingFaceRouting, TheChosenGroupsHaveAsManyExpertsAsATokenTakes) {
  for (const GroupedFamily& family : kGrouped) {
    EXPECT_THAT(routing_refusal(family, 4, 1, 3),
                HasSubstr("config.json: topk_group: num_experts_per_tok is 3, and the groups that a token chooses have 2 experts\n"
                          "  fix: a larger topk_group, or a smaller num_experts_per_tok"))
        << family.type;
    EXPECT_THAT(routing_refusal(family, 2, 1, 5), HasSubstr("have 4 experts")) << family.type;
    EXPECT_EQ(routing_refusal(family, 4, 1, 2), "no error") << family.type;
    EXPECT_EQ(routing_refusal(family, 4, 2, 3), "no error") << family.type;
    EXPECT_EQ(routing_refusal(family, 1, 1, 8), "no error") << family.type;
  }
  EXPECT_EQ(routing_refusal(kGrouped[0], 4, 1, 3, "greedy"), "no error") << "there are no groups then";
}

TEST(HuggingFaceRouting, ThereIsAGroupToChoose) {
  for (const GroupedFamily& family : kGrouped) {
    EXPECT_THAT(routing_refusal(family, 0, 1, 2), HasSubstr("n_group: 0 asks for what moesh does not do: at least 1 was expected"));
    EXPECT_THAT(routing_refusal(family, -1, 1, 2), HasSubstr("n_group: -1 asks for what moesh does not do: at least 1 was expected"));
    EXPECT_THAT(routing_refusal(family, 4, 0, 2), HasSubstr("topk_group: 0 asks for what moesh does not do: at least 1 was expected"));
  }
}

}  // namespace
}  // namespace moesh::config
