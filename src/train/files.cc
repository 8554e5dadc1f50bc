#include "train/files.h"

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

using Tokens = std::vector<std::int32_t>;

constexpr std::int64_t kMostBytes = std::int64_t{4} << 30;

// Documents after each other, by where they begin; none begins in a file that is no more than tokens.
struct Documents {
  Tokens tokens;
  std::vector<std::int64_t> begins;

  std::int64_t size() const { return static_cast<std::int64_t>(tokens.size()); }
};

// Rows are gone through in blocks of all there are, each block in an order of its own.
struct Order {
  bool is_random = false;
  std::int64_t seed = 0;

  std::int64_t at(std::int64_t row, std::int64_t rows) const {
    if (!is_random) return row;
    const RandomKey key = fold_in(random_key(seed), static_cast<std::uint32_t>(row / rows));
    const auto place = permuted(key, static_cast<std::uint64_t>(row % rows), static_cast<std::uint64_t>(rows));
    return row / rows * rows + static_cast<std::int64_t>(place);
  }
};

// One long stream of tokens, cut into rows that overlap by the token that is only a target, round and round.
class Stream : public TokenSource {
 public:
  Stream(std::string about, Documents documents, Order order)
      : about_(std::move(about)), documents_(std::move(documents)), order_(order) {}

  std::string describe() const override { return fmt::format("{}, {} tokens", about_, with_commas(documents_.size())); }

  Tokens row(std::int64_t row, std::int64_t length) const override {
    Tokens tokens(static_cast<std::size_t>(length));
    const std::int64_t first = first_of(row, length);
    for (std::int64_t i = 0; i < length; ++i) {
      tokens[static_cast<std::size_t>(i)] =
          documents_.tokens[static_cast<std::size_t>((first + i) % documents_.size())];
    }
    return tokens;
  }

  // Documents in a row are segments from 1 on, with positions of their own.
  Example example(std::int64_t row, std::int64_t length) const override {
    Example made = TokenSource::example(row, length);
    if (documents_.begins.empty()) return made;
    const std::int64_t first = first_of(row, length + 1);
    std::int32_t segment = 1;
    std::int32_t position = 0;
    for (std::int64_t i = 0; i <= length; ++i, ++position) {
      const bool begins =
          std::binary_search(documents_.begins.begin(), documents_.begins.end(), (first + i) % documents_.size());
      if (begins && i > 0) {
        ++segment;
        position = 0;
      }
      const auto at = static_cast<std::size_t>(i);
      if (i < length) made.segments[at] = segment;
      if (i < length) made.positions[at] = position;
      if (i > 0) made.target_segments[at - 1] = segment;
    }
    return made;
  }

 private:
  std::int64_t first_of(std::int64_t row, std::int64_t length) const {
    const std::int64_t rows = std::max<std::int64_t>(1, documents_.size() / (length - 1));
    return order_.at(row, rows) * (length - 1) % documents_.size();
  }

  std::string about_;
  Documents documents_;
  Order order_;
};

// A document a row, padded; one that is longer than `length` is cut off, or goes on in rows of its own.
class Unpacked : public TokenSource {
 public:
  Unpacked(std::string about, Documents documents, Order order, std::int64_t length, bool truncates)
      : about_(std::move(about)), documents_(std::move(documents)), order_(order) {
    for (std::size_t i = 0; i < documents_.begins.size(); ++i) {
      const std::int64_t end = i + 1 < documents_.begins.size() ? documents_.begins[i + 1] : documents_.size();
      for (std::int64_t begin = documents_.begins[i]; begin < end; begin += length) {
        pieces_.push_back({begin, std::min(length, end - begin)});
        if (truncates) break;
      }
    }
  }

  std::string describe() const override {
    return fmt::format("{}, {} rows", about_, with_commas(static_cast<std::int64_t>(pieces_.size())));
  }

  Tokens row(std::int64_t row, std::int64_t length) const override {
    const Piece piece = piece_of(row);
    const auto from = documents_.tokens.begin() + piece.begin;
    Tokens tokens(from, from + std::min(piece.count, length));
    tokens.resize(static_cast<std::size_t>(length), 0);
    return tokens;
  }

  Example example(std::int64_t row, std::int64_t length) const override {
    Example made = TokenSource::example(row, length);
    const auto count = static_cast<std::size_t>(std::min(piece_of(row).count, length));
    for (std::size_t i = count; i < made.inputs.size(); ++i) made.segments[i] = 0;
    for (std::size_t i = count - 1; i < made.inputs.size(); ++i) made.target_segments[i] = 0;
    return made;
  }

 private:
  struct Piece {
    std::int64_t begin, count;
  };
  Piece piece_of(std::int64_t row) const {
    const auto rows = static_cast<std::int64_t>(pieces_.size());
    return pieces_[static_cast<std::size_t>(order_.at(row, rows) % rows)];
  }

  std::string about_;
  Documents documents_;
  Order order_;
  std::vector<Piece> pieces_;
};

std::string read_file(const std::string& path) {
  struct stat status {};
  if (path.empty()) refuse("dataset_path is empty", "dataset_path", "name a file");
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode))
    refuse("no such file", path, "check dataset_path");
  if (status.st_size == 0) refuse("the file is empty", path, "name a file with something in it");
  if (status.st_size > kMostBytes) {
    refuse(fmt::format("a file of {}, at most {} are read whole", human_bytes(static_cast<double>(status.st_size)),
                       human_bytes(static_cast<double>(kMostBytes))),
           path);
  }
  std::ifstream file(path, std::ios::binary);
  file.peek();
  if (!file.is_open() || file.bad()) fail("the file cannot be read", path);
  return {std::istreambuf_iterator<char>(file), {}};
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

// One field of every line, as bytes or as token ids.
Documents read_jsonl(const std::string& path, const config::Settings& settings) {
  const std::string& field = settings.texts("train_data_columns").front();
  const bool is_text = settings.boolean("tokenize_train_data");
  Documents documents;
  std::int64_t number = 0;
  for (const std::string& line : split(read_file(path), '\n')) {
    ++number;
    if (trim(line).empty()) continue;
    const std::string where = fmt::format("{}:{}", path, number);
    const auto json = nlohmann::json::parse(line, nullptr, false);
    const auto content = json.is_object() && json.contains(field) ? json[field] : nlohmann::json();
    if (is_text && !content.is_string())
      refuse(fmt::format("a line that is no JSON object with a \"{}\"", field), where);
    const bool is_ids = content.is_array() && std::all_of(content.begin(), content.end(),
                                                          [](const auto& id) { return id.is_number_unsigned(); });
    if (!is_text && !is_ids) refuse(fmt::format("a line without a list of token ids as \"{}\"", field), where);
    Tokens tokens = is_text ? bytes_as_tokens(content.template get<std::string>()) : content.template get<Tokens>();
    if (settings.boolean("add_eos")) tokens.push_back(0);
    if (tokens.empty()) continue;
    documents.begins.push_back(documents.size());
    documents.tokens.insert(documents.tokens.end(), tokens.begin(), tokens.end());
  }
  if (documents.tokens.empty()) refuse("no line holds text", path);
  return documents;
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

// What is asked of a file of any kind.
void check_requests(const config::Settings& settings) {
  const auto where = [&](const char* key) { return settings.origin(key).where; };
  const std::string& type = settings.text("dataset_type");
  if (settings.integer("num_epoch") != 1) {
    refuse(
        fmt::format("num_epoch={}, but a file is gone round until the steps are done", settings.integer("num_epoch")),
        where("num_epoch"), "num_epoch=1, and as many steps as the epochs have");
  }
  if (type != "tokens" && settings.boolean("tokenize_train_data") && !settings.text("tokenizer_path").empty()) {
    refuse(fmt::format("tokenizer_path={}, but moesh has only bytes as tokens", settings.text("tokenizer_path")),
           where("tokenizer_path"), "leave it out, or tokenize the data and give dataset_type=tokens");
  }
  if (type == "text" && !settings.boolean("tokenize_train_data")) {
    refuse("tokenize_train_data=false, but dataset_type=text holds bytes", where("tokenize_train_data"),
           "dataset_type=tokens, or jsonl with lists of token ids");
  }
  if (type != "jsonl" && !settings.boolean("packing")) {
    refuse(fmt::format("packing=false gives each document a row, but dataset_type={} knows no documents", type),
           where("packing"), "dataset_type=jsonl, or leave packing at true");
  }
  if (type != "jsonl") return;
  if (settings.texts("train_data_columns").size() != 1) {
    refuse(
        fmt::format("train_data_columns names {} fields, 1 was expected", settings.texts("train_data_columns").size()),
        where("train_data_columns"), "train_data_columns=[text]");
  }
  if (settings.boolean("packing") && settings.integer("max_segments_per_seq") > 0) {
    refuse(fmt::format("max_segments_per_seq={}, but rows of a file take as many documents as they hold",
                       settings.integer("max_segments_per_seq")),
           where("max_segments_per_seq"), "leave it at -1, or packing=false for one a row");
  }
}

}  // namespace

std::unique_ptr<TokenSource> open_file(const config::Settings& settings) {
  check_requests(settings);
  const std::string& type = settings.text("dataset_type");
  const std::string& path = settings.text("dataset_path");
  const Order order{settings.boolean("enable_data_shuffling"), settings.integer("data_shuffle_seed")};
  if (type == "text") {
    return std::make_unique<Stream>("the bytes of " + path, Documents{bytes_as_tokens(read_files(path)), {}}, order);
  }
  if (type == "tokens")
    return std::make_unique<Stream>("the tokens of " + path, Documents{read_tokens(path), {}}, order);
  Documents documents = read_jsonl(path, settings);
  if (settings.boolean("packing")) return std::make_unique<Stream>("the texts of " + path, std::move(documents), order);
  return std::make_unique<Unpacked>("the texts of " + path, std::move(documents), order,
                                    settings.integer("max_target_length"), settings.boolean("use_truncation"));
}

}  // namespace moesh::train
