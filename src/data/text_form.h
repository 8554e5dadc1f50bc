// Files that hold text in a form that is not read: compressed, or in another encoding than UTF-8.
#pragma once

#include "data/files.h"

namespace moesh::data {

// Refuses a single file of such a form, by its first bytes. Of several files it names one in a warning, as others may be what was meant.
void check_form(const DataFiles& files);

}  // namespace moesh::data
