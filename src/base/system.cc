#include "base/system.h"

#include <cerrno>
#include <system_error>

namespace moesh {

std::string system_reason() { return system_reason(errno); }
std::string system_reason(int number) { return std::generic_category().message(number); }

}  // namespace moesh
