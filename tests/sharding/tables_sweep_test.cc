// Tables of every preset under several rule sets at usual terminal widths: no line is too wide, every spec is
// complete, and neighbouring rows can be told apart.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/builtin.h"
#include "sharding/diff.h"
#include "sharding/lint.h"
#include "sharding/report.h"
#include "sharding/why.h"
#include "tests/support.h"

namespace moesh::sharding {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> requests() {
  std::vector<std::string> all;
  for (const std::string& model : config::builtin_names("models")) {
    const std::string request = "model_name=" + model + " compile_topology=v5p-64 ";
    const bool has_own_mesh = model == "deepseek3-671b-2dfsdp" || model == "deepseek3-671b-batchsplit";  // without a tensor axis
    if (!has_own_mesh) all.push_back(request + "ici_fsdp_parallelism=4 ici_expert_parallelism=2 ici_tensor_parallelism=2 ici_context_parallelism=2");
    all.push_back(request + "custom_mesh_and_rule=ep-as-cp ici_fsdp_parallelism=8 ici_expert_parallelism=4");
    all.push_back(request + "custom_mesh_and_rule=2d-fsdp ici_fsdp_parallelism=8 ici_fsdp_transpose_parallelism=2 ici_expert_parallelism=2");
  }
  return all;
}

session::Session open(const std::string& request) { return session::open(test::words_of(request), session::Evenness::reported); }

// Only a line that consists of a single spec or path may be wider than the terminal.
void expect_lines_fit(const std::string& text, int width) {
  for (const std::string& line : split(text, '\n')) {
    const std::string words(trim(line));
    const bool one_word = words.find("  ") == std::string::npos && line.find('[') != std::string::npos;
    const bool one_path = words.find(' ') == std::string::npos;
    if (!one_word && !one_path) {
      EXPECT_LE(display_width(line), width) << line;
    }
  }
}

// Neighbouring rows between two headings begin with different names. A line that begins with a bracket continues a folded row.
void expect_rows_differ(const std::string& text) {
  std::string before;
  for (const std::string& line : split(text, '\n')) {
    const std::size_t start = line.find_first_not_of(' ');
    if (start == std::string::npos || line[start] == '[') continue;
    const std::string name = line.substr(0, line.find("  ", start));
    EXPECT_NE(name, before);
    EXPECT_THAT(name, ::testing::Not(HasSubstr("…")));
    before = name;
  }
}

TEST(TablesSweepSlow, FitAndSayWhereEveryTensorLies) {
  for (const std::string& request : requests()) {
    const session::Session session = open(request);
    for (const int width : {80, 120, 200}) {
      SCOPED_TRACE(request + " at " + std::to_string(width));
      const std::string text = report(session.layout, {"", true, width});
      expect_lines_fit(text, width);
      expect_rows_differ(text.substr(0, text.find("\n\nactivation")));
      for (const auto* tensors : {&session.layout.parameters, &session.layout.activations}) {
        for (const LaidTensor& tensor : *tensors) ASSERT_THAT(text, HasSubstr(test::lies(session.layout, tensor))) << tensor.path;
      }
    }
  }
}

TEST(TablesSweepSlow, FitWhenTwoLayoutsAreCompared) {
  for (const std::string& request : requests()) {
    const session::Session before = open(request);
    const session::Session after = open(request + " ici_fsdp_parallelism=-1 ici_expert_parallelism=1");
    const LayoutDiff moved = diff(before.layout, after.layout);
    for (const int width : {80, 120, 200}) {
      SCOPED_TRACE(request + " at " + std::to_string(width));
      const std::string text = to_text(moved, {true, width});
      expect_lines_fit(text, width);
      for (const Difference& d : moved.differences) {
        for (const auto& side : {d.before, d.after}) {
          if (side) {
            ASSERT_THAT(text, HasSubstr(side->spec)) << d.path;
          }
        }
      }
    }
  }
}

TEST(TablesSweepSlow, FitWhereOddLayoutsAreToldAndExplained) {
  for (const std::string& request : requests()) {
    const session::Session session = open(request);
    for (const int width : {80, 120, 200}) {
      SCOPED_TRACE(request + " at " + std::to_string(width));
      expect_lines_fit(to_text(lint(session.layout, {session.batch.micro_rows}), width), width);
      for (const LaidTensor* tensor : {&session.layout.parameters.front(), &session.layout.activations.back()}) {
        const std::string text = why(session.layout, *tensor, width);
        expect_lines_fit(text, width);
        EXPECT_THAT(text, HasSubstr(test::lies(session.layout, *tensor)));
      }
    }
  }
}

}  // namespace
}  // namespace moesh::sharding
