#include "data/token_sequence.h"

#include <algorithm>
#include <cstring>

#include <fmt/core.h>

#include "base/error.h"
#include "base/progress.h"
#include "data/vocabulary.h"
#include "store/hash.h"

namespace moesh::data {
namespace {

constexpr std::int64_t kBlock = 1 << 16;  // tokens; few enough for a block to stay in a core's cache

template <typename T>
void widen(std::span<const std::byte> bytes, std::span<std::int32_t> tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    T id;
    std::memcpy(&id, bytes.data() + i * sizeof(T), sizeof(T));
    tokens[i] = static_cast<std::int32_t>(id);
  }
}

// Ids above the range of int32 become negative, which no vocabulary has either.
void decode(int width, std::span<const std::byte> bytes, std::span<std::int32_t> tokens) {
  switch (width) {
    case 1: return widen<std::uint8_t>(bytes, tokens);
    case 2: return widen<std::uint16_t>(bytes, tokens);
    default: return widen<std::uint32_t>(bytes, tokens);
  }
}

// Reads the tokens of files block by block.
class Blocks {
 public:
  Blocks(const DataFiles& files, int width) : files_(files), width_(width) {}

  // At most a block of tokens from a byte on, valid until the next one is read.
  std::span<const std::int32_t> read(std::int64_t first_byte, std::int64_t tokens) {
    const auto count = static_cast<std::size_t>(std::min(tokens, kBlock));
    bytes_.resize(count * static_cast<std::size_t>(width_));
    tokens_.resize(count);
    files_.read(first_byte, bytes_);
    decode(width_, bytes_, tokens_);
    return tokens_;
  }

 private:
  const DataFiles& files_;
  int width_;
  std::vector<std::byte> bytes_;
  Tokens tokens_;
};

// Whether the vocabulary has every id of that width, so that no id needs to be checked.
bool holds_every_id(std::int64_t vocab_size, int width) {
  return width < 4 && vocab_size >= std::int64_t{1} << (8 * width);
}

[[noreturn]] void refuse_id(std::int32_t id, std::int64_t position, int width, std::int64_t vocab_size,
                            const std::string& path) {
  const bool is_text = width == 1;
  refuse_foreign(
      fmt::format("token {} at position {}, read as {} a token", id, position, is_text ? "a byte" : fmt::format("{} bytes", width)),
      vocab_size, path, is_text ? "" : "; token_bytes says how long a token is");
}

// In a file of four-byte ids the upper halves are mostly zeros; in one of two-byte ids they are ids themselves, and hardly ever zero.
bool looks_like_four_bytes(const DataFiles& files, std::int64_t vocab_size) {
  const DataFile& file = files.files().front();
  Blocks blocks(files, 4);
  const std::span<const std::int32_t> tokens = blocks.read(0, file.bytes / 4);
  const std::int64_t most = std::max<std::int64_t>(vocab_size, 1 << 16);
  const auto near = std::count_if(tokens.begin(), tokens.end(), [&](std::int32_t id) { return id >= 0 && id < most; });
  return 2 * near >= static_cast<std::int64_t>(tokens.size());
}

}  // namespace

std::string HeldTokens::identity() const { return store::hash_text(store::hash_of(tokens_.data(), tokens_.size() * sizeof tokens_[0])); }

void HeldTokens::read(std::int64_t first, std::span<std::int32_t> tokens) const {
  std::copy_n(tokens_.begin() + first, tokens.size(), tokens.begin());
}

FileTokens::FileTokens(DataFiles files, int width, std::int64_t vocab_size) : files_(std::move(files)), width_(width) {
  check_sizes();
  if (!holds_every_id(vocab_size, width)) check_vocabulary(vocab_size);
}

std::string FileTokens::identity() const { return fmt::format("{} {}", width_, files_.identity()); }

void FileTokens::read(std::int64_t first, std::span<std::int32_t> tokens) const {
  std::vector<std::byte> bytes(tokens.size() * static_cast<std::size_t>(width_));
  files_.read(first * width_, bytes);
  decode(width_, bytes, tokens);
}

void FileTokens::check_sizes() const {
  for (const DataFile& file : files_.files()) {
    if (file.bytes % width_ == 0) continue;
    refuse(fmt::format("{} bytes are no whole number of {}-byte tokens", file.bytes, width_), file.path,
           "the file is cut short, or token_bytes says otherwise");
  }
}

void FileTokens::check_vocabulary(std::int64_t vocab_size) const {
  Blocks blocks(files_, width_);
  Progress progress("MiB of data looked through", files_.size() >> 20);
  for (const DataFile& file : files_.files()) {
    const std::int64_t count = file.bytes / width_;
    for (std::int64_t done = 0; done < count; done += kBlock) {
      const std::span<const std::int32_t> tokens = blocks.read(file.begin + done * width_, count - done);
      const auto foreign = first_foreign(tokens, vocab_size);
      if (foreign) refuse_id(tokens[*foreign], done + static_cast<std::int64_t>(*foreign), width_, vocab_size, file.path);
      progress.advance((file.begin + done * width_) >> 20);
    }
  }
}

int width_of(const DataFiles& files, const config::Settings& settings) {
  const std::string& given = settings.text("token_bytes");
  if (given != "detect") return given == "2" ? 2 : 4;
  const auto all = [&](auto holds) { return std::all_of(files.files().begin(), files.files().end(), holds); };
  if (all([](const DataFile& file) { return file.path.ends_with(".u16"); })) return 2;
  if (!all([](const DataFile& file) { return file.bytes % 4 == 0; })) return 2;
  return looks_like_four_bytes(files, settings.integer("vocab_size")) ? 4 : 2;
}

}  // namespace moesh::data
