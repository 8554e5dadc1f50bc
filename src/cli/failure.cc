#include "cli/failure.h"

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <new>
#include <system_error>

#include <fmt/core.h>

#include "base/error.h"

namespace moesh::cli {
namespace {

// A reader that closed the pipe, as `head` does, is not an error; the exit code is then the shell's for SIGPIPE.
Failure of_output(const std::system_error& error) {
  if (error.code() == std::errc::broken_pipe) return {128 + SIGPIPE, ""};
  return {1,
          "standard output: the output could not be written: " + error.code().message() + "\n  fix: is the disk full?"};
}

}  // namespace

Failure failure_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return {error.exit_code(), error.what()};
  } catch (const std::bad_alloc&) {
    return {1, "out of memory\n  fix: a smaller model, batch or length"};
  } catch (const std::filesystem::filesystem_error& error) {
    return {1, fmt::format("{}: the system says: {}", error.path1().string(), error.code().message())};
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) return of_output(error);
    if (error.code() == std::errc::resource_unavailable_try_again) {
      return {1, "out of memory, or of threads: none can be started\n  fix: a smaller model, batch or length, or fewer --threads"};
    }
    return {1, "the system says: " + error.code().message()};
  } catch (const std::exception& error) {
    return {1, fmt::format("{} (a fault of moesh itself)", error.what())};
  }
}

}  // namespace moesh::cli
