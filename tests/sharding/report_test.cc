// The tables that people read.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sharding/report.h"
#include "tests/support.h"

namespace moesh::sharding {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kReportedMixtral =
    "model_name=mixtral-8x7b compile_topology=v6e-8 ici_expert_parallelism=4 ici_fsdp_parallelism=2";

std::string report_of(const ReportOptions& options) { return report(test::session(kReportedMixtral).layout, options); }

TEST(Report, GroupsParametersByComponentInTheModelsOrder) {
  const std::string text = report_of({});
  std::size_t at = 0;
  for (const char* component : {"\nembedding ", "\nattention ", "\nrouter ", "\nexperts ", "\nnorms ", "\nlogits "}) {
    const std::size_t found = text.find(component, at);
    ASSERT_NE(found, std::string::npos) << component;
    at = found;
  }
}

TEST(Report, ListsEveryParameter) {
  for (const std::string request : {"model_name=deepseek3-tiny mtp_num_layers=1", "model_name=gpt3-52k", "model_name=gpt-oss-20b",
                                    "model_name=gemma2-2b", "model_name=llama4-17b-16e"}) {
    const Layout layout = test::session(request).layout;
    const std::string text = report(layout, {});
    for (const LaidTensor& parameter : layout.parameters) EXPECT_THAT(text, HasSubstr(parameter.path + " ")) << request;
  }
}

TEST(Report, SaysWhatWaitsInTheHostsMemory) {
  EXPECT_THAT(report_of({"", false, 0, true}),
              HasSubstr("On each device: 21.7 GiB of parameters; 43.5 GiB of optimizer state wait in the host's memory.\n"));
}

TEST(Report, EndsWithTotals) {
  EXPECT_TRUE(report_of({}).ends_with(
      "46.7 B parameters. On each device: 21.7 GiB of parameters + 43.5 GiB of optimizer state = 65.2 GiB.\n"
      "Input [96, 2048] of tokens lies as [(fsdp, expert), -].\n"));
}

TEST(Report, ListsActivationsOnRequest) {
  EXPECT_THAT(report_of({}), Not(HasSubstr("layer_output")));
  EXPECT_THAT(report_of({"", true, 0}), HasSubstr("decoder/layers/layer_output"));
}

TEST(Report, FiltersByPathOrByWholeLabel) {
  const std::string by_path = report_of({"MoeBlock_0", false, 0});
  EXPECT_THAT(by_path, HasSubstr("MoeBlock_0/wi_0"));
  EXPECT_THAT(by_path, Not(HasSubstr("self_attention/query")));
  const std::string by_label = report_of({"kv_heads", false, 0});
  EXPECT_THAT(by_label, HasSubstr("self_attention/key/kernel"));
  EXPECT_THAT(by_label, Not(HasSubstr("self_attention/query")));
}

TEST(Report, FitsTheWidth) {
  const std::string text = report_of({"", true, 120});
  for (const std::string& line : split(text.substr(0, text.find(" parameters. On")), '\n'))
    EXPECT_LE(display_width(line), 120) << line;
}

TEST(Report, SpellsLabels) { EXPECT_EQ(words_of({"a", "", "b"}), "a, -, b"); }

}  // namespace
}  // namespace moesh::sharding
