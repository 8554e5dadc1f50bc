// The operating system: its words for a call that did not work, its name, its clock, its folders.
#pragma once

#include <string>
#include <string_view>

namespace moesh {

// "No such file or directory" for ENOENT; of the last call where no number is given.
std::string system_reason();
std::string system_reason(int number);

std::string host_name();

// As strftime writes it.
std::string local_time(const char* format);

// With all folders above it; one that is there is left as it is.
void make_folder(const std::string& path, std::string_view fix);

}  // namespace moesh
