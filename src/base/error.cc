#include "base/error.h"

#include <utility>

namespace moesh {
namespace {

std::string compose(const ErrorParts& parts) {
  std::string text;
  if (!parts.where.empty()) text = parts.where + ": ";
  text += parts.what;
  if (!parts.fix.empty()) text += "\n  fix: " + parts.fix;
  return text;
}

}  // namespace

Error::Error(ErrorParts parts) : std::runtime_error(compose(parts)), parts_(std::move(parts)) {}

void refuse(std::string what, std::string where, std::string fix) {
  throw Error({Fault::bad_request, std::move(what), std::move(where), std::move(fix)});
}

void fail(std::string what, std::string where, std::string fix) {
  throw Error({Fault::failed, std::move(what), std::move(where), std::move(fix)});
}

}  // namespace moesh
