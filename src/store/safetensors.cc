#include "store/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <set>
#include <sys/mman.h>
#include <sys/stat.h>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/bfloat16.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "base/system.h"
#include "base/text.h"
#include "base/whole_file.h"
#include "store/small_floats.h"

namespace moesh::store {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMostHeader = 32u << 20;  // a tensor's entry takes about a hundred bytes
constexpr int kMostDepth = 4;  // a level of nesting costs much more memory than its two bytes
constexpr std::size_t kMostDims = 32;

struct Word {
  std::string_view word;
  StoredType type;
};

constexpr std::array<Word, 9> kWords{{{"F32", {DType::float32}},
                                      {"BF16", {DType::bfloat16}},
                                      {"F64", {DType::float64}},
                                      {"I32", {DType::int32}},
                                      {"BOOL", {DType::boolean}},
                                      {"F16", kFloat16},
                                      {"F8_E4M3", {DType::float32, Encoding::float8_e4m3}},
                                      {"U8", {DType::int32, Encoding::uint8}},
                                      {"I64", {DType::int32, Encoding::int64}}}};

const StoredType* type_of(const std::string& name) {
  const auto found = std::find_if(kWords.begin(), kWords.end(), [&](const Word& word) { return word.word == name; });
  return found == kWords.end() ? nullptr : &found->type;
}

Json parse_header(const std::byte* data, std::size_t size, const std::string& name) {
  std::uint64_t length = 0;
  if (size < sizeof(length)) refuse(fmt::format("{} bytes, too few for a safetensors header", size), name);
  std::memcpy(&length, data, sizeof(length));
  if (length > kMostHeader || length > size - sizeof(length)) {
    refuse(fmt::format("the header says {} bytes, the file has {}", length, size - sizeof(length)), name,
           "the file is cut short or no safetensors file");
  }
  const std::string_view text(reinterpret_cast<const char*>(data + sizeof(length)), length);
  if (nests_deeper(text, kMostDepth)) {
    refuse(fmt::format("the header nests values more than {} deep", kMostDepth), name);
  }
  std::set<std::string> names;
  std::string twice;
  const auto see = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth == 1 && event == Json::parse_event_t::key && !names.insert(parsed.get<std::string>()).second)
      twice = parsed.get<std::string>();
    return true;
  };
  Json header = Json::parse(text, see, false);
  if (!twice.empty()) refuse(fmt::format("two entries of the name '{}'", shorten(twice, 80)), name, "the file is damaged");
  if (!header.is_object()) refuse("the header is no JSON object", name);
  return header;
}

std::int64_t checked_bytes(const Shape& shape, StoredType type, const std::string& where) {
  std::int64_t bytes = size_of(type);
  for (const std::int64_t size : shape) {
    if (size < 0 || (size > 0 && bytes > std::numeric_limits<std::int64_t>::max() / size)) {
      refuse("a shape that no file can hold: " + to_string(shape), where);
    }
    bytes *= size;
  }
  return bytes;
}

StoredTensor read_entry(const Json& entry, const std::byte* data, std::uint64_t data_bytes, const std::string& where) {
  const bool complete = entry.is_object() && entry.contains("dtype") && entry["dtype"].is_string() &&
                        entry.contains("shape") && entry["shape"].is_array() && entry.contains("data_offsets") &&
                        entry["data_offsets"].is_array() && entry["data_offsets"].size() == 2;
  if (!complete) refuse("an entry without dtype, shape and two data_offsets", where);
  const StoredType* type = type_of(entry["dtype"].get<std::string>());
  if (type == nullptr) {
    refuse(fmt::format("dtype {}, one of F32, BF16, F64, I32, BOOL, F16, F8_E4M3, U8, I64 was expected",
                       shortened(entry["dtype"], 60)),
           where);
  }
  if (entry["shape"].size() > kMostDims) {
    refuse(fmt::format("{} dims, at most {} were expected", entry["shape"].size(), kMostDims), where);
  }
  StoredTensor tensor;
  tensor.type = *type;
  for (const Json& size : entry["shape"]) {
    if (!size.is_number_unsigned() || size.get<std::uint64_t>() > (1ull << 48)) {
      refuse("a size that is no size: " + shortened(size, 60), where);
    }
    tensor.shape.push_back(size.get<std::int64_t>());
  }
  const Json& offsets = entry["data_offsets"];
  if (!offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned()) {
    refuse("data_offsets that are no offsets", where);
  }
  const auto begin = offsets[0].get<std::uint64_t>();
  const auto end = offsets[1].get<std::uint64_t>();
  tensor.bytes = checked_bytes(tensor.shape, *type, where);
  if (end < begin || end > data_bytes || end - begin != static_cast<std::uint64_t>(tensor.bytes)) {
    refuse(fmt::format("data_offsets [{}, {}) of {} bytes, {} were expected for {}", begin, end, data_bytes,
                       tensor.bytes, to_string(tensor.shape)),
           where, "the file is cut short or damaged");
  }
  tensor.data = data + begin;
  return tensor;
}

template <typename T>
T element(const std::byte* data, std::size_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

std::string_view safetensors_name(StoredType type) {
  return std::find_if(kWords.begin(), kWords.end(), [&](const Word& word) { return word.type == type; })->word;
}

double StoredTensor::value(std::size_t i) const {
  switch (type.encoding) {
    case Encoding::float16: return static_cast<double>(from_float16(element<std::uint16_t>(data, i)));
    case Encoding::float8_e4m3: return static_cast<double>(from_float8_e4m3(element<std::uint8_t>(data, i)));
    case Encoding::uint8: return element<std::uint8_t>(data, i);
    case Encoding::int64: return static_cast<double>(element<std::int64_t>(data, i));
    case Encoding::plain: break;
  }
  switch (type.dtype) {
    case DType::float32: return static_cast<double>(element<float>(data, i));
    case DType::bfloat16: return static_cast<double>(static_cast<float>(element<bfloat16>(data, i)));
    case DType::float64: return element<double>(data, i);
    case DType::int32: return element<std::int32_t>(data, i);
    case DType::boolean: return element<std::uint8_t>(data, i);
  }
  return 0;
}

std::vector<double> StoredTensor::values() const {
  std::vector<double> all(static_cast<std::size_t>(elements(shape)));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = value(i);
  return all;
}

namespace {

// All bytes behind the header are tensors', one after the other: other libraries refuse a file that hides some.
void check_packed(const std::map<std::string, StoredTensor>& tensors, const std::byte* data, std::size_t bytes, const std::string& name) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> parts{{bytes, bytes}};
  for (const auto& [key, tensor] : tensors) {
    const auto begin = static_cast<std::uint64_t>(tensor.data - data);
    parts.emplace_back(begin, begin + static_cast<std::uint64_t>(tensor.bytes));
  }
  std::sort(parts.begin(), parts.end());
  std::uint64_t end = 0;
  for (const auto& [begin, its_end] : parts) {
    if (begin != end) {
      refuse(begin > end ? fmt::format("bytes {} to {} behind the header belong to no tensor", end, begin)
                         : fmt::format("bytes {} to {} behind the header belong to two tensors", begin, end),
             name, "the file is damaged: take it again");
    }
    end = its_end;
  }
}

}  // namespace

std::map<std::string, StoredTensor> parse_safetensors(const std::byte* data, std::size_t size,
                                                      const std::string& name) {
  const Json header = parse_header(data, size, name);
  std::uint64_t length = 0;
  std::memcpy(&length, data, sizeof(length));
  const std::size_t begin = sizeof(length) + length;
  std::map<std::string, StoredTensor> tensors;
  for (const auto& [key, entry] : header.items()) {
    if (key == "__metadata__") continue;
    tensors.emplace(key, read_entry(entry, data + begin, size - begin, name + ": " + shorten(key, 80)));
  }
  check_packed(tensors, data + begin, size - begin, name);
  return tensors;
}

const StoredTensor& TensorFile::at(const std::string& name) const {
  const auto found = tensors.find(name);
  if (found != tensors.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [other, tensor] : tensors) names.push_back(other);
  const std::vector<std::string> close = nearest(name, names);
  refuse(fmt::format("no tensor '{}'", shorten(name, 80)), path,
         close.empty() ? "" : "near ones are " + join(close, ", "));
}

void SafetensorsHeader::add_format(std::string_view format) {
  json_.key("__metadata__").begin_object().key("format").value(format).end_object();
}

void SafetensorsHeader::add(const std::string& name, StoredType type, const Shape& shape) {
  const std::int64_t begin = end_;
  end_ += elements(shape) * size_of(type);
  json_.key(name).begin_object().key("dtype").value(safetensors_name(type)).key("shape").values(shape);
  json_.key("data_offsets").begin_array().value(begin).value(end_).end_array().end_object();
}

std::string SafetensorsHeader::text(std::int64_t alignment) {
  std::string text = json_.end_object().text();
  const auto used = static_cast<std::int64_t>(sizeof(std::uint64_t) + text.size());
  text.append(static_cast<std::size_t>((alignment - used % alignment) % alignment), ' ');
  const std::uint64_t length = text.size();
  text.insert(0, reinterpret_cast<const char*>(&length), sizeof length);
  return text;
}

namespace {

// The bytes of a file; null if it has none, as the system maps no empty files.
std::shared_ptr<const void> mapped(int file, std::size_t size, const std::string& path) {
  if (size == 0) return nullptr;
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  if (data == MAP_FAILED) {
    fail(fmt::format("its {} bytes cannot be mapped: {}", with_commas(static_cast<std::int64_t>(size)), system_reason()), path,
         "raise the limit of address space (ulimit -v), or take a disk whose files can be mapped");
  }
  return {data, [size](const void* p) { ::munmap(const_cast<void*>(p), size); }};
}

}  // namespace

TensorFile read_safetensors(const std::string& path) {
  const Descriptor file = open_to_read(path, "the safetensors file", "name a safetensors file that you may read");
  struct stat status {};
  ::fstat(file.number(), &status);
  const auto size = static_cast<std::size_t>(status.st_size);
  TensorFile result;
  result.path = path;
  result.mapping = mapped(file.number(), size, path);
  result.tensors = parse_safetensors(static_cast<const std::byte*>(result.mapping.get()), size, path);
  return result;
}

}  // namespace moesh::store
