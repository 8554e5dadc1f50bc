#include "data/megatron.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <vector>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "data/files.h"
#include "data/vocabulary.h"
#include "store/hash.h"

namespace moesh::data {
namespace {

static_assert(std::endian::native == std::endian::little, "the files' numbers have the lowest byte first");

constexpr std::string_view kMagic{"MMIDIDX\0\0", 9};
constexpr std::int64_t kHeader = 9 + 8 + 1 + 8 + 8;  // bytes: magic, version, type, numbers of sequences and of documents
constexpr std::int64_t kAtOnce = 1 << 14;            // entries of the index that are read at once
constexpr const char* kMadeAgain = "make the files again, or copy both of them again";

// Types of ids, by their code in the header.
struct IdType {
  int code, bytes;
  bool is_signed;
};
constexpr IdType kIdTypes[] = {{1, 1, false}, {2, 1, true}, {3, 2, true}, {4, 4, true}, {5, 8, true}, {8, 2, false}};

std::string stem_of(const std::string& path) {
  return path.ends_with(".bin") || path.ends_with(".idx") ? path.substr(0, path.size() - 4) : path;
}

// The index: for each sequence its number of tokens and where it begins in the other file, and for each document its first sequence.
class Index {
 public:
  explicit Index(const std::string& path) : file_(path), path_(path) {
    if (file_.size() < kHeader || file_.text(one(), 0, 9) != kMagic) {
      refuse("no index of token ids: it does not begin with MMIDIDX", path, kMadeAgain);
    }
    if (const auto version = number<std::uint64_t>(9); version != 1) {
      refuse(fmt::format("version {} of the index, 1 was expected", version), path, kMadeAgain);
    }
    const int code = number<std::uint8_t>(17);
    const auto type = std::find_if(std::begin(kIdTypes), std::end(kIdTypes), [&](const IdType& of) { return of.code == code; });
    if (type == std::end(kIdTypes)) refuse(fmt::format("ids of type {}, which are no integers", code), path, kMadeAgain);
    type_ = *type;
    const auto sequences = number<std::uint64_t>(18), marks = number<std::uint64_t>(26);
    const auto size = static_cast<std::uint64_t>(file_.size());  // a larger number of either would overflow the arithmetic below
    if (sequences > size || marks > size || marks == 0 || kHeader + 12 * sequences + 8 * marks > size) {
      refuse(fmt::format("{}, but {} and {} take {}: the index is cut short", counted(file_.size(), "byte"),
                         counted(static_cast<std::int64_t>(sequences), "sequence"), counted(static_cast<std::int64_t>(marks), "mark"),
                         kHeader + 12 * sequences + 8 * marks),
             path, kMadeAgain);
    }
    sequences_ = static_cast<std::int64_t>(sequences);
    documents_ = static_cast<std::int64_t>(marks) - 1;
  }

  std::int64_t sequences() const { return sequences_; }
  std::int64_t documents() const { return documents_; }
  const IdType& type() const { return type_; }

  std::int32_t tokens_of(std::int64_t sequence) const { return number<std::int32_t>(kHeader + 4 * sequence); }
  std::int64_t begin_of(std::int64_t sequence) const { return number<std::int64_t>(pointers() + 8 * sequence); }
  std::int64_t first_of(std::int64_t document) const { return number<std::int64_t>(marks() + 8 * document); }

  // Returns the tokens of all sequences. Refuses an index that does not fit a file of `bytes` bytes.
  std::int64_t check(std::int64_t bytes) const {
    std::int64_t tokens = 0;
    for (std::int64_t first = 0; first < sequences_; first += kAtOnce) {
      const std::int64_t count = std::min(kAtOnce, sequences_ - first);
      const auto sizes = numbers<std::int32_t>(kHeader + 4 * first, count);
      const auto begins = numbers<std::int64_t>(pointers() + 8 * first, count);
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        const std::int64_t size = sizes[i], at = begins[i];
        if (size < 0 || at < 0 || at > bytes || size * type_.bytes > bytes - at) {
          const std::int64_t sequence = first + static_cast<std::int64_t>(i);
          refuse(fmt::format("sequence {} is {} from byte {} on, in a .bin of {}", sequence, counted(size, "token"), at,
                             counted(bytes, "byte")),
                 path_, kMadeAgain);
        }
        tokens += size;
      }
    }
    check_documents();
    return tokens;
  }

 private:
  const DataFile& one() const { return file_.files().front(); }
  std::int64_t pointers() const { return kHeader + 4 * sequences_; }
  std::int64_t marks() const { return kHeader + 12 * sequences_; }

  void check_documents() const {
    std::int64_t last = 0;
    for (std::int64_t first = 0; first <= documents_; first += kAtOnce) {
      for (const std::int64_t mark : numbers<std::int64_t>(marks() + 8 * first, std::min(kAtOnce, documents_ + 1 - first))) {
        if (mark < last || mark > sequences_) {
          refuse(fmt::format("a document begins with sequence {}, after one that begins with {}, of {}", mark, last, sequences_), path_,
                 kMadeAgain);
        }
        last = mark;
      }
    }
    if (first_of(0) != 0 || last != sequences_) {
      refuse(fmt::format("documents go from sequence {} to {}, of {}", first_of(0), last, sequences_), path_, kMadeAgain);
    }
  }

  template <typename T>
  std::vector<T> numbers(std::int64_t at, std::int64_t count) const {
    std::vector<T> made(static_cast<std::size_t>(count));
    file_.read(at, std::as_writable_bytes(std::span(made)));
    return made;
  }
  template <typename T>
  T number(std::int64_t at) const {
    T made;
    file_.read(at, std::as_writable_bytes(std::span(&made, 1)));
    return made;
  }

  DataFiles file_;
  std::string path_;
  IdType type_{};
  std::int64_t sequences_ = 0, documents_ = 0;
};

class Megatron : public DocumentReader {
 public:
  Megatron(const std::string& stem, Split split, const config::Settings& settings)
      : path_(stem + ".bin"),
        split_(std::move(split)),
        vocab_size_(settings.integer("vocab_size")),
        index_(stem + ".idx"),
        ids_(path_),
        tokens_(index_.check(ids_.size())) {}

  std::string describe() const override {
    return fmt::format("the documents of {}, {} of {}", path_, counted(index_.documents(), "document"), counted(tokens_, "token"));
  }
  std::int64_t bytes() const override { return ids_.size(); }
  std::string identity() const override { return fmt::format("megatron {} {} {}", index_.documents(), tokens_, ids_.identity()); }
  std::int64_t blocks() const override { return index_.documents(); }

  void read(std::int64_t document, Documents& documents) const override {
    Tokens tokens;
    const std::int64_t end = index_.first_of(document + 1);
    for (std::int64_t sequence = index_.first_of(document); sequence < end; ++sequence) add(sequence, tokens);
    if (tokens.empty()) return;
    check(tokens, document);
    ++documents.seen;
    if (split_.takes(store::hash_of(tokens.data(), tokens.size() * sizeof(Tokens::value_type)))) documents.add(tokens);
  }

  void refuse_none() const override { refuse("no document has a token", path_, kMadeAgain); }

 private:
  void add(std::int64_t sequence, Tokens& tokens) const {
    const IdType& type = index_.type();
    const auto count = static_cast<std::size_t>(index_.tokens_of(sequence));
    const auto width = static_cast<std::size_t>(type.bytes);
    std::vector<std::byte> bytes(count * width);
    ids_.read(index_.begin_of(sequence), bytes);
    for (std::size_t i = 0; i < count; ++i) tokens.push_back(id_at(bytes.data() + i * width, type));
  }

  // Negative if it is not a token id.
  static std::int32_t id_at(const std::byte* bytes, const IdType& type) {
    std::int64_t id = 0;
    std::memcpy(&id, bytes, static_cast<std::size_t>(type.bytes));
    const bool is_negative = type.is_signed && (id >> (8 * type.bytes - 1) & 1) != 0;
    return is_negative || id > std::numeric_limits<std::int32_t>::max() ? -1 : static_cast<std::int32_t>(id);
  }

  void check(const Tokens& ids, std::int64_t document) const {
    const auto foreign = first_foreign(ids, vocab_size_);
    if (!foreign) return;
    const std::string what = ids[*foreign] < 0 ? "no token id" : fmt::format("token {}", ids[*foreign]);
    refuse_foreign(fmt::format("{} at position {} of document {}", what, *foreign, document), vocab_size_, path_);
  }

  std::string path_;
  Split split_;
  std::int64_t vocab_size_;
  Index index_;
  DataFiles ids_;
  std::int64_t tokens_;
};

}  // namespace

std::unique_ptr<DocumentReader> read_megatron(const std::string& path, const Split& split, const config::Settings& settings) {
  return std::make_unique<Megatron>(stem_of(path), split, settings);
}

}  // namespace moesh::data
