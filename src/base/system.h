// The operating system: the text of its errors, its name, its clock, its files and folders.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace moesh {

// "No such file or directory" for ENOENT; the error of the last call if no number is given.
std::string system_reason();
std::string system_reason(int number);

std::string host_name();

// The local time in a format of strftime.
std::string local_time(const char* format);
std::string local_time();  // as in ISO 8601

// What a path leads to, through links. What cannot be looked at is not there.
bool is_there(const std::string& path);
bool is_file(const std::string& path);  // a regular one
bool is_folder(const std::string& path);

// Makes a folder and all folders above it; one that exists is left as it is.
void make_folder(const std::string& path, std::string_view fix);
// Makes the first of the folders name(1), name(2), ... that does not exist yet, and returns its path. Of several processes that ask for
// the same names, each gets another folder.
std::string make_new_folder(const std::function<std::string(int)>& name, std::string_view fix);

}  // namespace moesh
