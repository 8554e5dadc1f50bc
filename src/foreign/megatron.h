// Translates the flags of Megatron-LM's pretraining scripts.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "foreign/flags.h"
#include "foreign/translation.h"
#include "foreign/words.h"

namespace moesh::foreign {

Imported from_megatron(const std::vector<ShellWord>& words, const std::vector<std::string>& own);

// Flags that have no counterpart in moesh: those that need none, and those that make the run differ from the plan.
std::span<const KnownFlags> idle_megatron_flags();
std::span<const DifferingFlag> differing_megatron_flags();

// The flags that from_megatron translates, for tests and for suggesting one for a misspelled flag.
std::span<const std::string_view> translated_megatron_flags();

// Flags of earlier versions by the names that they have today.
std::vector<Flag> spelled_as_now(std::vector<Flag> flags);
std::vector<std::string_view> earlier_megatron_flags();  // those that have another name today

}  // namespace moesh::foreign
