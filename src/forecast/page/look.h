// The style of the page of planned steps, and the little script that it does without where there is none.
#pragma once

#include <string>

namespace moesh::forecast {

std::string page_style();
std::string page_script();

}  // namespace moesh::forecast
