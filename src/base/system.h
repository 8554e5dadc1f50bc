// What the operating system says of a call that did not work.
#pragma once

#include <string>

namespace moesh {

// "No such file or directory" for ENOENT; of the last call where no number is given.
std::string system_reason();
std::string system_reason(int number);

}  // namespace moesh
