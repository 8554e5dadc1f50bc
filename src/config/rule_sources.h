// Where the rules of a request come from, in words.
#pragma once

#include <string>

#include "config/settings.h"

namespace moesh::config {

// "default rules", "ep-tp rules", "default rules with changes of the command line" or, if none of the default rules is left, "rules of
// my.yml".
std::string rules_words(const Settings& settings);

// A note on a file whose rules replace the default rules as a whole: which labels have none now. Empty if none of the labels is left out.
std::string note_of_replaced_rules(const Settings& defaults, const Settings& with_file);

}  // namespace moesh::config
