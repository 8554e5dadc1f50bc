// What a build needs: the package lists are right, and building what runs needs no library of the tests.
#include <cstdlib>
#include <map>
#include <regex>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/paths.h"
#include "tests/support.h"

namespace moesh {
namespace {

std::set<std::string> packages_in(const std::string& name) {
  std::set<std::string> lines;
  for (const std::string& line : split(test::read_text(test::source_folder() / name), '\n')) {
    if (!line.empty()) lines.insert(line);
  }
  return lines;
}

// The Debian packages of the libraries that CMakeLists.txt requires, and the tools that build moesh.
std::set<std::string> packages_asked_for() {
  const std::map<std::string, std::string> package_of{
      {"fmt", "libfmt-dev"},
      {"YAML_LIBRARY", "libyaml-dev"},
      {"XXHASH_INCLUDE", "libxxhash-dev"},
      {"nlohmann_json", "nlohmann-json3-dev"},
      {"PCRE2_LIBRARY", "libpcre2-dev"},
      {"TOMLPLUSPLUS_INCLUDE", "libtomlplusplus-dev"},
      {"UTF8PROC_LIBRARY", "libutf8proc-dev"},
      {"SENTENCEPIECE_LIBRARY", "libsentencepiece-dev"},
      {"HTTPLIB_LIBRARY", "libcpp-httplib-dev"},
      {"JEMALLOC_LIBRARY", "libjemalloc-dev"},
      {"ZLIB", "zlib1g-dev"}};
  std::set<std::string> packages{"cmake", "g++", "ninja-build"};
  const std::string text = test::read_text(test::source_folder() / "CMakeLists.txt");
  const std::regex required("find_(?:package|library|path)\\((\\S+)[^)]* REQUIRED\\)");
  for (std::sregex_iterator found(text.begin(), text.end(), required), end; found != end; ++found) packages.insert(package_of.at((*found)[1]));
  return packages;
}

int status_of(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()); }

TEST(Build, ListsThePackagesThatRunningNeedsAndNoOther) { EXPECT_EQ(packages_in("packages.txt"), packages_asked_for()); }

TEST(Build, ListsThePackagesOfTheTestsApart) {
  EXPECT_EQ(packages_in("packages-test.txt"), (std::set<std::string>{"clang", "libgmock-dev", "libgtest-dev", "libopenmpi-dev", "openmpi-bin"}));
}

TEST(BuildSlow, NeedsNoLibraryOfTheTestsToRun) {
  const test::TemporaryFolder folder;
  const std::string configure = "cmake -S '" + test::source_folder().string() + "' -B '" + folder.path() + "' -G Ninja ";
  ASSERT_EQ(status_of(configure + "-DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON"), 0);
  EXPECT_EQ(status_of("ninja -C '" + folder.path() + "' -t query moesh"), 0);
  EXPECT_NE(status_of("ninja -C '" + folder.path() + "' -t query moesh_tests"), 0);
}

TEST(Build, TellsHowTestsAreRun) {
  EXPECT_EQ(status_of("'" + (test::source_folder() / "moesh").string() + "' test -h"), 0);
}

// The fuzzers are built by clang, which rejects some code that GCC accepts. What is not a kernel is compiled as one unit, so names that
// clash are found at once, and not when a new file moves two others into one unit.
TEST(BuildSlow, ClangTakesEverySource) {
  const test::TemporaryFolder folder;
  const std::string build = "cmake -S '" + test::source_folder().string() + "' -B '" + folder.path() +
                            "' -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 "
                            "-DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON -DMOESH_TOGETHER=10000 && "
                            "ninja -C '" + folder.path() + "' -j 2 moesh_core";
  const std::string log = folder.path() + "/build.log";
  EXPECT_EQ(std::system(("(" + build + ") >'" + log + "' 2>&1").c_str()), 0) << test::read_text(log);
}

}  // namespace
}  // namespace moesh
