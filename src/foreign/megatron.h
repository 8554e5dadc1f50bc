// Flags of Megatron-LM's pretraining scripts, translated.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "foreign/translation.h"
#include "foreign/words.h"

namespace moesh::foreign {

Imported from_megatron(const std::vector<ShellWord>& words, const std::vector<std::string>& own);

// Flags that it has and moesh has no word for.
std::span<const KnownFlags> idle_megatron_flags();
std::span<const DifferingFlag> differing_megatron_flags();

// The flags that from_megatron translates, for tests and for what is nearest to a misspelled one.
std::span<const std::string_view> translated_megatron_flags();

}  // namespace moesh::foreign
