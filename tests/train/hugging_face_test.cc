// Which models' weights can come from Hugging Face's files and go there.
#include "train/hugging_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"
#include "config/model_shape.h"
#include "tests/support.h"

namespace moesh::train {
namespace {

using ::testing::HasSubstr;

std::string refusal_of_model(const std::string& words) {
  return test::message_of([&] {
    const config::Settings settings = config::load(test::words_of(words)).settings;
    hugging_face_model(settings, config::model_shape(settings));
  });
}

TEST(HuggingFaceModel, RotatesAllItsLayersInOneWay) {
  for (const char* block : {"olmo3 use_qk_norm=true", "gemma3"}) {
    const std::string model = std::string("base_num_decoder_layers=4 sliding_window_size=16 decoder_block=") + block;
    const std::string full = model + " layer_attention=[full] inhomogeneous_layer_cycle_interval=1";
    EXPECT_EQ(refusal_of_model(model + " local_rope_type=default rope_type=yarn rope_interleave=false"), "no error");
    for (const char* rope : {" rope_type=yarn", " rope_type=llama3.1"}) {
      EXPECT_EQ(refusal_of_model(model + rope), "no error") << "as the others";
      EXPECT_EQ(refusal_of_model(full + rope + " local_rope_type=default"), "no error");
      EXPECT_THAT(refusal_of_model(model + rope + " local_rope_type=default"),
                  HasSubstr("layers with a window rotate halves of a head, and the others neighbours: Hugging Face's models have one way"))
          << block << rope;
    }
  }
}

}  // namespace
}  // namespace moesh::train
