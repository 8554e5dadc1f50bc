// What hardware files may say, and what is said about wrong ones.
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "config/yaml.h"
#include "mesh/hardware.h"
#include "tests/mesh/hardware_file.h"
#include "tests/support.h"

namespace moesh::mesh {
namespace {

using test::message_of;

Chip load(const std::string& text) { return load_chip(config::parse_yaml(text, "mine.yml"), "mine"); }

std::string refusal(const std::string& text) {
  return message_of([&] { load(text); });
}

std::string refusal(const std::string& start, const std::string& line) { return refusal(with_line(start, line)); }

TEST(LoadChip, TakesAListOfSourcesAndLeavesOutWhatIsNull) {
  const Chip chip = load(with_line("source", "source: [one, two]\nfp8_flops_per_second: null"));
  EXPECT_EQ(chip.source, (std::vector<std::string>{"one", "two"}));
  EXPECT_FALSE(chip.fp8_flops_per_second.has_value());
  EXPECT_FALSE(chip.f32_flops_per_second.has_value());
  EXPECT_DOUBLE_EQ(*chip.bf16_flops_per_second, 1e14);
}

TEST(LoadChip, TakesOneRateOfFloat32OrOneForEachPrecision) {
  const auto with = [](const std::string& rates) { return with_line("source", "source: a\nf32_flops_per_second: " + rates); };
  const auto rates = [&](const std::string& text) { return load(with(text)).f32_flops_per_second.value(); };
  EXPECT_EQ(rates("5e12"), (std::array<double, 3>{5e12, 5e12, 5e12}));
  EXPECT_EQ(rates("{highest: 1e12, default: 6e12, high: 2e12}"), (std::array<double, 3>{6e12, 2e12, 1e12}));
  EXPECT_FALSE(load(with("5e12")).has_rate_by_precision());
  EXPECT_TRUE(load(with("{default: 6e12, high: 2e12, highest: 1e12}")).has_rate_by_precision());
  const auto told = [&](const std::string& text) { return message_of([&] { load(with(text)); }); };
  EXPECT_EQ(told("{default: 6e12, high: 2e12}"), "mine.yml:3: f32_flops_per_second lacks highest\n  fix: add highest: ...");
  EXPECT_EQ(told("{default: 6e12, high: 2e12, lowest: 1}"),
            "mine.yml:3: field 'lowest' of f32_flops_per_second is unknown\n  fix: the fields are default, high, highest");
  EXPECT_NE(told("[1, 2, 3]").find("mine.yml:3: f32_flops_per_second is a list, a number from"), std::string::npos);
}

// As other figures are written.
TEST(LoadChip, TakesBytesInPowersOfTen) {
  EXPECT_EQ(load(with_line("memory_bytes:", "memory_bytes: 141e9")).memory_bytes, 141'000'000'000);
  EXPECT_EQ(load(with_line("memory_bytes:", "memory_bytes: 1.5e3")).memory_bytes, 1500);
  for (const char* odd : {"1.5", "1e-3", "1e300", "nan", "-1e9"})
    EXPECT_NE(refusal("memory_bytes:", std::string("memory_bytes: ") + odd).find("an integer from 1 to "), std::string::npos) << odd;
}

TEST(LoadChip, NamesTheFieldThatIsMissing) {
  EXPECT_EQ(refusal("title", ""), "mine.yml:1: a hardware file lacks title\n  fix: add title: ...");
  EXPECT_EQ(refusal("source", "source: null"), "mine.yml:1: a hardware file lacks source\n  fix: add source: ...");
  EXPECT_EQ(refusal("memory_bytes:", ""),
            "mine.yml:1: a hardware file lacks memory_bytes\n  fix: add memory_bytes: ...");
  EXPECT_EQ(refusal("memory_bytes_per", ""),
            "mine.yml:1: a hardware file lacks memory_bytes_per_second\n  fix: add memory_bytes_per_second: ...");
  EXPECT_EQ(refusal("sizes", ""), "mine.yml:1: a hardware file lacks sizes\n  fix: add sizes: ...");
  EXPECT_EQ(refusal("sizes", "sizes: {}"), "mine.yml:9: sizes without grids lacks most\n  fix: add most: ...");
  EXPECT_EQ(refusal("  - {kind: dcn", "  - {kind: dcn, domain: all, latency_seconds: 1}"),
            "mine.yml:8: a link lacks bytes_per_second\n  fix: add bytes_per_second: ...");
}

TEST(LoadChip, NamesTheNearestFieldForAnUnknownOne) {
  EXPECT_EQ(refusal("memory_bytes:", "memroy_bytes: 5"),
            "mine.yml:4: field 'memroy_bytes' of a hardware file is unknown\n  fix: did you mean memory_bytes?");
  EXPECT_EQ(refusal("  - {kind: dcn", "  - {kind: dcn, colour: red}"),
            "mine.yml:8: field 'colour' of a link is unknown\n"
            "  fix: the fields are kind, domain, bytes_per_second, latency_seconds, ports, reached");
  EXPECT_EQ(refusal("sizes", "sizes: {grids: [2x2], most: 4}"),
            "mine.yml:9: field 'most' of sizes with grids is unknown\n"
            "  fix: the fields are grids, number_per_chip, wrap");
  EXPECT_EQ(refusal("sizes", "sizes: {most: 4, wrap: {at_least: 4}}"),
            "mine.yml:9: field 'wrap' of sizes without grids is unknown\n  fix: the fields are node, most");
}

TEST(LoadChip, RefusesRatesThatAreNotPositiveFiniteNumbers) {
  for (const std::string value : {"-1", "0", "nan", ".nan", "inf", "-.inf", "1e25", "1e999", "fast", "1e14 FLOP/s"}) {
    EXPECT_EQ(refusal("bf16", "bf16_flops_per_second: " + value),
              "mine.yml:3: bf16_flops_per_second is '" + value + "', a number from 1 to 1e+24 was expected");
  }
  EXPECT_EQ(refusal("bf16", "bf16_flops_per_second: [1]"),
            "mine.yml:3: bf16_flops_per_second is a list, a number from 1 to 1e+24 was expected");
  EXPECT_EQ(refusal("memory_bytes_per", "memory_bytes_per_second: {a: 1}"),
            "mine.yml:5: memory_bytes_per_second is a mapping, a number from 1 to 1e+24 was expected");
  EXPECT_EQ(refusal("  - {kind: dcn", "  - {kind: dcn, domain: all, bytes_per_second: 1e9, latency_seconds: 0}"),
            "mine.yml:8: latency_seconds is '0', a number from 1e-12 to 1000 was expected");
  EXPECT_EQ(refusal("  - {kind: dcn", "  - {kind: dcn, domain: all, bytes_per_second: 1e9, latency_seconds: 1e-6, reached: 1.1}"),
            "mine.yml:8: reached is '1.1', a number from 0.001 to 1 was expected");
}

TEST(LoadChip, TakesWhatWasMeasured) {
  const auto measured = [](const std::string& text) { return "sizes: {most: 8}\nmeasured: " + text; };
  const MeasuredTimes times = load(with_line("sizes", measured("\n  einsum float32: [[1e3, 1e-5], [1e6, 2e-4]]\n  copy float32: [[0, 1e-6]]"))).measured;
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times.at("einsum float32")[1].seconds, 2e-4);
  const auto told = [&](const std::string& text) { return refusal("sizes", measured(text)); };
  EXPECT_EQ(told("[1]"), "mine.yml:10: measured is a list, a mapping of kernels to points was expected");
  EXPECT_EQ(told("{a: 1}"), "mine.yml:10: a is '1', a list of 1 to 256 was expected");
  EXPECT_EQ(told("{a: []}"), "mine.yml:10: a has 0 entries, a list of 1 to 256 was expected");
  EXPECT_EQ(told("{a: [[1]]}"), "mine.yml:10: a point is a list, [WORK, SECONDS] was expected");
  EXPECT_EQ(told("{a: [[1, 0]]}"), "mine.yml:10: seconds is '0', a number from 1e-12 to 1000 was expected");
  EXPECT_EQ(told("{a: [[-1, 1]]}"), "mine.yml:10: work is '-1', a number from 0 to 1e+24 was expected");
  EXPECT_EQ(told("{a: [[2, 1], [2, 2]]}"), "mine.yml:10: the points of a are not from the least work to the most");
}

TEST(LoadChip, TakesTheTilesOfItsMemory) {
  const auto of = [](const std::string& words) { return "memory_bytes: 1000\nmemory_tile: " + words; };
  EXPECT_FALSE(load(kValid).memory_tile);
  const MemoryTile tile = load(with_line("memory_bytes:", of("[8, 128]"))).memory_tile.value();
  EXPECT_EQ(tile.rows, 8);
  EXPECT_EQ(tile.columns, 128);
  EXPECT_EQ(refusal("memory_bytes:", of("8")), "mine.yml:5: memory_tile is '8', a list of 1 to 2 was expected");
  EXPECT_EQ(refusal("memory_bytes:", of("[8]")), "mine.yml:5: memory_tile is a list, [rows, columns] was expected");
  EXPECT_EQ(refusal("memory_bytes:", of("[0, 128]")), "mine.yml:5: rows of memory_tile is '0', an integer from 1 to 4096 was expected");
}

TEST(LoadChip, RefusesCountsOutOfRange) {
  for (const std::string value : {"-1", "0", "1.5", "80 GiB", "1152921504606846977", "9223372036854775808"}) {
    EXPECT_EQ(refusal("memory_bytes:", "memory_bytes: " + value),
              "mine.yml:4: memory_bytes is '" + value + "', an integer from 1 to 1152921504606846976 was expected");
  }
  EXPECT_EQ(refusal("memory_bytes:", "memory_bytes: 10\nusable_memory_bytes: 11"),
            "mine.yml:5: usable_memory_bytes is '11', an integer from 1 to 10 was expected");
  EXPECT_EQ(refusal("title", "title: A chip\ndevices_per_chip: 1025"),
            "mine.yml:2: devices_per_chip is '1025', an integer from 1 to 1024 was expected");
  EXPECT_EQ(refusal("sizes", "sizes: {node: 8, most: 4}"),
            "mine.yml:9: node is '8', an integer from 1 to 4 was expected");
}

TEST(LoadChip, RefusesWrongTypes) {
  EXPECT_EQ(refusal("- 1\n"),
            "mine.yml:1: a hardware file is a list, a mapping with the fields title, source, devices_per_chip, "
            "bf16_flops_per_second, fp8_flops_per_second, f32_flops_per_second, int8_flops_per_second, bf16_reached, fp8_reached, "
            "matrix_tile, memory_bytes, "
            "usable_memory_bytes, memory_tile, memory_bytes_per_second, host_bytes_per_second, links, sizes, measured was expected");
  EXPECT_TRUE(refusal("").find("a hardware file is empty, a mapping") != std::string::npos);
  EXPECT_EQ(refusal("title", "title: [a]"), "mine.yml:1: title is a list, text was expected");
  EXPECT_EQ(refusal("title", "title: ''"), "mine.yml:1: title is '', text was expected");
  EXPECT_EQ(refusal("source", "source: []"), "mine.yml:2: source has 0 entries, a list of 1 to 64 was expected");
  EXPECT_EQ(refusal("source", "source: {a: b}"), "mine.yml:2: source is a mapping, a list of 1 to 64 was expected");
  EXPECT_EQ(refusal("sizes", "sizes: 8"),
            "mine.yml:9: sizes is '8', a mapping with the fields grids, number_per_chip, wrap, node, most was "
            "expected");
}

TEST(LoadChip, RefusesGridsThatAreNone) {
  for (const std::string grid :
       {"0x4", "4x", "x", "-2x2", "4x4.5", "65536x65537", "4294967296x4294967296", "1x1x1x1x1x1x1x1x1", "big"}) {
    EXPECT_EQ(
        refusal("sizes", "sizes: {grids: [2x2, " + grid + "]}"),
        "mine.yml:9: a grid is '" + grid + "', 1 to 8 sizes such as 4x4x8 with at most 4294967296 chips was expected");
  }
  EXPECT_EQ(refusal("sizes", "sizes: {grids: [4x4, 2x8]}"),
            "mine.yml:9: grids 2x8 and 4x4 both have 16 chips, so one name would mean both\n  fix: keep one of them");
  EXPECT_EQ(refusal("sizes", "sizes: {grids: [4x4], wrap: {}}"),
            "mine.yml:9: wrap has neither of all_multiples_of and at_least, one was expected");
  EXPECT_EQ(refusal("sizes", "sizes: {grids: [4x4], wrap: {at_least: 4, all_multiples_of: 4}}"),
            "mine.yml:9: wrap has both of all_multiples_of and at_least, one was expected");
}

TEST(LoadChip, RefusesLinksOutOfOrderOrWithoutAWayOut) {
  const std::string near = "  - {kind: near, domain: slice, bytes_per_second: 1, latency_seconds: 1}";
  EXPECT_EQ(refusal("  - {kind: dcn", near),
            "mine.yml:8: link near (slice) stands after ici (slice), the nearest domain was expected first\n"
            "  fix: order the links chip, node, slice, all");
  EXPECT_EQ(refusal("  - {kind: dcn", ""),
            "mine.yml:7: the last link, ici, reaches only a slice\n"
            "  fix: add the link between slices, with domain: all");
  EXPECT_EQ(refusal("  - {kind: ici", "  - {kind: ici, domain: rack}"),
            "mine.yml:7: domain is 'rack', chip, node, slice or all was expected");
  EXPECT_EQ(refusal("  - {kind: ici", "  - {kind: nv, domain: node, bytes_per_second: 1, latency_seconds: 1}"),
            "mine.yml:7: link nv connects a node, but sizes has no node\n"
            "  fix: give sizes a node: DEVICES, or the link another domain");
}

TEST(LoadChip, ShortensWhatIsTooLongToQuote) {
  const std::string message = refusal("title", std::string(5000, 'x') + ": 1");
  EXPECT_LT(message.size(), 400u);
}

}  // namespace
}  // namespace moesh::mesh
