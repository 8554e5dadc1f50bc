#include "measure/library.h"

#include <cstdlib>
#include <optional>

#include <fmt/core.h>

#include "base/module.h"
#include "base/text.h"

namespace moesh::measure {
namespace {

// A function of a library, or null if the library or the function is missing.
template <typename Function>
Function* function_of(const char* library, const char* name) {
  return reinterpret_cast<Function*>(open_module(library, name, false).address);
}

std::int64_t row_of_a(const Product& of) { return of.a_transposed ? of.rows : of.depth; }
std::int64_t row_of_b(const Product& of) { return of.b_transposed ? of.depth : of.columns; }

std::optional<Library> openblas(int threads) {
  constexpr const char* kFile = "libopenblas.so.0";
  constexpr int kRowMajor = 101, kAsIs = 111, kTransposed = 112;
  auto* const multiply = function_of<void(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int)>(
      kFile, "cblas_sgemm");
  auto* const set_threads = function_of<void(int)>(kFile, "openblas_set_num_threads");
  auto* const describe = function_of<const char*()>(kFile, "openblas_get_config");
  if (multiply == nullptr || set_threads == nullptr || describe == nullptr) return std::nullopt;
  set_threads(threads);
  const std::vector<std::string> words = split(describe(), ' ');  // "OpenBLAS 0.3.21 DYNAMIC_ARCH ..."
  return Library{words.size() < 2 ? "OpenBLAS" : "OpenBLAS " + words[1], [=](const Product& of) {
                   const auto narrow = [](std::int64_t size) { return static_cast<int>(size); };
                   multiply(kRowMajor, of.a_transposed ? kTransposed : kAsIs, of.b_transposed ? kTransposed : kAsIs, narrow(of.rows),
                            narrow(of.columns), narrow(of.depth), 1, of.a, narrow(row_of_a(of)), of.b, narrow(row_of_b(of)), 0, of.c,
                            narrow(of.columns));
                 }};
}

std::optional<Library> onednn(int threads, const char* file) {
  struct Version {
    int major, minor, patch;
  };
  auto* const multiply = function_of<int(char, char, std::int64_t, std::int64_t, std::int64_t, float, const float*, std::int64_t,
                                         const float*, std::int64_t, float, float*, std::int64_t)>(file, "dnnl_sgemm");
  auto* const version = function_of<const Version*()>(file, "dnnl_version");
  auto* const set_threads = function_of<void(int)>("libgomp.so.1", "omp_set_num_threads");
  if (multiply == nullptr || version == nullptr || set_threads == nullptr) return std::nullopt;
  set_threads(threads);
  const Version& its = *version();
  return Library{fmt::format("oneDNN {}.{}.{}", its.major, its.minor, its.patch), [=](const Product& of) {
                   multiply(of.a_transposed ? 'T' : 'N', of.b_transposed ? 'T' : 'N', of.rows, of.columns, of.depth, 1, of.a, row_of_a(of),
                            of.b, row_of_b(of), 0, of.c, of.columns);
                 }};
}

}  // namespace

std::vector<Library> installed_libraries(int threads) {
  // By themselves, their threads would go on waiting for more work while others are timed. The libraries read this when they are opened.
  ::setenv("OPENBLAS_THREAD_TIMEOUT", "21", 0);
  ::setenv("GOMP_SPINCOUNT", "100000", 0);
  std::vector<Library> libraries;
  for (const std::optional<Library>& library : {openblas(threads), onednn(threads, "libdnnl.so.3"), onednn(threads, "libdnnl.so.2")}) {
    if (library) libraries.push_back(*library);
  }
  return libraries;
}

}  // namespace moesh::measure
