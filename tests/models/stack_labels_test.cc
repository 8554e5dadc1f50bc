// Tests that the labels of stacked layers are told from others.
#include <map>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "config/builtin.h"
#include "sharding/labels.h"
#include "tests/support.h"

namespace moesh::models {
namespace {

std::set<std::string> labels_of(const std::string& request) {
  std::set<std::string> found;
  for (const sharding::LaidTensor& parameter : test::session(request).layout.parameters)
    found.insert(parameter.labels().begin(), parameter.labels().end());
  return found;
}

// In parameters the dim of the layers stands where it is asked for; what is not stacked stays as it is.
TEST(StackLabels, StandWhereTheyAreAskedFor) {
  const auto shapes_of = [](const char* axis) {
    std::map<std::string, Shape> shapes;
    for (const sharding::LaidTensor& of : test::session("model_name=deepseek3-tiny param_scan_axis=" + std::string(axis)).layout.parameters)
      shapes[of.path] = of.shape;
    return shapes;
  };
  const auto usual = shapes_of("1"), first = shapes_of("0");
  EXPECT_EQ(usual.size(), first.size());
  for (const auto& [path, shape] : usual) {
    Shape moved = shape;
    if (path.find("_layers/") != std::string::npos && shape.size() > 1) std::swap(moved[0], moved[1]);
    EXPECT_EQ(first.at(path), moved) << path;
  }
}

// What layers have that are not scanned are their own dims, and what scanning adds are dims of stacks.
TEST(StackLabels, AreThoseThatScanningAdds) {
  const std::string stages =
      "llama2-7b override_model_config=true base_num_decoder_layers=16 compile_topology=cpu-2 ici_pipeline_parallelism=2 "
      "ici_fsdp_parallelism=1 ";
  std::vector<std::string> models = config::builtin_names("models");
  for (const char* how : {"num_layers_per_pipeline_stage=2 scan_layers_per_stage=true", "num_layers_per_pipeline_stage=2",
                          "num_layers_per_pipeline_stage=4 scan_layers_per_stage=true"})
    models.push_back(stages + how);
  std::set<std::string> seen;
  for (const std::string& model : models) {
    const std::string of_all = "override_model_config=true scan_layers=false model_name=" + model.substr(0, model.find(' '));
    const std::set<std::string> written_out = labels_of(of_all);
    for (const std::string& label : written_out) EXPECT_FALSE(labels::stacks_layers(label)) << model << ": " << label;
    for (const std::string& label : labels_of("override_model_config=true scan_layers=true model_name=" + model)) {
      if (written_out.contains(label)) continue;
      EXPECT_TRUE(labels::stacks_layers(label)) << model << ": " << label;
      seen.insert(label);
    }
  }
  EXPECT_EQ(seen, (std::set<std::string>{labels::layers, labels::dense_layers, labels::moe_layers, labels::local_layers,
                                         labels::layers_per_stage, labels::circular_repeats, labels::scanned_blocks}));
}

}  // namespace
}  // namespace moesh::models
