// Where each device is in the mesh, and how axis sizes follow from the settings.
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"
#include "mesh/mesh.h"
#include "tests/support.h"

namespace moesh::mesh {
namespace {

using test::message_of;

Mesh built(const std::string& request) {
  const config::Settings settings = config::load(test::words_of(request)).settings;
  return build_mesh(settings, target_of(settings));
}

std::string mesh_refusal(const std::string& request) {
  return message_of([&] { built(request); });
}

// "data=2x1 fsdp=1x4": DCN size x ICI size of each axis larger than 1.
std::string sizes(const Mesh& mesh) {
  std::vector<std::string> words;
  for (const Axis& axis : mesh.axes()) {
    if (axis.size() > 1) words.push_back(axis.name + "=" + std::to_string(axis.dcn) + "x" + std::to_string(axis.ici));
  }
  return join(words, " ");
}

TEST(Mesh, NumbersDevicesWithTheLastAxisFastest) {
  const Mesh mesh(std::vector<Axis>{{"a", 2, 1}, {"b", 3, 1}});
  EXPECT_EQ(mesh.devices(), 6);
  EXPECT_EQ(mesh.coordinates_of(0), (std::vector<std::int64_t>{0, 0}));
  EXPECT_EQ(mesh.coordinates_of(1), (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(mesh.coordinates_of(5), (std::vector<std::int64_t>{1, 2}));
}

TEST(Mesh, NumbersDevicesSliceBySlice) {
  const Mesh mesh(std::vector<Axis>{{"a", 2, 2}, {"b", 2, 1}});
  EXPECT_EQ(mesh.coordinates_of(3), (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(mesh.coordinates_of(4), (std::vector<std::int64_t>{2, 0})) << "the first device of the second slice";
  EXPECT_EQ(mesh.device_at({3, 1}), 7);
}

TEST(Mesh, TakesDevicesToCoordinatesAndBack) {
  const std::vector<std::vector<Axis>> meshes{{{"a", 2, 2}, {"b", 3, 1}, {"c", 1, 4}},
                                              {{"a", 1, 1}},
                                              {{"a", 1, 3}, {"b", 5, 2}},
                                              {{"a", 4, 1}, {"b", 1, 1}, {"c", 2, 2}}};
  for (const std::vector<Axis>& axes : meshes) {
    const Mesh mesh(axes);
    std::vector<std::vector<std::int64_t>> seen;
    for (std::int64_t device = 0; device < mesh.devices(); ++device) {
      const std::vector<std::int64_t> at = mesh.coordinates_of(device);
      ASSERT_EQ(mesh.device_at(at), device);
      for (std::size_t i = 0; i < at.size(); ++i) {
        ASSERT_GE(at[i], 0);
        ASSERT_LT(at[i], axes[i].size());
      }
      seen.push_back(at);
    }
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
  }
}

TEST(Mesh, FindsAxesByName) {
  const Mesh mesh(std::vector<Axis>{{"a", 2, 2}, {"b", 3, 1}});
  EXPECT_EQ(mesh.find("b"), AxisIndex{1});
  EXPECT_FALSE(mesh.find("c").has_value());
  EXPECT_EQ(mesh.size_of("a"), 4);
  EXPECT_EQ(mesh.size_of("c"), 1);
}

TEST(BuildMesh, GivesTheOpenAxisWhatIsLeft) {
  EXPECT_EQ(sizes(built("compile_topology=v6e-8")), "fsdp=1x8");
  EXPECT_EQ(sizes(built("compile_topology=v6e-8 ici_expert_parallelism=2")), "fsdp=1x4 expert=1x2");
  EXPECT_EQ(sizes(built("compile_topology=v6e-8 ici_expert_parallelism=-1 ici_fsdp_parallelism=2")),
            "fsdp=1x2 expert=1x4");
  EXPECT_EQ(sizes(built("compile_topology=v6e-8 ici_expert_parallelism=8")), "expert=1x8");
}

TEST(BuildMesh, KeepsTheOrderOfMeshAxes) {
  const Mesh mesh = built("custom_mesh_and_rule=ep-as-cp");
  ASSERT_EQ(mesh.axes().size(), 4u);
  EXPECT_EQ(mesh.axis(0).name, "data");
  EXPECT_EQ(mesh.axis(3).name, "expert");
}

TEST(BuildMesh, SpreadsAxesOverSlices) {
  const std::string pods = "compile_topology=v5p-16 compile_topology_num_slices=4 ";
  EXPECT_EQ(sizes(built(pods)), "data=4x1 fsdp=1x8") << "dcn_data_parallelism is -1 by default";
  EXPECT_EQ(built(pods).devices(), 32);
  EXPECT_EQ(sizes(built(pods + "dcn_fsdp_parallelism=2 ici_expert_parallelism=2")), "data=2x1 fsdp=2x4 expert=1x2");
  EXPECT_EQ(sizes(built(pods + "dcn_data_parallelism=2 dcn_pipeline_parallelism=2")), "stage=2x1 data=2x1 fsdp=1x8");
}

TEST(BuildMesh, PutsStagesFirstInAPipeline) {
  const Mesh mesh = built("compile_topology=v6e-8 ici_pipeline_parallelism=2");
  ASSERT_TRUE(mesh.find("stage") && mesh.find("data"));
  EXPECT_LT(*mesh.find("stage"), *mesh.find("data"));
  EXPECT_EQ(sizes(mesh), "stage=1x2 fsdp=1x4");
}

TEST(BuildMesh, RefusesARuleForAnAxisThatNoMeshHas) {
  const test::TemporaryFolder folder;
  const std::string file =
      folder.write("mine.yml", "mesh_axes: [data, fsdp]\nlogical_axis_rules:\n  - [embed, [fsdp, banana]]\n");
  EXPECT_EQ(
      mesh_refusal("compile_topology=v6e-8 custom_mesh_and_rule=" + file),
      file +
          ":3: the rule of embed names the axis 'banana', which no mesh has\n  fix: use the axes of configs/base.yml");
  EXPECT_EQ(mesh_refusal("compile_topology=v6e-8 logical_axis_rules=[[embed,[fsdpp]]]"),
            "the command line: the rule of embed names the axis 'fsdpp', which no mesh has\n  fix: did you mean fsdp?");
  const std::string other = folder.write(
      "other.yml", "mesh_axes: [data, fsdp]\nlogical_axis_rules: [[embed, [tensor, fsdp]], [exp, stage]]\n");
  EXPECT_EQ(mesh_refusal("compile_topology=v6e-8 custom_mesh_and_rule=" + other), "no error") << "axes of other meshes";
}

TEST(BuildMesh, NamesEveryFactorOfAProductThatDoesNotFit) {
  EXPECT_EQ(mesh_refusal("compile_topology=v6e-8 ici_fsdp_parallelism=4 ici_expert_parallelism=4"),
            "the mesh: ici_fsdp_parallelism=4 x ici_expert_parallelism=4 make 16, a slice of v6e-8 has 8 devices\n"
            "  fix: ici_fsdp_parallelism=2, or ici_fsdp_parallelism=-1 to take what is left, or choose sizes that multiply to it");
  EXPECT_EQ(mesh_refusal("compile_topology=v6e-8 ici_tensor_parallelism=3"),
            "the mesh: ici_fsdp_parallelism=-1 x ici_tensor_parallelism=3 make a multiple of 3, a slice of v6e-8 has 8 "
            "devices\n  fix: choose sizes whose product divides 8");
  EXPECT_EQ(mesh_refusal("compile_topology=v6e-8 ici_fsdp_parallelism=1"),
            "the mesh: all sizes 1 make 1, a slice of v6e-8 has 8 devices\n"
            "  fix: ici_fsdp_parallelism=-1 to take what is left, or choose sizes that multiply to it");
  EXPECT_EQ(mesh_refusal("compile_topology=v6e-8 compile_topology_num_slices=2 dcn_data_parallelism=3"),
            "the mesh: dcn_data_parallelism=3 makes 3, v6e-8 has 2 slices\n"
            "  fix: dcn_data_parallelism=2, or compile_topology_num_slices=3, or dcn_data_parallelism=-1 to take what is left, or choose sizes "
            "that multiply to it");
  EXPECT_EQ(mesh_refusal("compile_topology=v6e-1 ici_fsdp_parallelism=2"),
            "the mesh: ici_fsdp_parallelism=2 makes 2, a slice of v6e-1 has 1 device\n"
            "  fix: ici_fsdp_parallelism=1, or ici_fsdp_parallelism=-1 to take what is left, or choose sizes that multiply to it");
  EXPECT_EQ(mesh_refusal("compile_topology=v5p-16 compile_topology_num_slices=2 custom_mesh_and_rule=pure-fsdp"),
            "the mesh: all sizes 1 make 1, v5p-16 has 2 slices\n"
            "  fix: compile_topology_num_slices=1, or dcn_fsdp_parallelism=-1 to take what is left, or choose sizes that multiply to it");
}

// A node of GPUs is a slice where sizes between and within slices make all of the machine.
TEST(BuildMesh, NamesTheSlicesThatSizesAreMeantFor) {
  const std::string machine = "compile_topology=h100-64 dcn_fsdp_parallelism=8 ";
  EXPECT_EQ(mesh_refusal(machine + "ici_tensor_parallelism=8 ici_fsdp_parallelism=1"),
            "the mesh: ici_tensor_parallelism=8 makes 8, a slice of h100-64 has 64 devices\n"
            "  fix: compile_topology=h100-8 compile_topology_num_slices=8, as sizes between slices need slices");
  EXPECT_EQ(mesh_refusal(machine + "ici_tensor_parallelism=8"),
            "the mesh: dcn_data_parallelism=-1 x dcn_fsdp_parallelism=8 make a multiple of 8, h100-64 has 1 slice\n"
            "  fix: compile_topology=h100-8 compile_topology_num_slices=8, as sizes between slices need slices");
  const Mesh fixed =
      built("compile_topology=h100-8 compile_topology_num_slices=8 dcn_fsdp_parallelism=8 ici_tensor_parallelism=8 ici_fsdp_parallelism=1");
  EXPECT_EQ(sizes(fixed), "fsdp=8x1 tensor=1x8");
  EXPECT_THAT(mesh_refusal(machine + "ici_tensor_parallelism=4 ici_fsdp_parallelism=1"),
              ::testing::HasSubstr("fix: ici_tensor_parallelism=64, or ")) << "the sizes do not make the machine";
  EXPECT_THAT(mesh_refusal("compile_topology=v5e-256 dcn_fsdp_parallelism=2 ici_fsdp_parallelism=128"),
              ::testing::HasSubstr("fix: compile_topology=v5e-128 compile_topology_num_slices=2"));
}

TEST(BuildMesh, LeavesOneAxisOpenAtMost) {
  EXPECT_EQ(mesh_refusal("compile_topology=v6e-8 ici_fsdp_parallelism=-1 ici_expert_parallelism=-1"),
            "the mesh: 2 axes are -1 (ici_fsdp_parallelism=-1 x ici_expert_parallelism=-1), at most one can take what "
            "is left");
}

TEST(BuildMesh, RefusesAnEmptyAxis) {
  EXPECT_EQ(mesh_refusal("ici_expert_parallelism=0"),
            "the command line: ici_expert_parallelism is 0, a size or -1 was expected");
}

TEST(BuildMesh, RefusesASizeForAnAxisThatTheMeshLacks) {
  EXPECT_EQ(mesh_refusal("custom_mesh_and_rule=ep-as-cp ici_tensor_parallelism=2"),
            "the command line: ici_tensor_parallelism=2, but the mesh has only the axes data, stage, fsdp, expert\n"
            "  fix: choose another rule set, or leave the key out");
  EXPECT_EQ(sizes(built("custom_mesh_and_rule=ep-as-cp ici_tensor_parallelism=1")), "fsdp=1x8");
}

TEST(BuildMesh, RefusesAxesThatAreNone) {
  EXPECT_EQ(mesh_refusal("mesh_axes=[]"), "the command line: mesh_axes is empty, at least one axis was expected");
  EXPECT_EQ(mesh_refusal("mesh_axes=[fsdp,data,fsdp]"),
            "the command line: mesh axis 'fsdp' stands twice\n  fix: name it once");
  EXPECT_EQ(mesh_refusal("mesh_axes=[data,tensor,model]"),
            "the command line: mesh axes 'tensor' and 'model' both take their size from ici_tensor_parallelism\n  fix: name one of them");
  EXPECT_EQ(mesh_refusal("compile_topology=v6e-8 compile_topology_num_slices=0"),
            "the command line: compile_topology_num_slices is 0, a number of slices or -1 was expected");
  EXPECT_EQ(mesh_refusal("mesh_axes=[rows]"),
            "the command line: mesh axis 'rows' is unknown: no key ici_rows_parallelism gives its size\n"
            "  fix: use the axes of configs/base.yml");
  std::string many = "mesh_axes=[a0";
  for (int i = 1; i < 65; ++i) many += ",a" + std::to_string(i);
  EXPECT_EQ(mesh_refusal(many + "]"), "the command line: 65 mesh axes, at most 31 are held");
}

TEST(BuildMesh, RefusesProductsBeyond64Bits) {
  EXPECT_EQ(mesh_refusal("ici_data_parallelism=1048576 ici_fsdp_parallelism=1048576 ici_tensor_parallelism=1048576 "
                    "ici_expert_parallelism=1048576"),
            "ici_expert_parallelism: the axis sizes multiply to more than 2^63\n  fix: lower them");
}

TEST(Target, IsThisMachineAsEightDevicesWhenAnAxisIsOpen) {
  EXPECT_EQ(built("").devices(), 8);
  EXPECT_EQ(sizes(built("ici_expert_parallelism=2")), "fsdp=1x4 expert=1x2");
  EXPECT_EQ(sizes(built("ici_expert_parallelism=16")), "expert=1x16") << "what does not fit into 8 is taken as it is";
}

TEST(Target, IsAsManyDevicesAsTheSizesMultiplyTo) {
  EXPECT_EQ(built("ici_fsdp_parallelism=2 ici_expert_parallelism=3").devices(), 6);
  EXPECT_EQ(built("ici_fsdp_parallelism=1").devices(), 1);
}

TEST(Target, SharesThisMachineOutOverSlices) {
  EXPECT_EQ(sizes(built("num_slices=2")), "data=2x1 fsdp=1x4");
  EXPECT_EQ(sizes(built("dcn_fsdp_parallelism=4 dcn_data_parallelism=1")), "fsdp=4x2");
  EXPECT_EQ(sizes(built("num_slices=16")), "data=16x1");
}

TEST(Target, IsRefusedWhenItIsNoHardware) {
  EXPECT_EQ(message_of([] { load_builtin_chip("abacus"); }), "hardware 'abacus' is not built in");
}

TEST(Target, IsTheHardwareThatIsNamed) {
  const config::Settings settings =
      config::load(test::words_of("compile_topology=tpu7x-16 compile_topology_num_slices=2")).settings;
  const Topology target = target_of(settings);
  EXPECT_EQ(target.name, "tpu7x-16");
  EXPECT_EQ(target.slices, 2);
  EXPECT_EQ(target.devices(), 32);
}

}  // namespace
}  // namespace moesh::mesh
