// Errors that are reported to a client, in the format of OpenAI's interface.
#pragma once

#include <stdexcept>
#include <string>

namespace moesh::serve {

struct ApiError : std::runtime_error {
  ApiError(int status_, const std::string& message, std::string param_ = {}, std::string code_ = {})
      : std::runtime_error(message), status(status_), param(std::move(param_)), code(std::move(code_)) {}

  int status;         // HTTP status
  std::string param;  // the parameter of the request that is at fault; may be empty
  std::string code;   // machine-readable code; may be empty
};

// Throws the error for a request that was wrong.
[[noreturn]] inline void reject(const std::string& message, std::string param = {}, int status = 400, std::string code = {}) {
  throw ApiError(status, message, std::move(param), std::move(code));
}

// As JSON: {"error": {"message", "type", "param", "code"}}.
std::string to_json(const ApiError& error);

}  // namespace moesh::serve
