// Each kind of exception has its own message, and only unforeseen ones are called a fault of moesh.
#include <filesystem>
#include <new>
#include <stdexcept>
#include <system_error>

#include <gmock/gmock.h>

#include "base/error.h"
#include "cli/failure.h"

namespace moesh::cli {
namespace {

template <typename Thrown>
Failure of(const Thrown& thrown) {
  return failure_of(std::make_exception_ptr(thrown));
}

TEST(Failure, SaysWhatItIsAndWhoseFault) {
  const auto none_there = std::make_error_code(std::errc::no_such_file_or_directory);
  const auto no_threads = std::make_error_code(std::errc::resource_unavailable_try_again);
  const std::pair<Failure, Failure> cases[] = {
      {of(Error({Fault::bad_request, "what", "where", "fix"})), {2, "where: what\n  fix: fix"}},
      {of(Error({Fault::failed, "what", "where", ""})), {1, "where: what"}},
      {of(std::bad_alloc()), {1, "out of memory\n  fix: a smaller model, batch or length"}},
      {of(std::bad_array_new_length()), {1, "out of memory\n  fix: a smaller model, batch or length"}},
      {of(std::filesystem::filesystem_error("inside", "a/b", none_there)),
       {1, "a/b: the system says: No such file or directory"}},
      {of(std::system_error(no_threads)), {1, "out of memory, or of threads: none can be started\n  fix: a smaller model, batch or length, or fewer --threads"}},
      {of(std::ios_base::failure("inside", none_there)), {1, "the system says: No such file or directory"}},
      {of(std::out_of_range("map::at")), {1, "map::at (a fault of moesh itself)"}},
      {of(std::logic_error("broken")), {1, "broken (a fault of moesh itself)"}},
  };
  for (const auto& [made, expected] : cases) {
    EXPECT_EQ(made.message, expected.message);
    EXPECT_EQ(made.code, expected.code) << expected.message;
  }
}

}  // namespace
}  // namespace moesh::cli
