#include "store/index.h"

#include <algorithm>
#include <limits>

#include <fmt/core.h>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "store/hash.h"
#include "store/model_tensors.h"

namespace moesh::store {
namespace {

constexpr const char* kFormat = "moesh checkpoint";
constexpr std::int64_t kFormatVersion = 1;
constexpr std::string_view kHashKey = ",\n\"hash\":\"";
constexpr std::string_view kEnd = "\"}\n";
constexpr std::size_t kHashDigits = 16;
constexpr std::int64_t kMostIndexDims = 16;
constexpr std::size_t kMostCompared = 2048;  // at most this many pieces of a tensor are checked pairwise for overlap

void write(JsonWriter& json, const Piece& piece) {
  json.begin_object().key("file").value(static_cast<std::int64_t>(piece.file)).key("offset").value(piece.offset);
  json.key("begin").begin_array();
  for (const sharding::Range& range : piece.block) json.value(range.begin);
  json.end_array().key("shape").values(sharding::shape_of(piece.block));
  std::string hashes;
  for (const std::uint64_t hash : piece.hashes) hashes += hash_text(hash);
  json.key("hashes").value(hashes).end_object();
}

void write_from(JsonWriter& json, const std::vector<StoredType>& from) {
  if (from.empty()) return;
  json.key("from").begin_array();
  for (const StoredType type : from) json.value(name_of(type));
  json.end_array();
}

// Reads an index that moesh wrote, as its hash says. Contents that break a rule are refused all the same: anybody can compute the hash.
class Reader {
 public:
  Reader(const std::string& where, Extent extent) : where_(where), extent_(extent) {}

  Index run(const Json& json) const {
    Index index;
    index.about = about(json);
    for (const Json& entry : list(json, "files")) index.files.push_back(file(entry));
    const Json& tensors = object(json, "tensors");
    for (const auto& [name, entry] : tensors.items()) index.tensors.emplace(name, tensor(entry, name, index.files));
    return index;
  }

 private:
  [[noreturn]] void no(const std::string& what) const { refuse(what, where_, kTakeAnother); }

  template <typename T>
  T get(const Json& json, const char* key) const {
    return member<T>(json, key, where_);
  }
  const Json& list(const Json& json, const char* key) const {
    const Json& made = child(json, key, where_);
    if (!made.is_array()) no(fmt::format("'{}' is no list", key));
    return made;
  }
  const Json& object(const Json& json, const char* key) const {
    const Json& made = child(json, key, where_);
    if (!made.is_object()) no(fmt::format("'{}' is no object", key));
    return made;
  }
  std::int64_t count(const Json& json, const char* key) const {
    const auto made = get<std::int64_t>(json, key);
    if (made < 0) no(fmt::format("'{}' is {}", key, made));
    return made;
  }
  std::vector<std::int64_t> sizes(const Json& json, const char* key) const {
    const auto made = get<std::vector<std::int64_t>>(json, key);
    std::int64_t product = 1;
    for (const std::int64_t size : made) {
      if (size < 0 || (size > 0 && product > std::numeric_limits<std::int64_t>::max() / 16 / size))
        no(fmt::format("'{}' is {}", key, to_string(made)));
      product *= std::max<std::int64_t>(size, 1);
    }
    if (static_cast<std::int64_t>(made.size()) > kMostIndexDims) no(fmt::format("'{}' has {} dims", key, made.size()));
    return made;
  }

  About about(const Json& json) const {
    About made;
    made.moesh = get<std::string>(json, "moesh");
    made.date = get<std::string>(json, "date");
    made.step = count(json, "step");
    made.rows = count(json, "rows");
    if (json.contains("place")) made.place = get<std::string>(json, "place");
    made.optimizer = get<std::string>(json, "optimizer");
    made.parameters = count(json, "parameters");
    if (json.contains("numbers")) {
      const Json& numbers = object(json, "numbers");
      for (const auto& [name, values] : numbers.items()) made.numbers[name] = get<std::vector<double>>(numbers, name.c_str());
    }
    const Json &mesh = object(json, "mesh"), &settings = object(json, "settings");
    for (const auto& [axis, size] : mesh.items()) made.mesh.emplace_back(axis, get<std::int64_t>(mesh, axis.c_str()));
    for (const auto& [key, value] : settings.items()) made.settings.emplace_back(key, get<std::string>(settings, key.c_str()));
    return made;
  }

  File file(const Json& json) const {
    File made{get<std::string>(json, "name"), count(json, "bytes"), count(json, "header_bytes"), 0};
    const auto hash = parse_hash(get<std::string>(json, "header_hash"));
    if (made.name.empty() || made.name.find('/') != std::string::npos || made.name.starts_with("."))
      no("'" + shorten(made.name, 80) + "' is no name of a file");
    if (!hash || made.header_bytes > made.bytes) no(made.name + ": sizes or hashes that are none");
    made.header_hash = *hash;
    return made;
  }

  Tensor tensor(const Json& json, const std::string& name, const std::vector<File>& files) const {
    const auto dtype = parse_dtype(get<std::string>(json, "dtype"));
    if (!dtype) no(name + ": an unknown type, " + shorten(get<std::string>(json, "dtype"), 40));
    Tensor made{*dtype, sizes(json, "shape"), get<int>(json, "layers_dim"), get<std::string>(json, "spec"), {}};
    const int dims_of_layers = made.layers_dim < 0 ? 0 : has_stack_within(name) ? 2 : 1;
    if (made.layers_dim > static_cast<int>(made.shape.size()) - dims_of_layers) no(name + ": layers in a dim that it has not");
    if (json.contains("from")) made.from = types(json, name, stack_of({name, made.shape, made.layers_dim}).all_layers());
    std::int64_t held = 0;
    for (const Json& entry : list(json, "pieces")) {
      made.pieces.push_back(piece(entry, made, name, files));
      held += elements_of(made.pieces.back().block);
      if (held > elements(made.shape)) no(name + ": pieces that overlap");
    }
    for (std::size_t i = 0; i < std::min(made.pieces.size(), kMostCompared); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const auto shared = shared_block(made.pieces[i].block, made.pieces[j].block);
        if (shared && elements_of(*shared) > 0) no(name + ": pieces that overlap");
      }
    }
    if (extent_ == Extent::whole && held != elements(made.shape))
      no(fmt::format("{}: {} of its {} elements are there", name, held, elements(made.shape)));
    return made;
  }

  std::vector<StoredType> types(const Json& json, const std::string& name, std::int64_t layers) const {
    std::vector<StoredType> made;
    for (const std::string& word : get<std::vector<std::string>>(json, "from")) {
      const auto type = parse_stored_type(word);
      if (!type || !is_floating(type->dtype)) no(name + ": from an unknown type, " + shorten(word, 40));
      made.push_back(*type);
    }
    const auto count = static_cast<std::int64_t>(made.size());
    if (count != 1 && count != layers) no(fmt::format("{}: from {} types, for {}", name, count, counted(layers, "layer")));
    return made;
  }

  Piece piece(const Json& json, const Tensor& of, const std::string& name, const std::vector<File>& files) const {
    Piece made{static_cast<std::size_t>(count(json, "file")), count(json, "offset"), {}, {}};
    const std::vector<std::int64_t> begin = sizes(json, "begin"), shape = sizes(json, "shape");
    bool fits = made.file < files.size() && begin.size() == of.shape.size() && shape.size() == of.shape.size();
    for (std::size_t dim = 0; fits && dim < begin.size(); ++dim) {
      made.block.push_back({begin[dim], begin[dim] + shape[dim]});
      fits = made.block[dim].end <= of.shape[dim];
    }
    if (!fits || made.offset > files[made.file].bytes - elements_of(made.block) * size_of(of.dtype))
      no(name + ": a piece that lies outside of it, or of its file");
    const auto hashes = get<std::string>(json, "hashes");
    for (std::size_t at = 0; at + kHashDigits <= hashes.size(); at += kHashDigits) {
      const auto hash = parse_hash(std::string_view(hashes).substr(at, kHashDigits));
      if (!hash) no(name + ": hashes that are none");
      made.hashes.push_back(*hash);
    }
    const Chunks chunks(made.block, of.dtype);
    if (hashes.size() % kHashDigits != 0 || static_cast<std::int64_t>(made.hashes.size()) != chunks.count())
      no(name + ": not a hash for each of its chunks");
    return made;
  }

  std::string where_;
  Extent extent_;
};

}  // namespace

void write(JsonWriter& json, const About& about) {
  json.key("moesh").value(about.moesh).key("date").value(about.date).key("step").value(about.step).key("rows").value(about.rows);
  if (!about.place.empty()) json.key("place").value(about.place);
  json.key("optimizer").value(about.optimizer).key("parameters").value(about.parameters);
  if (!about.numbers.empty()) {
    json.line().key("numbers").begin_object();
    for (const auto& [name, values] : about.numbers) {
      json.key(name).begin_array();
      for (const double value : values) json.value(value);
      json.end_array();
    }
    json.end_object();
  }
  json.line().key("mesh").begin_object();
  for (const auto& [axis, size] : about.mesh) json.key(axis).value(size);
  json.end_object().line().key("settings").begin_object();
  for (const auto& [key, value] : about.settings) json.key(key).value(value);
  json.end_object();
}

std::vector<ChangedSetting> changed_settings(const Settings& before, const Settings& after) {
  const std::map<std::string, std::string> earlier(before.begin(), before.end()), later(after.begin(), after.end());
  std::vector<ChangedSetting> changed;
  for (const auto& [key, value] : after) {
    const auto found = earlier.find(key);
    const std::string was = found == earlier.end() ? "-" : found->second;
    if (was != value) changed.push_back({key, was, value});
  }
  for (const auto& [key, value] : before) {
    if (!later.contains(key)) changed.push_back({key, value, "-"});
  }
  return changed;
}

StoredType Tensor::type_of(const Layer& layer) const {
  if (from.empty()) return {dtype};
  return from.size() == 1 ? from.front() : from[static_cast<std::size_t>(layer.number)];
}

std::int64_t Index::bytes() const {
  std::int64_t sum = 0;
  for (const File& file : files) sum += file.bytes;
  return sum;
}

std::string to_json(const Index& index) {
  JsonWriter json;
  json.begin_object().key("format").value(kFormat).key("version").value(kFormatVersion).line();
  write(json, index.about);
  json.line().key("files").begin_array();
  for (const File& file : index.files) {
    json.line().begin_object().key("name").value(file.name).key("bytes").value(file.bytes);
    json.key("header_bytes").value(file.header_bytes).key("header_hash").value(hash_text(file.header_hash)).end_object();
  }
  json.end_array().line().key("tensors").begin_object();
  for (const auto& [name, tensor] : index.tensors) {
    json.line().key(name).begin_object().key("dtype").value(name_of(tensor.dtype)).key("shape").values(tensor.shape);
    json.key("layers_dim").value(tensor.layers_dim).key("spec").value(tensor.spec);
    write_from(json, tensor.from);
    json.key("pieces").begin_array();
    for (const Piece& piece : tensor.pieces) write(json, piece);
    json.end_array().end_object();
  }
  json.end_object();
  return sealed(json.text());
}

std::string sealed(std::string_view body) { return fmt::format("{}{}{}{}", body, kHashKey, hash_text(hash_of(body)), kEnd); }

Index parse_index(std::string_view text, const std::string& where, Extent extent) {
  const std::size_t tail = kHashKey.size() + kHashDigits + kEnd.size();
  const std::string_view body = text.substr(0, text.size() < tail ? 0 : text.size() - tail);
  const std::string_view rest = text.substr(body.size());
  const bool is_ours = text.size() >= tail && rest.starts_with(kHashKey) && rest.ends_with(kEnd);
  if (!is_ours) refuse("cut short, damaged, or no index of a checkpoint", where, kTakeAnother);
  if (parse_hash(rest.substr(kHashKey.size(), kHashDigits)) != hash_of(body))
    refuse("damaged: its hash is another one", where, kTakeAnother);
  const Json json = parse_json(text, where, 16);
  if (member<std::string>(json, "format", where) != kFormat) refuse("no index of a checkpoint", where, kTakeAnother);
  const auto version = member<std::int64_t>(json, "version", where);
  if (version != kFormatVersion) {
    refuse(fmt::format("version {} of the format, this moesh reads version {}", version, kFormatVersion), where,
           "read it with the moesh that wrote it or a later one");
  }
  return Reader(where, extent).run(json);
}

}  // namespace moesh::store
