#include "train/data.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/stat.h>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"

namespace moesh::train {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{4} << 30;

// The same random tokens at every step, as the reference's synthetic data has them.
class Synthetic : public TokenSource {
 public:
  Synthetic(std::int64_t rows, std::int64_t vocab_size) : rows_(rows), vocab_size_(static_cast<std::int32_t>(vocab_size)) {}

  std::string describe() const override { return "synthetic tokens, one fixed batch"; }

  std::vector<std::int32_t> row(std::int64_t row, std::int64_t length) const override {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(length));
    const RandomKey key = random_key(0);
    const auto first = static_cast<std::uint64_t>(row % rows_ * length);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = random_integer(key, first + i, 0, vocab_size_);
    return tokens;
  }

 private:
  std::int64_t rows_;
  std::int32_t vocab_size_;
};

// One long stream of tokens, cut into rows that overlap by the token that is only a target, round and round.
class Stream : public TokenSource {
 public:
  Stream(std::string about, std::vector<std::int32_t> tokens) : about_(std::move(about)), tokens_(std::move(tokens)) {}

  std::string describe() const override {
    return fmt::format("{}, {} tokens", about_, with_commas(static_cast<std::int64_t>(tokens_.size())));
  }

  std::vector<std::int32_t> row(std::int64_t row, std::int64_t length) const override {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(length));
    const auto size = static_cast<std::int64_t>(tokens_.size());
    const std::int64_t first = row * (length - 1) % size;
    for (std::int64_t i = 0; i < length; ++i) {
      tokens[static_cast<std::size_t>(i)] = tokens_[static_cast<std::size_t>((first + i) % size)];
    }
    return tokens;
  }

 private:
  std::string about_;
  std::vector<std::int32_t> tokens_;
};

std::string read_file(const std::string& path) {
  struct stat status {};
  if (path.empty()) refuse("dataset_path is empty", "dataset_path", "name a file");
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
    refuse("no such file", path, "check dataset_path");
  }
  if (status.st_size > kMostBytes) {
    refuse(fmt::format("a file of {}, at most {} are read whole", human_bytes(static_cast<double>(status.st_size)),
                       human_bytes(static_cast<double>(kMostBytes))),
           path);
  }
  std::ifstream file(path, std::ios::binary);
  file.peek();
  if (!file.is_open() || file.bad()) fail("the file cannot be read", path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.empty()) refuse("the file is empty", path, "name a file with something in it");
  return text;
}

// A file, or the regular files of a folder one after the other, by name.
std::string read_files(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return read_file(path);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    if (entry.is_regular_file(error) && !entry.is_symlink(error)) names.push_back(entry.path().string());
  }
  std::sort(names.begin(), names.end());
  std::string all;
  for (const std::string& name : names) {
    if (std::filesystem::file_size(name, error) > 0) all += read_file(name);
  }
  if (all.empty()) refuse("the folder holds no files with text", path, "check dataset_path");
  return all;
}

std::vector<std::int32_t> bytes_as_tokens(const std::string& text) {
  std::vector<std::int32_t> tokens;
  tokens.reserve(text.size());
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

// The "text" of every line, each followed by a zero byte.
std::string jsonl_texts(const std::string& path) {
  std::string all;
  std::int64_t number = 0;
  for (const std::string& line : split(read_file(path), '\n')) {
    ++number;
    if (trim(line).empty()) continue;
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("text") || !json["text"].is_string()) {
      refuse("a line that is no JSON object with a \"text\"", fmt::format("{}:{}", path, number));
    }
    all += json["text"].get<std::string>() + '\0';
  }
  if (all.empty()) refuse("no line holds text", path);
  return all;
}

template <typename T>
std::vector<std::int32_t> tokens_of(const std::string& bytes) {
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    T value;
    std::copy_n(bytes.data() + i, sizeof(T), reinterpret_cast<char*>(&value));
    tokens.push_back(static_cast<std::int32_t>(value));
  }
  return tokens;
}

// .u16 files hold uint16 tokens, all others int32.
std::vector<std::int32_t> read_tokens(const std::string& path) {
  const std::string bytes = read_file(path);
  const bool narrow = path.ends_with(".u16");
  const std::size_t width = narrow ? 2 : 4;
  if (bytes.size() % width != 0) {
    refuse(fmt::format("{} bytes are no whole number of {}-byte tokens", bytes.size(), width), path);
  }
  return narrow ? tokens_of<std::uint16_t>(bytes) : tokens_of<std::int32_t>(bytes);
}

run::Array int_rows(run::Pool& pool, std::int64_t rows, std::int64_t length, std::int32_t value) {
  run::Array array = pool.allocate({rows, length}, DType::int32);
  std::fill_n(array.as<std::int32_t>(), rows * length, value);
  return array;
}

void check_token(std::int32_t token, std::int64_t vocab_size, std::int64_t row) {
  if (token >= 0 && token < vocab_size) return;
  refuse(fmt::format("token {} in row {}, the vocabulary has {}", token, row, vocab_size), "the data",
         "raise vocab_size, or use the data that belongs to this model");
}

}  // namespace

std::unique_ptr<TokenSource> open_source(const config::Settings& settings, std::int64_t rows_to_load) {
  const std::string& type = settings.text("dataset_type");
  const std::string& path = settings.text("dataset_path");
  if (type == "synthetic") return std::make_unique<Synthetic>(rows_to_load, settings.integer("vocab_size"));
  if (type == "text") return std::make_unique<Stream>("the bytes of " + path, bytes_as_tokens(read_files(path)));
  if (type == "jsonl") return std::make_unique<Stream>("the texts of " + path, bytes_as_tokens(jsonl_texts(path)));
  if (type == "tokens") return std::make_unique<Stream>("the tokens of " + path, read_tokens(path));
  refuse(fmt::format("dataset_type={} is not read by moesh", type), settings.origin("dataset_type").where,
         "dataset_type=synthetic, or text, jsonl or tokens with dataset_path=FILE");
}

Batch make_batch(const TokenSource& source, std::int64_t step, std::int64_t rows_to_load, std::int64_t rows,
                 std::int64_t length, std::int64_t vocab_size, run::Pool& pool) {
  Batch batch;
  for (const char* name : {"inputs", "targets", "inputs_position"}) batch[name] = int_rows(pool, rows, length, 0);
  for (const char* name : {"inputs_segmentation", "targets_segmentation"}) batch[name] = int_rows(pool, rows, length, 1);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t number = step * rows_to_load + r;
    const std::vector<std::int32_t> tokens = source.row(number, length + 1);
    for (std::int64_t s = 0; s < length; ++s) {
      const auto at = static_cast<std::size_t>(s);
      check_token(tokens[at], vocab_size, number);
      check_token(tokens[at + 1], vocab_size, number);
      batch["inputs"].as<std::int32_t>()[r * length + s] = tokens[at];
      batch["targets"].as<std::int32_t>()[r * length + s] = tokens[at + 1];
      batch["inputs_position"].as<std::int32_t>()[r * length + s] = static_cast<std::int32_t>(s);
    }
  }
  return batch;
}

}  // namespace moesh::train
