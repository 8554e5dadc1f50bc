// Opening a request: its headline, and what only a run refuses.
#include "session/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support.h"

namespace moesh::session {
namespace {

using ::testing::HasSubstr;

std::string headline_of(const std::string& request) { return headline(open(test::words_of(request))); }

TEST(Session, HasAHeadline) {
  EXPECT_EQ(headline_of("model_name=mixtral-8x7b compile_topology=v6e-8 ici_expert_parallelism=4"),
            "mixtral-8x7b on v6e-8: 8 devices as fsdp=2 x expert=4, default rules");
  EXPECT_EQ(headline_of("compile_topology=v6e-8 compile_topology_num_slices=2 custom_mesh_and_rule=ep-as-dp"),
            "default on v6e-8: 16 devices as data=2 (2 slices x 1) x fsdp=8, ep-as-dp rules");
  EXPECT_EQ(headline_of("ici_fsdp_parallelism=1"), "default on cpu-1: 1 device as one device, default rules");
}

TEST(Session, MultipliesFloat32AtThePrecisionThatIsAskedFor) {
  const auto rate = [](const std::string& precision) {
    return test::session("compile_topology=v5p-8 matmul_precision=" + precision).target.chip.f32_rate().value();
  };
  EXPECT_EQ(rate("default"), 459e12);
  EXPECT_EQ(rate("bfloat16"), 459e12);
  EXPECT_EQ(rate("high"), 153e12);
  EXPECT_EQ(rate("highest"), 76.5e12);
  EXPECT_EQ(rate("float32"), 76.5e12);
}

TEST(Session, OfARunRefusesWhatCanOnlyBeLaidOut) {
  const std::vector<std::string> request{"dataset_type=hf"};
  EXPECT_EQ(test::message_of([&] { open(request); }), "no error");
  EXPECT_THAT(test::message_of([&] { open_to_run(request, config::Run::training); }),
              HasSubstr("dataset_type=hf is not supported by moesh"));
}

}  // namespace
}  // namespace moesh::session
