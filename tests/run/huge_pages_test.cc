#include "run/huge_pages.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace moesh::run {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

// Whether huge pages have been asked for where an address lies.
bool has_huge_pages(const std::byte* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  bool is_here = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream words(line);
    if (words >> std::hex >> begin >> dash >> end && dash == '-') is_here = begin <= at && at < end;
    if (is_here && line.starts_with("VmFlags:")) return line.find(" hg") != std::string::npos;
  }
  return false;
}

// A buffer of so many MiB on a mesh of so many devices. If it is `counted`, the number of its rows depends on a router.
struct Case {
  std::int64_t devices;
  std::int64_t mib;
  bool counted;
  plan::Lasts lasts;
  bool has_them;
};

TEST(HugePages, AreForBuffersThatAreFilledAndForLargeOnesThatMayBe) {
  using enum plan::Lasts;
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage")) GTEST_SKIP() << "a kernel without huge pages";
  for (const Case& of : {Case{1, 4, false, within, true}, Case{8, 4, false, within, true}, Case{1, 4, true, within, false},
                         Case{1, 64, true, within, true}, Case{8, 64, true, within, false}, Case{8, 512, true, within, true},
                         Case{1, 64, false, from_run_to_run, false}, Case{1, 64, true, from_run_to_run, false}}) {
    plan::Plan plan;
    plan.mesh = mesh::Mesh({{"expert", of.devices, 1}});
    plan::Buffer& buffer = plan.buffers.emplace_back();
    buffer.lasts = of.lasts;
    buffer.bytes = of.mib * kMiB;
    plan::View& view = plan.views.emplace_back();
    view.buffer = 0;
    view.rows = of.counted ? 0 : -1;
    const plan::Arena arena{{0}, of.mib * kMiB};
    const Memory memory(arena.bytes);
    give_huge_pages(plan, arena, [](const plan::Buffer& one) { return one.bytes; }, memory);
    EXPECT_EQ(has_huge_pages(memory.at(arena.bytes / 2)), of.has_them)
        << of.mib << " MiB on " << of.devices << (of.counted ? ", counted" : "");
  }
}

}  // namespace
}  // namespace moesh::run
