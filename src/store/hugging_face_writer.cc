#include "store/hugging_face_writer.h"

#include <map>

#include <fmt/core.h>

#include "base/json.h"
#include "base/whole_file.h"
#include "store/disk.h"
#include "store/safetensors.h"

namespace moesh::store {
namespace {

constexpr std::int64_t kAlignment = 8;  // of the first tensor's data

std::int64_t bytes_of(const WrittenTensor& tensor) { return elements(tensor.shape) * size_of(tensor.type); }

// For each file, the index of the first tensor after it.
std::vector<std::size_t> ends_of_shards(const std::vector<WrittenTensor>& tensors, std::int64_t most) {
  std::vector<std::size_t> ends;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (bytes > 0 && bytes + bytes_of(tensors[i]) > most) {
      ends.push_back(i);
      bytes = 0;
    }
    bytes += bytes_of(tensors[i]);
  }
  ends.push_back(tensors.size());
  return ends;
}

std::string header_of(const std::vector<WrittenTensor>& tensors, std::size_t begin, std::size_t end) {
  SafetensorsHeader header;
  header.add_format("pt");
  for (std::size_t i = begin; i < end; ++i) header.add(tensors[i].name, tensors[i].type, tensors[i].shape);
  return header.text(kAlignment);
}

std::string shard_name(std::size_t shard, std::size_t count) {
  return count == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, count);
}

void write_index(const std::string& folder, const std::vector<WrittenTensor>& tensors,
                 const std::vector<std::size_t>& ends) {
  std::map<std::string, std::string> files;
  std::int64_t bytes = 0;
  for (std::size_t i = 0, shard = 0; i < tensors.size(); ++i) {
    if (i == ends[shard]) ++shard;
    files.emplace(tensors[i].name, shard_name(shard, ends.size()));
    bytes += bytes_of(tensors[i]);
  }
  JsonWriter json;
  json.begin_object()
      .key("metadata")
      .begin_object()
      .key("total_size")
      .value(bytes)
      .end_object()
      .line()
      .key("weight_map")
      .begin_object();
  for (const auto& [name, file] : files) json.line().key(name).value(file);
  json.end_object().end_object();
  replace_file(folder + "/model.safetensors.index.json", json.text() + "\n", "choose another folder");
}

}  // namespace

void write_weights(const std::string& folder, const std::vector<WrittenTensor>& tensors,
                   const std::function<const std::byte*(std::size_t tensor)>& numbers, std::int64_t most_of_shard) {
  const std::vector<std::size_t> ends = ends_of_shards(tensors, most_of_shard);
  std::size_t begin = 0;
  for (std::size_t shard = 0; shard < ends.size(); ++shard) {
    const std::string path = folder + "/" + shard_name(shard, ends.size()),
                      header = header_of(tensors, begin, ends[shard]);
    const Descriptor file = create_file(path);
    write_at(file.number(), header.data(), static_cast<std::int64_t>(header.size()), 0, path);
    auto offset = static_cast<std::int64_t>(header.size());
    for (; begin < ends[shard]; ++begin) {
      write_at(file.number(), numbers(begin), bytes_of(tensors[begin]), offset, path);
      begin_writing_out(file.number(), bytes_of(tensors[begin]), offset);
      offset += bytes_of(tensors[begin]);
    }
    sync(file.number(), path);
  }
  if (ends.size() > 1) write_index(folder, tensors, ends);
}

}  // namespace moesh::store
