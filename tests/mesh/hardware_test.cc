// What the hardware catalogue contains, how names are looked up in it, and what is said about wrong names.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/text.h"
#include "mesh/hardware.h"
#include "mesh/topology.h"
#include "tests/mesh/hardware_file.h"
#include "tests/support.h"

namespace moesh::mesh {
namespace {

using test::message_of;

// MaxText's accelerator table as SIZE:GRID, followed by "+" if every dim wraps and by "+01" if only some do.
// SIZE counts each device `per_device` times.
struct KnownKind {
  std::string name;
  std::int64_t per_device;
  std::string sizes;
};

const std::vector<KnownKind>& known_kinds() {
  static const std::vector<KnownKind> kinds = {
      {"tpu7x", 1,
       "2:1x1x1 8:2x2x1 16:2x2x2 32:2x2x4 64:2x4x4 128:4x4x4+ 256:4x4x8+ 384:4x4x12+ 512:4x8x8+ 640:4x4x20+ "
       "768:4x8x12+ 896:4x4x28+ 1024:8x8x8+ 1152:4x12x12+ 1280:4x8x20+ 1408:4x4x44+ 1536:8x8x12+ 1664:4x4x52+ "
       "1792:4x8x28+ 1920:4x12x20+ 2048:8x8x16+ 2176:4x4x68+ 2304:8x12x12+ 2432:4x4x76+ 2560:8x8x20+ 2688:4x12x28+ "
       "2816:4x8x44+ 2944:4x4x92+ 3072:8x12x16+ 3200:4x20x20+ 3328:4x8x52+ 3456:12x12x12+ 3584:8x8x28+ 3712:4x4x116+ "
       "3840:8x12x20+ 3968:4x4x124+ 4096:8x16x16+ 4224:4x12x44+ 4352:4x8x68+ 4480:4x20x28+ 4608:12x12x16+ "
       "4736:4x4x148+ 4864:4x8x76+ 4992:4x12x52+ 5120:8x16x20+ 5248:4x4x164+ 5376:8x12x28+ 5504:4x4x172+ 5632:8x8x44+ "
       "5760:12x12x20+ 5888:4x8x92+ 6016:4x4x188+ 6144:12x16x16+ 6272:4x28x28+ 6400:8x20x20+ 6528:4x12x68+ "
       "6656:8x8x52+ 6784:4x4x212+ 6912:12x12x24+ 7040:4x20x44+ 7168:8x16x28+ 7296:4x12x76+ 7424:4x8x116+ "
       "7552:4x4x236+ 7680:12x16x20+ 7808:4x4x244+ 7936:4x8x124+ 8064:12x12x28+ 8192:16x16x16+ 8320:4x20x52+ "
       "8448:8x12x44+ 8704:8x8x68+ 8832:4x12x92+ 8960:8x20x28+ 9216:12x16x24+ 9472:4x8x148+ 9600:12x20x20+ "
       "9728:8x8x76+ 9856:4x28x44+ 9984:8x12x52+ 10240:16x16x20+ 10368:12x12x36+ 10496:4x8x164+ 10752:12x16x28+ "
       "10880:4x20x68+ 11008:4x8x172+ 11136:4x12x116+ 11264:8x16x44+ 11520:12x20x24+ 11648:4x28x52+ 11776:8x8x92+ "
       "11904:4x12x124+ 12032:4x8x188+ 12160:4x20x76+ 12288:16x16x24+ 13824:12x24x24+ 16384:16x16x32+ 17920:16x20x28+ "
       "18432:16x24x24+"},
      {"v6e", 1, "1:1x1 4:2x2 8:2x4 16:4x4 32:4x8 64:8x8 128:8x16+01 256:16x16+"},
      {"v5e", 1, "1:1x1 4:2x2 8:2x4 16:4x4 32:4x8 64:8x8 128:8x16+01 256:16x16+"},
      {"v4", 2,
       "8:2x2x1 16:2x2x2 32:2x2x4 64:2x4x4 128:4x4x4+ 256:4x4x8+ 384:4x4x12+ 512:4x8x8+ 1024:8x8x8+ 1536:8x8x12+ "
       "2048:8x8x16+ 4096:8x16x16+"},
      {"v5p", 2,
       "8:2x2x1 16:2x2x2 32:2x2x4 64:2x4x4 128:4x4x4+ 256:4x4x8+ 384:4x4x12+ 512:4x8x8+ 640:4x4x20+ 768:4x8x12+ "
       "896:4x4x28+ 1024:8x8x8+ 1152:4x12x12+ 1280:4x8x20+ 1408:4x4x44+ 1536:8x8x12+ 1664:4x4x52+ 1792:4x8x28+ "
       "1920:4x12x20+ 2048:8x8x16+ 2176:4x4x68+ 2304:8x12x12+ 2432:4x4x76+ 2560:8x8x20+ 2688:4x12x28+ 2816:4x8x44+ "
       "2944:4x4x92+ 3072:8x12x16+ 3200:4x20x20+ 3328:4x8x52+ 3456:12x12x12+ 3584:8x8x28+ 3712:4x4x116+ 3840:8x12x20+ "
       "3968:4x4x124+ 4096:8x16x16+ 4224:4x12x44+ 4352:4x8x68+ 4480:4x20x28+ 4608:12x12x16+ 4736:4x4x148+ "
       "4864:4x8x76+ 4992:4x12x52+ 5120:8x16x20+ 5248:4x4x164+ 5376:8x12x28+ 5504:4x4x172+ 5632:8x8x44+ "
       "5760:12x12x20+ 5888:4x8x92+ 6016:4x4x188+ 6144:12x16x16+ 6272:4x28x28+ 6400:8x20x20+ 6528:4x12x68+ "
       "6656:8x8x52+ 6784:4x4x212+ 6912:12x12x24+ 7040:4x20x44+ 7168:8x16x28+ 7296:4x12x76+ 7424:4x8x116+ "
       "7552:4x4x236+ 7680:12x16x20+ 7808:4x4x244+ 7936:4x8x124+ 8064:12x12x28+ 8192:16x16x16+ 8320:4x20x52+ "
       "8448:8x12x44+ 8704:8x8x68+ 8832:4x12x92+ 8960:8x20x28+ 9216:12x16x24+ 9472:4x8x148+ 9600:12x20x20+ "
       "9728:8x8x76+ 9856:4x28x44+ 9984:8x12x52+ 10240:16x16x20+ 10368:12x12x36+ 10496:4x8x164+ 10752:12x16x28+ "
       "10880:4x20x68+ 11008:4x8x172+ 11136:4x12x116+ 11264:8x16x44+ 11520:12x20x24+ 11648:4x28x52+ 11776:8x8x92+ "
       "11904:4x12x124+ 12032:4x8x188+ 12160:4x20x76+ 12288:16x16x24+ 13824:12x24x24+ 17920:16x20x28+"},
  };
  return kinds;
}

std::string printed(const std::vector<std::int64_t>& grid) {
  std::vector<std::string> words;
  for (const std::int64_t dim : grid) words.push_back(std::to_string(dim));
  return join(words, "x");
}

std::string printed(const std::vector<bool>& wrap) {
  std::string bits;
  for (const bool closed : wrap) bits += closed ? '1' : '0';
  if (bits.find('1') == std::string::npos) return "";
  return bits.find('0') == std::string::npos ? "+" : "+" + bits;
}

std::string name_refusal(const std::string& name, std::int64_t slices = 1) {
  return message_of([&] { find_topology(name, slices); });
}

// A file that is removed when the test ends.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() / ("moesh_hardware_test_" + std::to_string(::getpid()) + ".yml")) {
    std::ofstream(path_) << text;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

TEST(Catalogue, HasTheKindsThatTheDesignNames) {
  EXPECT_EQ(join(hardware_names(), " "),
            "a100 a100-40gb a800 b200 b300 cpu gb200 gb300 h100 h20 h200 h800 l40s mi300x mi325x mi355x rtx4090 rtx5090 tpu7x v4 v5e v5p v6e");
}

TEST(Catalogue, GivesEveryKindItsSourceItsRatesAndAWayOutOfTheSlice) {
  for (const std::string& name : hardware_names()) {
    const Chip chip = load_builtin_chip(name);
    SCOPED_TRACE(name);
    EXPECT_EQ(chip.name, name);
    EXPECT_FALSE(chip.title.empty());
    EXPECT_FALSE(chip.source.empty());
    ASSERT_TRUE(chip.bf16_flops_per_second && chip.f32_flops_per_second);
    const auto [lowest, high, highest] = *chip.f32_flops_per_second;
    EXPECT_LT(highest, *chip.bf16_flops_per_second);
    EXPECT_LE(highest, high);
    EXPECT_LE(high, lowest);
    EXPECT_LE(lowest, *chip.bf16_flops_per_second);
    EXPECT_GE(chip.fp8_flops_per_second.value_or(*chip.bf16_flops_per_second), *chip.bf16_flops_per_second);
    EXPECT_LE(chip.usable_memory_bytes, chip.memory_bytes);
    EXPECT_GE(chip.links.size(), 2u);
    EXPECT_EQ(chip.links.back().domain, Domain::all);
    EXPECT_EQ(chip.devices_per_chip, name == "tpu7x" ? 2 : 1);
  }
}

TEST(Catalogue, LeavesOutFp8WhereTheChipHasNone) {
  for (const std::string& name : hardware_names()) {
    const bool has_none = name.starts_with("a100") || name == "a800" || name == "cpu" || name == "v4" || name == "v5e";
    EXPECT_EQ(load_builtin_chip(name).fp8_flops_per_second.has_value(), !has_none) << name;
  }
}

TEST(Catalogue, OrdersLinksFromFastToSlow) {
  for (const std::string& name : hardware_names()) {
    const std::vector<Link> links = load_builtin_chip(name).links;
    for (std::size_t i = 1; i < links.size(); ++i) {
      EXPECT_GT(links[i - 1].bytes_per_second, links[i].bytes_per_second) << name;
      EXPECT_LE(links[i - 1].latency_seconds, links[i].latency_seconds) << name;
    }
  }
}

TEST(Catalogue, GivesHalfAChipToADeviceOfTpu7x) {
  const Chip chip = load_builtin_chip("tpu7x");
  EXPECT_DOUBLE_EQ(*chip.bf16_flops_per_second * 2, 2307e12);
  EXPECT_DOUBLE_EQ(chip.memory_bytes_per_second * 2, 7380e9);
  EXPECT_EQ(chip.memory_bytes * 2, std::int64_t{192} << 30);
}

TEST(FindTopology, GivesEveryNameOfTheReferenceItsGridWrapAndDevices) {
  for (const KnownKind& kind : known_kinds()) {
    for (const std::string& entry : split(kind.sizes, ' ')) {
      const std::string size = entry.substr(0, entry.find(':'));
      const Topology found = find_topology(kind.name + "-" + size, 1);
      EXPECT_EQ(size + ":" + printed(found.grid) + printed(found.wrap), entry) << kind.name;
      EXPECT_EQ(found.devices_per_slice, *parse_integer(size) / kind.per_device) << kind.name << "-" << size;
      EXPECT_EQ(found.chip.name, kind.name);
    }
  }
}

TEST(FindTopology, KnowsNoTpuSizeThatTheReferenceLacks) {
  for (const KnownKind& kind : known_kinds()) {
    const Chip chip = load_builtin_chip(kind.name);
    EXPECT_EQ(std::get<GridSizes>(chip.sizes).grids.size(), split(kind.sizes, ' ').size()) << kind.name;
  }
}

TEST(FindTopology, MultipliesDevicesBySlices) {
  const Topology found = find_topology("v5p-128", 4);
  EXPECT_EQ(found.devices_per_slice, 64);
  EXPECT_EQ(found.devices(), 256);
  EXPECT_EQ(found.name, "v5p-128");
}

TEST(FindTopology, TakesPartOfANodeOrWholeNodes) {
  EXPECT_EQ(printed(find_topology("h100-1", 1).grid), "1");
  EXPECT_EQ(printed(find_topology("b200-4", 1).grid), "4");
  EXPECT_EQ(printed(find_topology("a100-40gb-3", 1).grid), "3");
  EXPECT_EQ(printed(find_topology("mi300x-8", 1).grid), "8");
  EXPECT_EQ(printed(find_topology("a100-24", 1).grid), "3x8");
  EXPECT_EQ(find_topology("h200-65536", 1).devices(), 65536);
}

TEST(FindTopology, TakesA3ForANodeOfH100) {
  const Topology found = find_topology("a3", 3);
  EXPECT_EQ(found.name, "a3");
  EXPECT_EQ(found.chip.name, "h100");
  EXPECT_EQ(found.devices_per_slice, 8);
  EXPECT_EQ(found.devices(), 24);
}

TEST(FindTopology, TakesAnyNumberOfCpuDevices) {
  for (const std::int64_t size : {1, 3, 8, 4097, 65536}) {
    EXPECT_EQ(find_topology("cpu-" + std::to_string(size), 1).devices(), size);
  }
}

TEST(FindTopology, ReadsAFileOfTheUsers) {
  const TemporaryFile file(kValid);
  const Topology found = find_topology(file.path() + ":16", 2);
  EXPECT_EQ(printed(found.grid), "4x4");
  EXPECT_EQ(found.devices(), 32);
  EXPECT_EQ(found.chip.title, "A chip");
  EXPECT_EQ(found.chip.usable_memory_bytes, 1000);
  EXPECT_EQ(name_refusal(file.path()), "compile_topology: hardware '" + file.path() +
                                           "' needs a size: 4, 16 was expected\n  fix: for example " + file.path() +
                                           ":4 or " + file.path() + ":16");
  EXPECT_EQ(name_refusal(file.path() + ":9"), "compile_topology: hardware '" + file.path() +
                                                  "' has no size '9': 4, 16 was expected\n  fix: use " + file.path() +
                                                  ":4 or " + file.path() + ":16");
}

// Every size up to some is tried, of several nodes: the sizes that are offered are the nearest ones.
TEST(FindTopology, OffersTheSizesOfNodesThatAreNearest) {
  for (const auto& [node, most] : {std::pair{8, 64}, {1, 3}, {5, 23}, {7, 7}}) {
    const TemporaryFile file(with_line("sizes", fmt::format("sizes: {{node: {}, most: {}}}", node, most)));
    const auto is_size = [&](int size) { return size >= 1 && size <= most && (size <= node || size % node == 0); };
    for (int size = 1; size < 2 * most; ++size) {
      if (is_size(size)) continue;
      int below = size, above = size;
      while (!is_size(below)) --below;
      while (above <= most && !is_size(above)) ++above;
      std::string offered = fmt::format("\n  fix: use {}:{}", file.path(), below);
      if (above <= most) offered += fmt::format(" or {}:{}", file.path(), above);
      const std::string refused = name_refusal(fmt::format("{}:{}", file.path(), size));
      EXPECT_TRUE(refused.ends_with(offered)) << refused << "\n" << offered;
    }
  }
}

TEST(FindTopology, TakesNoMemoryForTheDevicesOfANode) {
  const TemporaryFile file(with_line("sizes", "sizes: {node: 4000000000, most: 4000000000}"));
  EXPECT_EQ(name_refusal(file.path() + ":4000000001"),
            "compile_topology: hardware '" + file.path() +
                "' has no size '4000000001': 1 to 4000000000, or a multiple of 4000000000 up to 4000000000 "
                "was expected\n  fix: use " +
                file.path() + ":4000000000");
}

TEST(FindTopology, NeedsNoSizeForAFileWithOneGrid) {
  const TemporaryFile file(with_line("sizes", "sizes: {grids: [4x4x8], wrap: {at_least: 8}}"));
  const Topology found = find_topology(file.path(), 1);
  EXPECT_EQ(found.devices(), 128);
  EXPECT_EQ(printed(found.wrap), "+001");
}

TEST(FindTopology, ClosesNoRingWhenOneDimIsNoMultiple) {
  const TemporaryFile file(with_line("sizes", "sizes: {grids: [4x6, 4x8], wrap: {all_multiples_of: 4}}"));
  EXPECT_EQ(printed(find_topology(file.path() + ":24", 1).wrap), "");
  EXPECT_EQ(printed(find_topology(file.path() + ":32", 1).wrap), "+");
}

TEST(FindTopology, SaysThatAFileIsMissing) {
  EXPECT_EQ(name_refusal("no/such.yml:8"), "no/such.yml: no such file\n  fix: check the path");
}

TEST(FindTopology, NamesTheNearestKinds) {
  const std::string kinds =
      "a100, a100-40gb, a800, b200, b300, cpu, gb200, gb300, h100, h20, h200, h800, l40s, mi300x, mi325x, mi355x, rtx4090, rtx5090, "
      "tpu7x, v4, v5e, v5p, v6e";
  EXPECT_EQ(name_refusal("V5P-128"), "compile_topology: hardware 'V5P-128' is unknown, KIND-SIZE with one of " + kinds +
                                         " or PATH.yml:SIZE was expected\n  fix: did you mean v5p-128?");
  EXPECT_EQ(name_refusal("mi300-16"), "compile_topology: hardware 'mi300-16' is unknown, KIND-SIZE with one of " + kinds +
                                          " or PATH.yml:SIZE was expected\n  fix: did you mean mi300x-16 or b300-16 or gb300-16?");
  EXPECT_EQ(name_refusal("quantum-8"), "compile_topology: hardware 'quantum-8' is unknown, KIND-SIZE with one of " +
                                           kinds + " or PATH.yml:SIZE was expected");
  EXPECT_EQ(name_refusal("v5-128"), "compile_topology: hardware 'v5-128' is unknown, KIND-SIZE with one of " + kinds +
                                        " or PATH.yml:SIZE was expected\n  fix: did you mean v4-128 or v5e-128 or "
                                        "v5p-128?");
}

TEST(FindTopology, NamesWhatIsMeantWithoutAHyphen) {
  for (const auto& [name, meant] : {std::pair{"v6e64", "v6e-64"}, {"h100x8", "h100-8"}, {"v5p128", "v5p-128"}, {"v6e_64", "v6e-64"},
                                    {"V5P:128", "v5p-128"}, {"mi300x16", "mi300x-16"}, {"gb30016", "gb300-16"}, {"v5p100", "v5p-64"}})
    EXPECT_TRUE(name_refusal(name).ends_with(std::string("did you mean ") + meant + "?")) << name << ": " << name_refusal(name);
  EXPECT_TRUE(name_refusal("v6e-64x2").ends_with("\n  fix: use v6e-64 or v6e-128")) << name_refusal("v6e-64x2");
}

TEST(FindTopology, NamesTheNearestSizes) {
  EXPECT_EQ(name_refusal("v5p-100"),
            "compile_topology: hardware 'v5p' has no size '100': one of 96 sizes from 8 to 17920 was expected\n"
            "  fix: use v5p-64 or v5p-128");
  EXPECT_EQ(name_refusal("v6e-2"),
            "compile_topology: hardware 'v6e' has no size '2': 1, 4, 8, 16, 32, 64, 128, 256 was expected\n"
            "  fix: use v6e-1 or v6e-4");
  EXPECT_EQ(name_refusal("tpu7x-99999"),
            "compile_topology: hardware 'tpu7x' has no size '99999': one of 99 sizes from 2 to 18432 was expected\n"
            "  fix: use tpu7x-18432");
  EXPECT_EQ(name_refusal("h100-12"),
            "compile_topology: hardware 'h100' has no size '12': 1 to 8, or a multiple of 8 up to 65536 was expected\n"
            "  fix: use h100-8 or h100-16");
  EXPECT_EQ(name_refusal("cpu-65537"),
            "compile_topology: hardware 'cpu' has no size '65537': 1 to 65536 was expected\n  fix: use cpu-65536");
  EXPECT_EQ(name_refusal("v5p"),
            "compile_topology: hardware 'v5p' needs a size: one of 96 sizes from 8 to 17920 was expected\n"
            "  fix: for example v5p-8 or v5p-16");
}

TEST(FindTopology, RefusesSizesThatAreNoPlainNumber) {
  for (const std::string size : {"0", "08", "+8", "8.0", "8_0", "1e1", " 8", "8 ", "x", "0x8"}) {
    const std::string message = name_refusal("h100-" + size);
    EXPECT_EQ(message,
              "compile_topology: hardware 'h100' has no size '" + size +
                  "': 1 to 8, or a multiple of 8 up to 65536 was expected\n  fix: for example h100-8 or h100-16");
  }
  EXPECT_TRUE(name_refusal("v5p-99999999999999999999").find("has no size '99999999999999999999'") != std::string::npos);
  EXPECT_TRUE(name_refusal("h100-9223372036854775807").find("use h100-65536") != std::string::npos);
}

TEST(FindTopology, RefusesSliceCountsOutOfRange) {
  EXPECT_EQ(name_refusal("v5p-8", 0), "compile_topology: 0 slices of v5p-8, 1 to 65536 were expected");
  EXPECT_EQ(name_refusal("v5p-8", -1), "compile_topology: -1 slices of v5p-8, 1 to 65536 were expected");
  EXPECT_EQ(name_refusal("v5p-8", 65537), "compile_topology: 65537 slices of v5p-8, 1 to 65536 were expected");
  EXPECT_EQ(find_topology("v5p-8", 65536).devices(), 4 * 65536);
}

TEST(FindTopology, CountsTheLargestMachineThatAFileCanDescribe) {
  const TemporaryFile file(with_line("sizes", "devices_per_chip: 1024\nsizes: {grids: [65536x65536]}"));
  EXPECT_EQ(find_topology(file.path(), 65536).devices(), std::int64_t{1} << 58);
}

TEST(FindTopology, NamesThePlaceThatAskedForIt) {
  EXPECT_EQ(message_of([] { find_topology("cpu-0", 1, "the mesh"); }),
            "the mesh: hardware 'cpu' has no size '0': 1 to 65536 was expected\n  fix: for example cpu-1 or cpu-65536");
}

}  // namespace
}  // namespace moesh::mesh
