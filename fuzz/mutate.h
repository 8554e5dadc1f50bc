// Mutates inputs line by line, so that the fuzzers get past the first unknown word.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "fuzz/harness.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace moesh::fuzz {

using Random = std::minstd_rand;

inline std::size_t below(Random& random, std::size_t count) { return random() % count; }

template <typename List>
const auto& one_of(Random& random, const List& list) {
  return list[below(random, list.size())];
}

// Inserts a line, replaces one, swaps two, or removes one.
inline void mutate_lines(Random& random, std::vector<std::string>& lines, const std::function<std::string()>& make) {
  const std::size_t at = below(random, lines.size());
  switch (below(random, 4)) {
    case 0: lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at), make()); break;
    case 1: lines[at] = make(); break;
    case 2: std::swap(lines[at], lines[below(random, lines.size())]); break;
    default: lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

// The body of a custom mutator: mutates bytes one time in four, else lines.
inline std::size_t mutate_text(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed,
                               const std::function<std::string(Random&)>& make) {
  Random random(seed);
  if (below(random, 4) == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::vector<std::string> lines = split(as_text(data, size), '\n');
  for (std::size_t times = 1 + below(random, 3); times > 0 && !lines.empty(); --times) {
    mutate_lines(random, lines, [&] { return make(random); });
  }
  const std::string text = join(lines, "\n").substr(0, max_size);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

}  // namespace moesh::fuzz
