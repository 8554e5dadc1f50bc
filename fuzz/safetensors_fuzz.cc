// Fuzzes safetensors files: any bytes give tensors that lie within the file, or an error.
#include <algorithm>
#include <array>
#include <cstring>

#include "fuzz/mutate.h"
#include "fuzz/targets.h"

namespace moesh::fuzz {
namespace {

std::string some_list(Random& random) {
  constexpr std::array kNumbers = {
      "0", "1", "2", "4", "8", "64", "-1", "1.5", "1e3", "65536", "281474976710656", "18446744073709551615"};
  std::vector<std::string> numbers;
  for (std::size_t count = below(random, 4); count > 0; --count) numbers.emplace_back(one_of(random, kNumbers));
  return "[" + join(numbers, ",") + "]";
}

std::string some_member(Random& random) {
  constexpr std::array kTypes = {"\"F32\"", "\"BF16\"", "\"F64\"", "\"I32\"", "\"BOOL\"", "\"F16\"", "0", "null"};
  switch (below(random, 4)) {
    case 0: return std::string("\"dtype\":") + one_of(random, kTypes);
    case 1: return "\"shape\":" + some_list(random);
    case 2: return "\"data_offsets\":" + some_list(random);
    default: return "\"more\":" + some_list(random);
  }
}

std::string some_entry(Random& random) {
  constexpr std::array kNames = {"a", "b", "__metadata__", "decoder.layers.mlp.wi_0.kernel", ""};
  std::vector<std::string> members;
  for (std::size_t count = below(random, 5); count > 0; --count) members.push_back(some_member(random));
  return std::string("\"") + one_of(random, kNames) + "\":{" + join(members, ",") + "}";
}

// The header and the data of a file; either may be missing or cut short.
struct Parts {
  std::string header, data;
};

Parts parts_of(std::string_view file) {
  std::uint64_t length = 0;
  if (file.size() < sizeof(length)) return {std::string(file), ""};
  std::memcpy(&length, file.data(), sizeof(length));
  const std::string_view rest = file.substr(sizeof(length));
  const std::size_t end = std::min<std::uint64_t>(length, rest.size());
  return {std::string(rest.substr(0, end)), std::string(rest.substr(end))};
}

// A changed header: mostly by whole members and entries, sometimes by any bytes.
std::string mutated_header(Random& random, std::string header, std::size_t most) {
  switch (below(random, 4)) {
    case 0: return "{" + some_entry(random) + "," + some_entry(random) + "}";
    case 1: {
      const std::size_t at = header.rfind('}');
      const bool first = at == 0 || at == std::string::npos || header[at - 1] == '{';
      return header.substr(0, at) + (first ? "" : ",") + some_entry(random) + "}";
    }
    case 2: {
      const std::size_t at = header.find(one_of(random, std::array{"\"dtype\"", "\"shape\"", "\"data_offsets\""}));
      const std::size_t end = std::min(header.find_first_of(at == std::string::npos ? "" : "]}", at), header.size());
      return at == std::string::npos ? header : header.substr(0, at) + some_member(random) + header.substr(end);
    }
    default: {
      const std::size_t size = header.size();
      header.resize(std::max(size, most));
      header.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(header.data()), size, header.size()));
      return header;
    }
  }
}

// A file with a changed header. The length of the header is right most of the time, so that the fuzzer gets past it.
std::string mutated(Random& random, std::string_view file, std::size_t most) {
  Parts parts = parts_of(file);
  parts.header = mutated_header(random, std::move(parts.header), most);
  if (below(random, 4) == 0) parts.data.resize(below(random, 128));
  std::uint64_t length = parts.header.size();
  if (below(random, 16) == 0) length += below(random, 64) - std::uint64_t{32};
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + parts.header + parts.data;
}

}  // namespace
}  // namespace moesh::fuzz

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  moesh::fuzz::Random random(seed);
  if (moesh::fuzz::below(random, 4) == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string made = moesh::fuzz::mutated(random, moesh::fuzz::as_text(data, size), max_size).substr(0, max_size);
  std::memcpy(data, made.data(), made.size());
  return made.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  moesh::fuzz::fuzz_safetensors(moesh::fuzz::as_text(data, size));
  return 0;
}
