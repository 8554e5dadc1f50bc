// The one error type: what was wrong, where, and what to do about it.
#pragma once

#include <stdexcept>
#include <string>

namespace moesh {

// bad_request: the user's input was wrong (exit 2); failed: the work went wrong (exit 1).
enum class Fault { bad_request, failed };

struct ErrorParts {
  Fault fault = Fault::bad_request;
  std::string what;   // what was wrong, with the value and what was expected
  std::string where;  // file:line, a tensor's path, a key; may be empty
  std::string fix;    // what to do; may be empty
};

class Error : public std::runtime_error {
 public:
  explicit Error(ErrorParts parts);

  const ErrorParts& parts() const { return parts_; }
  int exit_code() const { return parts_.fault == Fault::bad_request ? 2 : 1; }

 private:
  ErrorParts parts_;
};

inline constexpr const char* kCommandLine = "the command line";  // `where` of what stands there

// Shorthands that throw an Error: refuse for a bad request, fail for work that failed.
[[noreturn]] void refuse(std::string what, std::string where = {}, std::string fix = {});
[[noreturn]] void fail(std::string what, std::string where = {}, std::string fix = {});

}  // namespace moesh
