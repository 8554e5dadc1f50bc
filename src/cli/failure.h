// The message and the exit code for an exception that ended a command.
#pragma once

#include <exception>
#include <string>

namespace moesh::cli {

struct Failure {
  int code = 1;
  std::string message;  // empty if nothing is to be printed
};

Failure failure_of(const std::exception_ptr& error);

}  // namespace moesh::cli
