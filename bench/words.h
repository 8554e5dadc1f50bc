// Parses the command line of a benchmark: --name=value, or --name alone.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"

namespace moesh::bench {

// Passes each word to `take(name, value)`, which returns whether the benchmark knows it. --help prints `help` and exits.
template <typename Take>
void for_words(int argc, char** argv, const char* help, Take take) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--help" || word == "-h") {
      fmt::print("{}", help);
      std::exit(0);
    }
    const std::size_t equals = word.find('=');
    const bool has_value = equals != std::string::npos;
    if (!take(word.substr(0, equals), has_value ? word.substr(equals + 1) : "")) {
      refuse(fmt::format("'{}' is none of its words", word), "the command line", "--help");
    }
  }
}

// The value of a word, which must be a number from 1 to `most`.
inline std::int64_t count_in(std::string_view name, const std::string& value, std::int64_t most = 1'000'000) {
  const auto count = parse_integer(value);
  if (!count || *count < 1 || *count > most) {
    refuse(fmt::format("{}={}: not a number from 1 to {}", name, value, most), "the command line", "--help");
  }
  return *count;
}

}  // namespace moesh::bench
