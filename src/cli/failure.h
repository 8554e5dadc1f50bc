// What is said of an exception that ended a command, and the exit code that it ends with.
#pragma once

#include <exception>
#include <string>

namespace moesh::cli {

struct Failure {
  int code = 1;
  std::string message;  // empty: nothing is to be said
};

Failure failure_of(const std::exception_ptr& error);

}  // namespace moesh::cli
