// The index of a checkpoint, index.json, which is written last: a folder without it is no checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "store/layers.h"
#include "store/parts.h"
#include "store/stored_type.h"

namespace moesh::store {

// Advice in messages about damaged checkpoints.
inline constexpr const char* kTakeAnother = "take another checkpoint of the run";

// A block of a tensor in a file.
struct Piece {
  std::size_t file = 0;      // index into Index::files
  std::int64_t offset = 0;   // of its first byte in the file
  Block block;
  std::vector<std::uint64_t> hashes;  // one per chunk, see Chunks
};

struct Tensor {
  DType dtype = DType::float32;
  Shape shape;
  int layers_dim = -1;  // dim in which the layers of a stack stand; -1 for a single layer
  std::string spec;     // its layout when it was saved, as text
  std::vector<Piece> pieces;
  // The types that its numbers had in their source, by the number of the layer or one for all layers; empty if the type has not changed.
  std::vector<StoredType> from = {};

  StoredType type_of(const Layer& layer) const;  // the type that its numbers need, as far as known
};

// A safetensors file: a header, then pieces one after the other.
struct File {
  std::string name;
  std::int64_t bytes = 0;
  std::int64_t header_bytes = 0;
  std::uint64_t header_hash = 0;
};

using Settings = std::vector<std::pair<std::string, std::string>>;  // keys that were given, with their values as text

// What a run has to know to resume, and what users want to know about it.
struct About {
  std::string moesh;       // the version that wrote it
  std::string date;
  std::int64_t step = 0;   // last step that was done
  std::int64_t rows = 0;   // rows of data that were used until then
  std::string optimizer;   // opt_type
  std::int64_t parameters = 0;
  std::vector<std::pair<std::string, std::int64_t>> mesh;
  Settings settings;
  std::string place = {};  // where the next row is in the data, if its number does not tell
  std::map<std::string, std::vector<double>> numbers = {};  // of the run, besides its tensors
};
void write(JsonWriter& json, const About& about);  // writes its members into an object that is already open

// A key whose values in two runs differ; "-" stands for a key that was not given.
struct ChangedSetting {
  std::string key, before, after;
};
std::vector<ChangedSetting> changed_settings(const Settings& before, const Settings& after);

struct Index {
  About about;
  std::vector<File> files;
  std::map<std::string, Tensor> tensors;

  std::int64_t bytes() const;  // size of all files
};

std::string to_json(const Index& index);
// Appends a hash to the text of an index, by which changes to the text are noticed.
std::string sealed(std::string_view body);
// Refuses an index that is damaged, contradicts itself or has another format version. `where`: the file, for messages. If several
// processes write a checkpoint, each of them first writes the index of its own part.
enum class Extent { whole, part };
Index parse_index(std::string_view text, const std::string& where, Extent extent = Extent::whole);

}  // namespace moesh::store
