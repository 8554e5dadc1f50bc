// The style of the page of planned steps, and its small script, without which the page is still usable.
#pragma once

#include <string>

namespace moesh::forecast {

std::string page_style();
std::string page_script();

}  // namespace moesh::forecast
