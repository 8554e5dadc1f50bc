// What a checkpoint says of itself: index.json, which is written last. A folder without it is no checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "store/parts.h"
#include "store/stored_type.h"

namespace moesh::store {

// What to do about a checkpoint that is damaged.
inline constexpr const char* kTakeAnother = "take another checkpoint of the run";

// A block of a tensor in a file.
struct Piece {
  std::size_t file = 0;      // of Index::files
  std::int64_t offset = 0;   // of its first byte there
  Block block;
  std::vector<std::uint64_t> hashes;  // of each of its Chunks
};

struct Tensor {
  DType dtype = DType::float32;
  Shape shape;
  int layers_dim = -1;  // where the layers of a stack stand; none where it is of one layer
  std::string spec;     // how it lay when it was saved, in words
  std::vector<Piece> pieces;
  // That its numbers were written in where they were brought from, one for each layer or for all; none where they are as they were.
  std::vector<StoredType> from = {};

  StoredType type_of(std::int64_t layer) const;  // that its numbers need, as far as that is known
};

// A safetensors file: a header, then pieces one after the other.
struct File {
  std::string name;
  std::int64_t bytes = 0;
  std::int64_t header_bytes = 0;
  std::uint64_t header_hash = 0;
};

using Settings = std::vector<std::pair<std::string, std::string>>;  // keys that were given, with their values as text

// What a run has to know to go on, and what a person asks.
struct About {
  std::string moesh;       // the version that wrote it
  std::string date;
  std::int64_t step = 0;   // the last that was done
  std::int64_t rows = 0;   // of the data that were used until then
  std::string optimizer;   // opt_type
  std::int64_t parameters = 0;
  std::vector<std::pair<std::string, std::int64_t>> mesh;
  Settings settings;
  std::string place = {};  // of the next row in the data, where its number does not tell
};
void write(JsonWriter& json, const About& about);  // its members, into an object that is begun

// A key that two runs were given otherwise; "-" where it was not given.
struct ChangedSetting {
  std::string key, before, after;
};
std::vector<ChangedSetting> changed_settings(const Settings& before, const Settings& after);

struct Index {
  About about;
  std::vector<File> files;
  std::map<std::string, Tensor> tensors;

  std::int64_t bytes() const;  // of all files
};

std::string to_json(const Index& index);
// Text of an index with the hash by which it is known to be as it was written.
std::string sealed(std::string_view body);
// Refuses what is damaged, contradicts itself or was written by a later version. `where`: the file, for messages. Where several processes
// write, each says what is its part first.
enum class Extent { whole, part };
Index parse_index(std::string_view text, const std::string& where, Extent extent = Extent::whole);

}  // namespace moesh::store
