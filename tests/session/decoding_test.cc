// Sessions that decode: their rows, their prompts, and what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "session/session.h"
#include "tests/support.h"

namespace moesh::session {
namespace {

using ::testing::HasSubstr;

Session decoding_of(const std::string& request, DecodeStage stage = DecodeStage::token) {
  return open_to_decode(test::words_of(request), stage);
}

TEST(DecodingSession, NamesTheRowsThatTheLayoutTakes) {
  const std::string request = "model_name=mixtral-8x7b compile_topology=cpu-8 ici_fsdp_parallelism=1 ";
  EXPECT_THAT(test::message_of([&] { decoding_of(request + "ici_expert_parallelism=8 per_device_batch_size=0.25"); }),
              HasSubstr("dim 0 ('activation_batch', size 2) does not divide over expert=8 = 8 shards (rule at configs/base.yml:47)\n"
                        "  fix: per_device_batch_size=1 for 8 rows, or a layout whose batch lies on fewer devices"));
  EXPECT_NO_THROW(decoding_of(request + "ici_tensor_parallelism=8 per_device_batch_size=0.25"));
}

TEST(DecodingSession, TakesNoPromptThatIsLongerThanTheCache) {
  const std::string request = "model_name=llama2-7b compile_topology=cpu-1 max_target_length=20 ";
  EXPECT_EQ(decoding_of(request, DecodeStage::prompt).decodes->new_tokens, 20) << "fewer than the default";
  EXPECT_EQ(decoding_of(request + "max_prefill_predict_length=7", DecodeStage::prompt).decodes->new_tokens, 7);
  EXPECT_THAT(test::message_of([&] { decoding_of(request + "max_prefill_predict_length=21", DecodeStage::prompt); }),
              HasSubstr("max_prefill_predict_length=21, and the KV cache has room for 20 tokens\n"
                        "  fix: max_target_length=21 or more, or a shorter prompt"));
}

TEST(DecodingSession, RefusesProductsInLowPrecision) {
  EXPECT_THAT(
      test::message_of([&] { decoding_of("model_name=llama2-7b compile_topology=h100-8 quantization=int8"); }),
      HasSubstr("quantization=int8: products in low precision are planned for training steps only\n  fix: leave quantization at ''"));
}

}  // namespace
}  // namespace moesh::session
